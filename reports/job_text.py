"""The report of a job in the terminal, as plain text."""

from __future__ import annotations

from collections.abc import Iterator

from syncscope.analysis.job import Job
from syncscope.reports.job_view import JobView, job_view
from syncscope.reports.plain_text import DEFAULT_WIDTH, columns, paragraph
from syncscope.units import quantity

TOP_SITES = 10


def render_job_text(job: Job, width: int = DEFAULT_WIDTH) -> str:
    """The job as text; the table of the ranks is as wide as it must be."""
    return "\n".join(_lines(job_view(job), width)) + "\n"


def _lines(view: JobView, width: int) -> Iterator[str]:
    yield from paragraph(f"{view.program} · {view.subtitle}", width)
    yield ""
    yield from paragraph(view.sentence, width)
    if view.explanation:
        yield from paragraph(view.explanation, width)
    for note in view.notes:
        yield from paragraph(note, width, mark="· ")
    yield ""
    yield from columns([view.head, *view.ranks], right=True)
    yield ""
    yield from _sites(view, width)


def _sites(view: JobView, width: int) -> Iterator[str]:
    if not view.sites:
        yield "No line was flagged on any rank."
    for number, row in enumerate(view.sites[:TOP_SITES], start=1):
        where = f"{row.location} in {row.function}" if row.function else row.location
        yield f"{number:>2}. {where}  {row.verdict}"
        yield from paragraph(row.expression, width, indent=8)
        yield from paragraph(f"costs a step: {row.costs}", width, indent=4)
    more = view.sites_total - len(view.sites[:TOP_SITES])
    if more > 0:
        yield f"{quantity(more, 'more flagged line')} not shown."
    if view.unflagged:
        yield f"Not flagged: {quantity(view.unflagged, 'more line')} recorded."
