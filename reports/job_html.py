"""The report of a job as one HTML file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from syncscope.analysis.job import Job
from syncscope.records import Summary
from syncscope.reports.job_view import job_view
from syncscope.reports.pages import render_page, write_page
from syncscope.reports.ranks import rank_charts


def render_job_html(job: Job, summaries: Mapping[int, Summary]) -> str:
    """The page as text; the same job gives the same text. `summaries` are those of its ranks."""
    return render_page("job.html.j2", view=job_view(job), charts=rank_charts(summaries))


def write_job_html(job: Job, summaries: Mapping[int, Summary], path: Path) -> None:
    """Write the page to `path`. Raises UsageError where that is not possible."""
    write_page(render_job_html(job, summaries), path)
