"""`syncscope export`: a recording for other viewers, for code review, for spreadsheets."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from syncscope.cli.choices import one_of
from syncscope.cli.ranks import is_job
from syncscope.errors import UsageError

if TYPE_CHECKING:
    from syncscope.analysis.result import Analysis

SUFFIXES = {"perfetto": ".perfetto.json", "sarif": ".sarif", "csv": ".csv"}
"""By target: what the name of the recording is followed by."""


def export(
    recording: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a recording.")],
    to: Annotated[
        str,
        typer.Option(
            help="perfetto (a trace for ui.perfetto.dev), sarif (for code review) or csv "
            "(the lines, for spreadsheets)."
        ),
    ] = "",
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Default: beside RUN. - is stdout. A name that ends in .gz is compressed.",
        ),
    ] = "",
) -> None:
    """Write a recording in a format that other programs read."""
    from syncscope.api import load
    from syncscope.cli.progress import progress

    one_of("--to", to, SUFFIXES)
    if is_job(recording):
        raise UsageError(f"{recording} is a job: name a rank in it")
    with progress("analysing") as done:
        analysis = load(recording, done).analysis
    with progress("writing"):
        pieces = _pieces(analysis, to)
        if output == "-":
            sys.stdout.flush()
            sys.stdout.buffer.writelines(pieces)
            return
        target = Path(output) if output else _beside(recording, SUFFIXES[to])
        _write(pieces, target)
    typer.echo(target)


def _pieces(analysis: Analysis, to: str) -> Iterator[bytes]:
    if to == "perfetto":
        from syncscope.reports.perfetto import perfetto_json

        yield from perfetto_json(analysis)
    elif to == "sarif":
        from syncscope.reports.sarif import sarif_json

        yield sarif_json(analysis)
    else:
        from syncscope.reports.csv_sites import sites_csv
        from syncscope.reports.sites import sorted_sites

        yield sites_csv(sorted_sites(analysis.summary.sites)).encode()


def _beside(recording: Path, suffix: str) -> Path:
    named = recording if recording.name not in ("", "..") else recording.resolve()
    return named.with_name(named.name + suffix)


def _write(pieces: Iterable[bytes], target: Path) -> None:
    """Raises UsageError where that is not possible."""
    try:
        with target.open("wb") as file:
            if target.suffix == ".gz":
                with _compressed(file) as packed:
                    packed.writelines(pieces)
            else:
                file.writelines(pieces)
    except OSError as error:
        raise UsageError(
            f"the export cannot be written to {target}: {error.strerror}. Name another file."
        ) from error


def _compressed(file: IO[bytes]) -> gzip.GzipFile:
    """Without name and time, so that equal content gives equal bytes."""
    return gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0)
