"""A progress bar for long work: on stderr, and only where that is a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Show a bar while the block runs; what it yields is told the part that is done, 0 to 1.

    Until it is told, the bar only says that something goes on. Nothing of it stays.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal or console.is_dumb_terminal:
        yield lambda part: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(
        *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as shown:
        task = shown.add_task(what, total=None)
        yield lambda part: shown.update(task, total=1.0, completed=part)
