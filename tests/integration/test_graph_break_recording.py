"""A readback that breaks a compiled graph, recorded by tests/gpu/programs.py on an H200."""

from __future__ import annotations

from pathlib import Path

from syncscope.analysis.pipeline import analyze
from syncscope.recording.reader import Recording

RECORDING = Path(__file__).resolve().parents[1] / "data" / "h200_programs" / "graph_break"


def test_the_line_that_breaks_the_graph_is_named_with_that_cause_and_nothing_else() -> None:
    analysis = analyze(Recording(RECORDING))
    flagged = [site for site in analysis.summary.sites if site.flagged]
    assert [(site.expression, site.cause, site.count) for site in flagged] == [
        ("y.sum().item()", "graph_break", 5)
    ]
    assert flagged[0].file.endswith("programs.py")
    assert analysis.summary.coverage.unattributed == 0
