"""What a reader must know before believing the numbers: each gap gets its own clear words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from syncscope.analysis.result import Analysis
from syncscope.recording.manifest import Manifest
from syncscope.records import RunSummary, Summary
from syncscope.reports.recorded import device_model, exit_in_words
from syncscope.reports.visible_text import visible
from syncscope.units import percent, quantity

MAX_TEXT = 400
LARGE_SHARE = 0.05
"""Of calls without a line, or of the replay's error: above this the reader is warned."""


@dataclass(frozen=True, slots=True)
class Caveat:
    """`level` is warning (numbers may mislead) or note."""

    level: str
    text: str


def caveats_of(analysis: Analysis) -> tuple[Caveat, ...]:
    """All caveats of a recording, warnings first."""
    found = [*_about_run(analysis), *recorders_caveats(analysis.manifest)]
    found += _about_coverage(analysis.summary, analysis.manifest)
    return tuple(sorted(found, key=lambda caveat: caveat.level != "warning"))


def _about_run(analysis: Analysis) -> Iterator[Caveat]:
    run, manifest = analysis.summary.run, analysis.manifest
    if run.simulated:
        model = device_model(run.device) or "an unnamed GPU"
        yield Caveat(
            "note",
            f"Recorded on a shadow GPU: no real GPU was used. Lines and counts come from the "
            f"rules of when PyTorch waits, times from a model of {model}; Python and numpy work "
            "outside of torch is not counted.",
        )
    if run.truncated:
        yield Caveat("warning", _unfinished(run, manifest))
    if manifest.exit is not None and (manifest.exit.code or manifest.exit.exception):
        ending = exit_in_words(manifest.exit)
        verb = "ended with" if ending.startswith("exit code") else "was"
        yield Caveat("warning", f"The program {verb} {ending}.")
    if run.imported:
        yield Caveat(
            "note",
            "Imported from a trace: syncscope was not watching, so lines are known only where "
            "the trace holds stacks, and expressions not at all.",
        )
    used = analysis.summary.sites or any(gpu.busy_ns for gpu in analysis.summary.gpu)
    if run.steps <= 1 and used:
        yield Caveat(
            "note",
            "Fewer than two steps were recorded, so figures are totals of the recording. Call "
            "syncscope.step() at the end of each step to get them per step.",
        )


def _unfinished(run: RunSummary, manifest: Manifest) -> str:
    if run.live:
        later = "" if run.simulated else " GPU activity of a window is added when it ends."
        return f"Still being recorded: these are the figures so far.{later}"
    if run.live is None and manifest.process is not None:
        host = visible(manifest.process.host, 80)
        return (
            f"The recording has no end: the run was cut short, or still goes on at {host}. What "
            "was written so far is in this report."
        )
    return (
        "The run was cut short: all that was written before is in this report, what came after "
        "is missing."
    )


def recorders_caveats(manifest: Manifest) -> Iterator[Caveat]:
    """Those that the recorder knew of: what it could not record, what it lost, and its notes."""
    for collector in manifest.collectors:
        name = visible(collector.name, 60)
        if collector.state == "failed":
            reason = visible(collector.reason, MAX_TEXT) or "no reason was given"
            yield Caveat("warning", f"Not recorded: {name} failed ({reason}).")
        if collector.lost:
            lost = quantity(collector.lost, "event")
            yield Caveat("warning", f"{name} lost {lost}: counts are too low.")
    for note in manifest.notes:
        yield Caveat("note", visible(note, MAX_TEXT))


def _about_coverage(summary: Summary, manifest: Manifest) -> Iterator[Caveat]:
    coverage, error = summary.coverage, summary.replay.baseline_error
    if coverage.lost and not any(collector.lost for collector in manifest.collectors):
        yield Caveat("warning", f"{quantity(coverage.lost, 'event')} lost: counts are too low.")
    if coverage.unattributed:
        share = coverage.unattributed / max(coverage.blocking_calls, 1)
        yield Caveat(
            "warning" if share > LARGE_SHARE else "note",
            f"{coverage.unattributed:,} of {quantity(coverage.blocking_calls, 'blocking call')} "
            f"({percent(share)}) could not be charged to a line.",
        )
    if error is not None and abs(error) > LARGE_SHARE:
        yield Caveat(
            "warning",
            f"Replaying the recording unchanged is off by {percent(abs(error))}: take gains as "
            "rough.",
        )
