"""`syncscope report`: write the HTML report of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syncscope.cli.latest_run import OptionalRun, latest_unless_named
from syncscope.cli.ranks import is_job, write_job_report


def report(
    run: OptionalRun = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File; default: report.html in RUN.")
    ] = None,
) -> None:
    """Write the report as one self-contained HTML file."""
    from syncscope.api import load
    from syncscope.cli.progress import progress

    recording = latest_unless_named(run)
    if is_job(recording):
        typer.echo(write_job_report(recording, output))
        return
    with progress("analysing") as done:
        loaded = load(recording, done)
        loaded.summary()
    with progress("writing the report"):
        path = loaded.report(output)
    typer.echo(path)
