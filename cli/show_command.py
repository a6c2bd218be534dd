"""`syncscope show`: the result of a recording in the terminal."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class ShowFormat(StrEnum):
    """Formats of `syncscope show`."""

    text = "text"
    json = "json"


def show(
    recording: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a recording.")],
    format: Annotated[ShowFormat, typer.Option(help="text, or summary.json.")] = ShowFormat.text,
) -> None:
    """Show what a recording says."""
    from syncscope.api import load

    run = load(recording)
    if format is ShowFormat.json:
        from syncscope.reports.json_report import summary_json

        sys.stdout.write(summary_json(run.summary()).decode())
        return
    from rich.console import Console

    from syncscope.reports.text_report import print_text

    print_text(run.analysis, Console())
