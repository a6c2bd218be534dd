"""`syncscope report`: write the HTML report of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syncscope.cli.ranks import is_job, write_job_report


def report(
    recording: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a recording.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File; default: report.html in RUN.")
    ] = None,
) -> None:
    """Write the report as one self-contained HTML file."""
    from syncscope.api import load
    from syncscope.cli.progress import progress

    if is_job(recording):
        typer.echo(write_job_report(recording, output))
        return
    with progress("analysing") as done:
        run = load(recording, done)
        run.summary()
    with progress("writing the report"):
        path = run.report(output)
    typer.echo(path)
