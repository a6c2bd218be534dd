"""`syncscope diff`: what changed between two recordings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from syncscope.cli.choices import one_of

FORMATS = ("text", "json")


def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Recording or job, before.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Recording or job, after.")],
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write an HTML page to this file instead.")
    ] = None,
    fail: Annotated[
        bool,
        typer.Option(
            "--fail",
            help="Exit with 1 if steps got longer by more than noise (estimated ones by 25 %), or "
            "a line worth fixing is new or has grown.",
        ),
    ] = False,
) -> None:
    """Compare two recordings: step time, idle time, and the lines that wait or copy.

    Lines are matched by their code, not by their number; times by their median over the
    steady steps, with its interval.
    """
    from syncscope.analysis.diff import diff_of
    from syncscope.cli.output import write_stdout
    from syncscope.cli.ranks import analyses_of, write_text
    from syncscope.reports.diff_text import render_diff_text
    from syncscope.reports.json_report import record_json

    one_of("--format", format, FORMATS)
    before, after = ([analysis for _, analysis in analyses_of(side)] for side in (old, new))
    found = diff_of(before, after, (str(old), str(new)))
    if output is not None:
        from syncscope.reports.diff_html import write_diff_html

        write_diff_html(found, output)
        typer.echo(output)
    elif format == "json":
        write_stdout(record_json(found))
    else:
        write_text(lambda width: render_diff_text(found, width))
    if fail and found.worse:
        raise typer.Exit(1)
