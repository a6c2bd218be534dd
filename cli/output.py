"""What commands print besides their result: it goes to stderr."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncscope.analysis.result import Analysis


def say(message: str) -> None:
    """One line from syncscope itself."""
    sys.stderr.write(f"syncscope: {message}\n")


def print_summary(analysis: Analysis) -> None:
    """The short summary of a run, in colour on a terminal."""
    from syncscope.reports.text_report import short_summary

    width = shutil.get_terminal_size().columns
    sys.stderr.write(short_summary(analysis, width=width, color=sys.stderr.isatty()))
