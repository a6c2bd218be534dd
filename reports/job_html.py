"""The report of a job as one HTML file."""

from __future__ import annotations

from pathlib import Path

from syncscope.analysis.job import Job
from syncscope.reports.job_view import job_view
from syncscope.reports.small_page import render_page, write_page


def render_job_html(job: Job) -> str:
    """The page as text; the same job gives the same text."""
    return render_page("job.html.j2", view=job_view(job))


def write_job_html(job: Job, path: Path) -> None:
    """Write the page to `path`. Raises UsageError where that is not possible."""
    write_page(render_job_html(job), path)
