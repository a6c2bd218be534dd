"""Which recording a command is about where none was named, or a folder of several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syncscope.cli.output import say
from syncscope.errors import UsageError

OptionalRun = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN",
        help="Folder of a recording; without it, or with a folder of several, the latest.",
        show_default=False,
    ),
]


def latest_unless_named(recording: Path | None) -> Path:
    """The recording itself, or the latest one in the folder, which is then said.

    Raises UsageError where no recording was named and there is none.
    """
    from syncscope.recording.folders import RUNS_FOLDER, latest_recording

    folder = recording or RUNS_FOLDER
    found = latest_recording(folder)
    if found is None:
        if recording is None:
            raise UsageError(f"name a recording: there is none in {folder}")
        return folder
    if found != folder:
        say(f"{found} is the latest recording in {folder}")
    return found
