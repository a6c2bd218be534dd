"""The lines around a site, with the exact expression marked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from syncscope.records import Site
from syncscope.reports.visible_text import visible_block

MAX_LINE_LENGTH = 240
"""Characters; a longer line is cut around the expression."""
MAX_EXPRESSION_LINES = 12


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of code in three parts, the middle one being (a part of) the expression.

    `hit` says that the site covers the line, also where its columns are unknown and
    nothing is marked. Tabs are kept; other control characters are escaped.
    """

    number: int
    before: str
    marked: str
    after: str
    hit: bool


def excerpt(source: str, site: Site, context: int = 2) -> tuple[SourceLine, ...]:
    """The site's lines and `context` lines on either side; empty when there are none."""
    # Not splitlines(): it also splits at form feeds and the like, where Python does not.
    lines = source.split("\n")
    if not 1 <= site.line <= len(lines):
        return ()
    last_hit = min(max(site.end_line, site.line), len(lines))
    shown_hit = min(last_hit, site.line + MAX_EXPRESSION_LINES - 1)
    first = max(1, site.line - context)
    last = min(len(lines), shown_hit + context) if shown_hit == last_hit else shown_hit
    return tuple(
        cropped(_parts(lines[number - 1].rstrip("\r"), number, site), MAX_LINE_LENGTH)
        for number in range(first, last + 1)
    )


def cropped(line: SourceLine, limit: int, width_of: Callable[[str], int] = len) -> SourceLine:
    """The line cut to `limit` with the expression kept in sight.

    `width_of` measures a text; a terminal counts cells, where some characters take two.
    """
    if width_of(line.before + line.marked + line.after) <= limit:
        return line
    marked = _head(line.marked, max(limit - 4, limit * 3 // 4), width_of)
    room = limit - width_of(marked)
    before = _tail(line.before, max(room * 2 // 3, room - width_of(line.after)), width_of)
    after = _head(line.after, room - width_of(before), width_of)
    return replace(line, before=before, marked=marked, after=after)


def _parts(text: str, number: int, site: Site) -> SourceLine:
    hit = site.line <= number <= max(site.end_line, site.line)
    start, end = _marked_columns(text, number, site) if hit else (len(text), len(text))
    before, marked, after = text[:start], text[start:end], text[end:]
    return SourceLine(number, _shown(before), _shown(marked), _shown(after), hit)


def _marked_columns(text: str, number: int, site: Site) -> tuple[int, int]:
    nothing = (len(text), len(text))
    if site.column < 1 or site.end_column < 1:
        only = text.find(site.expression) if site.expression else -1
        if only < 0 or text.find(site.expression, only + 1) >= 0:
            return nothing
        return only, only + len(site.expression)
    indent = len(text) - len(text.lstrip())
    start = site.column - 1 if number == site.line else indent
    end = site.end_column - 1 if number >= site.end_line else len(text.rstrip())
    end = min(end, len(text))
    return (start, end) if start < end else nothing


def _shown(text: str) -> str:
    return visible_block(text, limit=len(text) + 1)


def _head(text: str, limit: int, width_of: Callable[[str], int]) -> str:
    if width_of(text) <= limit:
        return text
    return _fitting(text, limit - 1, width_of) + "…" if limit > 0 else ""


def _tail(text: str, limit: int, width_of: Callable[[str], int]) -> str:
    if width_of(text) <= limit:
        return text
    return "…" + _fitting(text[::-1], limit - 1, width_of)[::-1] if limit > 0 else ""


def _fitting(text: str, limit: int, width_of: Callable[[str], int]) -> str:
    """The longest beginning that is no wider than `limit`."""
    used = 0
    for index, character in enumerate(text):
        used += width_of(character)
        if used > limit:
            return text[:index]
    return text
