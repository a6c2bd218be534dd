"""`syncscope import`: a torch.profiler trace becomes a recording."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncscope.units import quantity

if TYPE_CHECKING:
    from syncscope.analysis.result import Analysis


def import_trace(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A .json or .json.gz trace.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the recording.")
    ] = None,
) -> None:
    """Turn a trace of torch.profiler into a recording, and show it."""
    import pyarrow as pa

    from syncscope.api import load
    from syncscope.cli.output import print_summary, say
    from syncscope.cli.progress import progress
    from syncscope.recording.folders import next_folder
    from syncscope.recording.trace_import import import_trace as import_into

    pa.set_memory_pool(pa.system_memory_pool())  # the default one keeps 20 MB more
    stem = re.sub(r"[^\w.-]", "_", trace.name.removesuffix(".gz").removesuffix(".json"))
    folder = output or next_folder(stem)
    with progress("reading the trace") as done:
        import_into(trace, folder, progress=done)
    with progress("analysing") as done:
        run = load(folder, done)
        analysis = run.analysis
    print_summary(analysis)
    if missing := _missing_lines(analysis):
        say(missing)
    run.save_summary()
    with progress("writing the report"):
        path = run.report()
    typer.echo(path)


def _missing_lines(analysis: Analysis) -> str:
    """What to record so that waits have lines; "" where they have them, or stacks did not help."""
    coverage = analysis.summary.coverage
    without_stacks = any(
        collector.name == "stacks" and collector.state == "off"
        for collector in analysis.manifest.collectors
    )
    if not coverage.unattributed or not without_stacks:
        return ""
    return (
        f"the trace holds no Python stacks, so {coverage.unattributed:,} of "
        f"{quantity(coverage.blocking_calls, 'blocking call')} have no line: record it with "
        "ProfilerActivity.CPU and with_stack=True"
    )
