"""`syncscope show`: the result of a recording in the terminal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from syncscope.cli.choices import one_of
from syncscope.cli.latest_run import OptionalRun, latest_unless_named
from syncscope.cli.ranks import is_job, print_job
from syncscope.errors import UsageError
from syncscope.reports.cause_help import CAUSE_HELP

if TYPE_CHECKING:
    from syncscope.api import Run
    from syncscope.reports.site_filter import SiteFilter

FORMATS = ("text", "json", "csv")


def show(
    run: OptionalRun = None,
    format: Annotated[str, typer.Option(help="text, json (summary.json) or csv.")] = "text",
    top: Annotated[
        int | None, typer.Option(min=1, help="Lines to list; default: 10 as text, else all.")
    ] = None,
    owner: Annotated[
        str, typer.Option(help="Only where this code waited: user, library or torch.")
    ] = "",
    cause: Annotated[str, typer.Option(help=f"Only this cause: {', '.join(CAUSE_HELP)}.")] = "",
    file: Annotated[
        str, typer.Option(metavar="GLOB", help="Only files whose path or name matches.")
    ] = "",
    everything: Annotated[
        bool, typer.Option("--all", help="As text: lines that were not flagged, too; no limit.")
    ] = False,
) -> None:
    """Show what a recording says: the verdict, the lines that matter, what to write instead.

    Formats json and csv hold all lines, flagged or not.
    """
    from syncscope.cli.output import write_stdout

    one_of("--format", format, FORMATS)
    recording = latest_unless_named(run)
    if is_job(recording):
        if format == "csv" or top or owner or cause or file or everything:
            raise UsageError(f"{recording} is a job: to choose lines, name a rank in it")
        print_job(recording, as_json=format == "json")
        return
    only = _filter(owner, cause, file, top, flagged=format == "text" and not everything)
    analysed = _analysed(recording)
    if format == "json":
        from dataclasses import replace

        from syncscope.reports.json_report import summary_json

        summary = analysed.summary()
        write_stdout(summary_json(replace(summary, sites=tuple(only.chosen(summary.sites)))))
    elif format == "csv":
        from syncscope.reports.csv_sites import sites_csv
        from syncscope.reports.sites import sorted_sites

        write_stdout(sites_csv(only.chosen(sorted_sites(analysed.summary().sites))).encode())
    else:
        from syncscope.cli.output import stdout_console
        from syncscope.reports.text_report import print_text

        print_text(analysed.analysis, stdout_console(), only)


def _filter(owner: str, cause: str, file: str, top: int | None, *, flagged: bool) -> SiteFilter:
    """Raises UsageError for an owner or a cause that there is not."""
    from syncscope.reports.site_filter import OWNERS, SiteFilter
    from syncscope.reports.text_report import DEFAULT_TOP

    if owner:
        one_of("--owner", owner, OWNERS)
    if cause:
        cause = cause.strip().replace(" ", "_").replace("-", "_")  # as reports show it
        one_of("--cause", cause, CAUSE_HELP)
    if flagged and top is None:
        top = DEFAULT_TOP
    return SiteFilter(owner=owner, cause=cause, file=file, top=top, flagged_only=flagged)


def _analysed(recording: Path) -> Run:
    from syncscope.api import load
    from syncscope.cli.progress import progress

    with progress("analysing") as done:
        run = load(recording, done)
        run.summary()
    return run
