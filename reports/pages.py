"""What all HTML pages share: templates, static files, writing. No page uses the network."""

from __future__ import annotations

import re
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from syncscope.errors import UsageError
from syncscope.units import duration, percent

_HERE = Path(__file__).parent
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def template(name: str) -> Template:
    """One of our templates; every value that it is filled with is escaped."""
    environment = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"percent": percent, "duration": duration, "codes": codes}
    return environment.get_template(name)


def codes(text: str) -> Markup:
    """Escaped text in which what stands between backticks is code."""
    return Markup(re.sub("`([^`\n]+)`", r"<code>\1</code>", str(escape(text))))


def static(name: str) -> str:
    """The text of one of our scripts and styles."""
    return (_HERE / "static" / name).read_text(encoding="utf-8")


def render_page(name: str, **values: object) -> str:
    """A page without scripts, in the report's style. Equal values, equal text."""
    # Markup is text that is not escaped any more: our own file.
    styles = Markup(static("report.css"))
    return template(name).render(styles=styles, policy=_POLICY, **values)


def write_page(text: str, path: Path) -> None:
    """Write a page. Raises UsageError where that is not possible."""
    try:
        path.write_text(text, encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(
            f"the report cannot be written to {path}: {error.strerror}. Name another file."
        ) from error
