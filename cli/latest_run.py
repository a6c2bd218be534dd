"""Which recording a command is about where none was named, or a folder of several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syncscope.cli.output import say
from syncscope.errors import UsageError

MAX_LISTED = 4

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

    One in which nothing was recorded is passed over if there is another. Raises UsageError
    where no recording was named and there is none.
    """
    from syncscope.recording.folders import RUNS_FOLDER, holds_events, recordings_in

    folder = recording or RUNS_FOLDER
    found = recordings_in(folder)
    if not found:
        if recording is None:
            raise UsageError(f"name a recording: there is none in {folder}")
        return folder
    if found == [folder]:
        return folder
    latest = next((path for path in found if holds_events(path)), found[0])
    empty = found[: found.index(latest)]
    passed_over = f" but for {_listed(empty)}, where nothing was recorded" if empty else ""
    still = "; it is still being recorded" if _live(latest) else ""
    say(f"{latest} is the latest recording in {folder}{passed_over}{still}")
    return latest


def _listed(folders: list[Path]) -> str:
    more = len(folders) - MAX_LISTED
    names = ", ".join(folder.name for folder in folders[:MAX_LISTED])
    return f"{names} and {more} more" if more > 0 else names


def _live(recording: Path) -> bool:
    from syncscope.recording.folders import recordings_of
    from syncscope.recording.reader import Recording

    return any(Recording(path).live for path in recordings_of(recording))
