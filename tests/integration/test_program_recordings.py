"""Recordings of an H200 that show one thing each, analysed without a GPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from syncscope.analysis.pipeline import analyze
from syncscope.recording.reader import Recording

RECORDINGS = Path(__file__).resolve().parents[1] / "data" / "h200_programs"


def test_the_line_that_breaks_the_graph_is_named_with_that_cause_and_nothing_else() -> None:
    analysis = analyze(Recording(RECORDINGS / "graph_break"))
    flagged = [site for site in analysis.summary.sites if site.flagged]
    assert [(site.expression, site.cause, site.count) for site in flagged] == [
        ("y.sum().item()", "graph_break", 5)
    ]
    assert flagged[0].file.endswith("programs.py")
    assert analysis.summary.coverage.unattributed == 0


def test_a_step_is_as_long_in_each_of_several_windows_as_its_marks_are_apart() -> None:
    """CUPTI counted from 1 in each window: a launch was taken for that of another's activity."""
    recording = Recording(RECORDINGS / "windows")
    analysis = analyze(recording)
    assert len(recording.manifest.windows) == 3
    steady = [step for step in analysis.summary.steps if step.steady]
    assert len(steady) == 9
    lengths = np.array([step.length_ns for step in steady])
    between = np.array([step.end_ns - step.start_ns for step in steady])
    assert np.all(np.abs(lengths - between) < 0.1 * between)
    activity, runtime = recording.table("activity"), recording.table("runtime")
    launches = runtime[runtime["correlation_id"] > 0].set_index("correlation_id")["start_ns"]
    late = activity["start_ns"] - activity["correlation_id"].map(launches)
    assert launches.index.is_unique
    assert late.notna().all()
    assert late.between(0, 20_000_000).all()
