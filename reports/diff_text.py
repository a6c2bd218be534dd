"""A diff in the terminal, as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from syncscope.analysis.diff import Diff
from syncscope.reports.diff_view import CodeGroup, DiffView, diff_view
from syncscope.reports.plain_text import DEFAULT_WIDTH, columns, paragraph
from syncscope.units import quantity


def render_diff_text(diff: Diff, width: int = DEFAULT_WIDTH) -> str:
    """The diff as text, wrapped to `width` cells where that is possible."""
    return "\n".join(_lines(diff_view(diff), width)) + "\n"


def _lines(view: DiffView, width: int) -> Iterator[str]:
    yield from paragraph(f"{view.old} · {view.old_facts}", width, mark="old: ")
    yield from paragraph(f"{view.new} · {view.new_facts}", width, mark="new: ")
    yield ""
    yield from paragraph(view.sentence, width)
    for note in view.notes:
        yield from paragraph(note, width, mark="· ")
    if view.figures:
        yield ""
        head = (view.span, "old", "new", "change")
        rows = [head, *((row.label, row.old, row.new, row.change) for row in view.figures)]
        yield from columns(rows)
    for group in view.groups:
        yield ""
        yield from _group(group, width)
    if view.rest:
        yield ""
        yield from paragraph(view.rest, width)


def _group(group: CodeGroup, width: int) -> Iterator[str]:
    yield f"{group.title}: {quantity(group.total, 'flagged line')}"
    for row in group.rows:
        where = f"{row.location} in {row.function}" if row.function else row.location
        yield f"  {where}"
        yield from paragraph(row.expression, width, indent=6)
        sides = [("old:", row.old), ("new:", row.new)]
        yield from columns([side for side in sides if side[1] != "–"], indent=6)
    hidden = group.total - len(group.rows)
    if hidden:
        yield f"  {quantity(hidden, 'more line')} not shown; --format json has all."
