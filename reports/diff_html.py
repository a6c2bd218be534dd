"""A diff as one HTML file."""

from __future__ import annotations

from pathlib import Path

from syncscope.analysis.diff import Diff
from syncscope.reports.diff_view import diff_view
from syncscope.reports.pages import render_page, write_page


def render_diff_html(diff: Diff) -> str:
    """The page as text; the same diff gives the same text."""
    return render_page("diff.html.j2", view=diff_view(diff))


def write_diff_html(diff: Diff, path: Path) -> None:
    """Write the page to `path`. Raises UsageError where that is not possible."""
    write_page(render_diff_html(diff), path)
