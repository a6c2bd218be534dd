"""A recording in a notebook: the verdict and the first sites, as a piece of HTML.

It has no style sheet, no script and no identifier, so that it touches nothing else on the page.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape

from syncscope.analysis.result import Analysis
from syncscope.errors import SyncscopeError
from syncscope.reports.view import report_view
from syncscope.reports.visible_text import visible

MAX_SITES = 5


def card_html(analysis: Analysis, report: Path | None) -> str:
    """The card; `report` is the full report to link to, if it has been written."""
    view = report_view(analysis)
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    rows = view.flagged[:MAX_SITES]
    return environment.get_template("notebook.html.j2").render(
        view=view,
        rows=rows,
        more=view.flagged_total - len(rows),
        link=_link(report) if report else "",
    )


def error_html(error: SyncscopeError) -> str:
    """Why there is nothing to show."""
    return f"<div>{escape(visible(str(error), 1_000))}</div>"


def _link(report: Path) -> str:
    """Relative to the working folder, which is the notebook's: a page may not open file URLs."""
    return quote(os.path.relpath(report), errors="replace")
