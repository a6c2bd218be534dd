"""What commands print: the result to stdout, everything else to stderr."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.console import Console

    from syncscope.analysis.result import Analysis


def say(message: str) -> None:
    """One line from syncscope itself."""
    _say_to(sys.stderr, message)


def say_aside(message: str) -> None:
    """One line while the program runs, which may have put a file of its own for stderr."""
    _say_to(sys.__stderr__, message)


def _say_to(stream: TextIO | None, message: str) -> None:
    with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or None
        stream.write(f"syncscope: {message}\n")  # type: ignore[union-attr]


@contextlib.contextmanager
def real_stderr() -> Iterator[None]:
    """Let `sys.stderr` be the process's own for a while, or nothing if that is closed.

    A program may have replaced it, by a log file of its own say, closed it, or set it to None.
    """
    stream = sys.__stderr__
    try:
        if stream is None:
            raise ValueError("no stderr")
        stream.flush()
    except (OSError, ValueError):
        stream = None
    if stream is not None:
        with contextlib.redirect_stderr(stream):
            yield
        return
    with open(os.devnull, "w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        yield


def print_summary(analysis: Analysis) -> None:
    """The short summary of a run, in colour on a terminal."""
    from rich.console import Console

    from syncscope.reports.text_report import print_short_summary

    print_short_summary(analysis, Console(stderr=True))


def write_stdout(content: bytes) -> None:
    """A result that is UTF-8, whatever encoding the terminal has."""
    sys.stdout.flush()
    sys.stdout.buffer.write(content)


def stdout_console() -> Console:
    """For a result as text. Not on a terminal, its width does not depend on one."""
    from rich.console import Console

    from syncscope.reports.plain_text import DEFAULT_WIDTH

    told = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if told else DEFAULT_WIDTH, highlight=False)
