"""What commands print besides their result: it goes to stderr."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncscope.analysis.result import Analysis


def say(message: str) -> None:
    """One line from syncscope itself."""
    sys.stderr.write(f"syncscope: {message}\n")


def print_summary(analysis: Analysis) -> None:
    """The short summary of a run, in colour on a terminal."""
    from rich.console import Console

    from syncscope.reports.text_report import print_short_summary

    print_short_summary(analysis, Console(stderr=True))
