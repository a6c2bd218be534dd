"""HTML pages without a timeline: a template, the report's style, no script, no network."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from syncscope.errors import UsageError

_HERE = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def render_page(template: str, **values: object) -> str:
    """One of our templates, filled; every value in it is escaped. Equal values, equal text."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    styles = (_HERE / "static" / "report.css").read_text(encoding="utf-8")
    # Markup is text that is not escaped any more: our own file.
    page = environment.get_template(template)
    return page.render(styles=Markup(styles), policy=_POLICY, **values)


def write_page(text: str, path: Path) -> None:
    """Write a page. Raises UsageError where that is not possible."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(
            f"the page cannot be written to {path}: {error.strerror}. Name another file."
        ) from error
