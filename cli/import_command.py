"""`syncscope import`: a torch.profiler trace becomes a recording."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer


def import_trace(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="A .json or .json.gz trace.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the recording.")
    ] = None,
) -> None:
    """Turn a trace of torch.profiler into a recording, and show it."""
    import pyarrow as pa

    from syncscope.api import load
    from syncscope.cli.output import print_summary
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
    run.save_summary()
    with progress("writing the report"):
        path = run.report()
    typer.echo(path)
