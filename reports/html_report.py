"""The HTML report: one file that works from disk, with the network off."""

from __future__ import annotations

import base64
import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from syncscope.analysis.result import Analysis
from syncscope.reports.pages import static, template, write_page
from syncscope.reports.sites import SiteRow
from syncscope.reports.timeline import timeline_of
from syncscope.reports.timeline_packing import packed_timeline
from syncscope.reports.view import report_view

_TIMELINE_SCRIPTS = ("columns.js", "timeline_data.js", "timeline_words.js", "timeline.js")
_JSON_ESCAPES = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def render_html(analysis: Analysis) -> str:
    """The whole report as one HTML document. The same recording gives the same text.

    Costs about a second and 5 MB of output, which is plotly.js; where there is nothing to
    draw, plotly.js is left out. A million activities cost about 10 s and 4 MB more.
    """
    view = report_view(analysis)
    timeline = timeline_of(analysis, list(view.site_anchors))
    data, columns = packed_timeline(timeline)
    data["sites"] = [_site_data(row) for row in (*view.flagged, *view.unflagged)]
    data["simulated"] = view.simulated
    scripts = [static("sites_table.js"), static("report.js")]
    if timeline.tracks:
        scripts = [_plotly_js(), *map(static, _TIMELINE_SCRIPTS), *scripts]
    # Markup is text that is not escaped any more: our own files, plotly's, and escaped JSON.
    return template("report.html.j2").render(
        view=view,
        timeline=timeline,
        data=Markup(_script_json(data)),
        columns=columns,
        styles=Markup(static("report.css")),
        scripts=[Markup(script) for script in scripts],
        policy=_policy(scripts),
    )


def write_html(analysis: Analysis, path: str | Path) -> None:
    """Write the report to `path`. Raises UsageError where that is not possible."""
    write_page(render_html(analysis), Path(path))


def _plotly_js() -> str:
    # The import adds warning filters, which the program that is profiled must not find.
    with warnings.catch_warnings():
        from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    # A browser reads both as line feeds, and would then refuse the script by its hash.
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _policy(scripts: list[str]) -> str:
    """Nothing is loaded from anywhere, and no script runs but ours, whatever names contain."""
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    allowed = " ".join(f"'sha256-{value}'" for value in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in; lone surrogates are escaped."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_JSON_ESCAPES)


def _site_data(row: SiteRow) -> Mapping[str, str]:
    return {"anchor": row.anchor, "location": row.location, "expression": row.expression}
