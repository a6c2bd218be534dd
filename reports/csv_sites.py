"""The sites as CSV (RFC 4180), a row each, for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from syncscope.records import Site
from syncscope.reports.visible_text import one_line, visible

COLUMNS = (
    "id", "verdict", "flagged", "file", "line", "end_line", "column", "end_column", "function",
    "expression", "cause", "kind", "owner", "library_line", "op", "direction", "pageable",
    "explicit", "blocking", "sampled", "count", "per_step", "size_bytes", "blocked_ns",
    "exposed_idle_ns", "savings_ns_per_step", "advice_title", "advice_text", "rewrite", "origin",
    "moves_to", "reason", "stack",
)  # fmt: skip
FORMULA = ("=", "+", "-", "@")
MAX_CELL = 32_000
"""Characters; spreadsheets cut cells at 32,767."""


def sites_csv(sites: Iterable[Site]) -> str:
    """A header and a row for each site, in the given order; lines end in CR LF.

    What is unknown is an empty cell. Texts stand on one line. One that a spreadsheet would run
    as a formula gets a leading quote. Equal sites give equal text.
    """
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for site in sites:
        cells = _cells(site)
        writer.writerow([_cell(cells[name]) for name in COLUMNS])
    return out.getvalue()


def _cells(site: Site) -> dict[str, object]:
    own = {name: getattr(site, name, None) for name in COLUMNS}
    for name in ("line", "end_line", "column", "end_column"):
        own[name] = own[name] if getattr(site, name) > 0 else None
    origin = site.origin
    return own | {
        "expression": one_line(site.expression, MAX_CELL),
        "advice_title": site.advice.title,
        "advice_text": site.advice.text,
        "rewrite": site.advice.rewrite,
        "origin": f"{origin.file}:{origin.line}: {origin.expression}" if origin else None,
        "stack": " < ".join(f"{frame.file}:{frame.line} {frame.function}" for frame in site.stack),
    }


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return str(value)
    text = visible(value, MAX_CELL)
    return f"'{text}" if text.lstrip().startswith(FORMULA) else text
