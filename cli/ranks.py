"""Commands that take a recording take a job as well: the ranks of one run."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from syncscope.analysis.job import Job
    from syncscope.analysis.result import Analysis
    from syncscope.records import Summary


def is_job(folder: Path) -> bool:
    """Whether the folder holds the recordings of several ranks, and is none itself."""
    from syncscope.recording.folders import rank_folders

    return bool(rank_folders(folder))


def analyses_of(folder: Path) -> Iterator[tuple[int, Analysis]]:
    """The rank and the analysis of each recording of a job, one by one; of a recording its own.

    Raises RecordingError if the folder is neither.
    """
    from syncscope.analysis.pipeline import analyze
    from syncscope.recording.folders import rank_folders
    from syncscope.recording.reader import Recording

    ranks = rank_folders(folder)
    if not ranks:
        recording = Recording(folder)
        yield recording.manifest.rank, analyze(recording)
    for rank, path in ranks.items():
        yield rank, analyze(Recording(path))


def print_job(folder: Path, *, as_json: bool) -> None:
    """Print what the ranks of a job say together."""
    from syncscope.cli.output import write_stdout
    from syncscope.reports.job_text import render_job_text
    from syncscope.reports.json_report import record_json

    job = _job(folder)
    if as_json:
        write_stdout(record_json(job))
    else:
        write_text(lambda width: render_job_text(job, width))


def write_job_report(folder: Path, output: Path | None) -> Path:
    """Write the report of a job (default: report.html in it); returns its path."""
    from syncscope.reports.job_html import write_job_html

    path = output or folder / "report.html"
    summaries: dict[int, Summary] = {}
    write_job_html(_job(folder, summaries), summaries, path)
    return path


def write_text(render: Callable[[int], str]) -> None:
    """Print a text that is made for a width in cells, in what the terminal can show."""
    from syncscope.reports.plain_text import DEFAULT_WIDTH, printable

    width = shutil.get_terminal_size((DEFAULT_WIDTH, 24)).columns
    sys.stdout.write(printable(render(width), sys.stdout.encoding))


def _job(folder: Path, summaries: dict[int, Summary] | None = None) -> Job:
    """Read the ranks together; on the way, put the summary of each into `summaries`."""
    from syncscope.analysis.job import job_of
    from syncscope.cli.progress import progress

    def noted() -> Iterator[tuple[int, Analysis]]:
        for rank, analysis in analyses_of(folder):
            if summaries is not None:
                summaries[rank] = analysis.summary
            yield rank, analysis

    with progress("analysing the ranks"):
        return job_of(noted())
