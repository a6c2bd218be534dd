"""The timeline as data: lanes from top to bottom and the marks in them. Nothing is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from syncscope.analysis.result import Analysis
from syncscope.reports.marks import Marks, longest, merged_to_budget
from syncscope.reports.timeline_tracks import (
    Labels,
    Lane,
    Track,
    gap_tracks,
    host_tracks,
    stream_tracks,
)
from syncscope.reports.units import duration

MAX_ACTIVITY_MARKS = 9_000
MAX_HOST_MARKS = 6_000
MAX_GAP_MARKS = 4_000
MAX_STEPS = 1_000


@dataclass(frozen=True, slots=True)
class StepSpan:
    """A step on the timeline."""

    index: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class Timeline:
    """Times are ns in the recording's clock. Marks refer to `labels` by number."""

    start_ns: int
    end_ns: int
    lanes: tuple[Lane, ...]
    """Top to bottom."""
    tracks: tuple[Track, ...]
    labels: tuple[str, ...]
    steps: tuple[StepSpan, ...]
    notes: tuple[str, ...]
    """What was merged or left out to keep it small."""


def timeline_of(analysis: Analysis, site_ids: Sequence[str]) -> Timeline:
    """Shape the event tables; a mark's site is its index in `site_ids`, -1 for any other.

    Pure. Costs sorting of the tables; the result holds about 20,000 marks at most.
    """
    labels = Labels()
    sites = {site: number for number, site in enumerate(site_ids)}
    start_ns, end_ns = _extent(analysis)
    window_ns = end_ns - start_ns
    host, thread_note = host_tracks(analysis, labels, sites)
    gaps = gap_tracks(analysis, labels, sites)
    streams, stream_note = stream_tracks(analysis, labels)
    host, host_note = _merged(host, MAX_HOST_MARKS, window_ns, "Host events")
    gaps, gap_note = _without_short(gaps, MAX_GAP_MARKS)
    streams, activity_note = _merged(streams, MAX_ACTIVITY_MARKS, window_ns, "GPU activity")
    steps, step_note = _steps(analysis.steps)
    tracks = [track for track in (*host, *gaps, *streams) if len(track.marks)]
    notes = (thread_note, stream_note, host_note, activity_note, gap_note, step_note)
    tracks, texts = _with_used_labels(tracks, labels.texts)
    return Timeline(
        start_ns=start_ns,
        end_ns=end_ns,
        lanes=_lanes(tracks),
        tracks=tuple(tracks),
        labels=texts,
        steps=steps,
        notes=tuple(note for note in notes if note),
    )


def _extent(analysis: Analysis) -> tuple[int, int]:
    starts = [window.start_ns for window in analysis.manifest.windows]
    ends = [window.end_ns for window in analysis.manifest.windows]
    for table in (analysis.activity, analysis.calls, analysis.gaps, analysis.steps):
        if len(table):
            starts.append(int(table["start_ns"].min()))
            ends.append(int(table["end_ns"].max()))
    return (min(starts), max(ends)) if starts else (0, 0)


def _lanes(tracks: Sequence[Track]) -> tuple[Lane, ...]:
    """Host first, then each device: its idle time above its streams."""
    distinct = dict.fromkeys(track.lane for track in tracks)
    return tuple(sorted(distinct, key=lambda lane: (lane.device, lane.group != "gaps")))


def _merged(tracks: list[Track], budget: int, window_ns: int, what: str) -> tuple[list[Track], str]:
    thinned, threshold_ns = merged_to_budget([t.marks for t in tracks], budget, window_ns)
    note = f"{what} less than {duration(threshold_ns)} apart are drawn as one."
    return _with_marks(tracks, thinned), note if threshold_ns else ""


def _without_short(tracks: list[Track], budget: int) -> tuple[list[Track], str]:
    """Gaps cannot be merged: what lies between two of them is not idle."""
    total = sum(len(track.marks) for track in tracks)
    kept, shortest_ns = longest([track.marks for track in tracks], budget)
    note = (
        f"Only the {budget:,} longest of {total:,} idle times are drawn, down to "
        f"{duration(shortest_ns)}."
    )
    return _with_marks(tracks, kept), note if total > budget else ""


def _with_marks(tracks: list[Track], marks: Sequence[Marks]) -> list[Track]:
    return [replace(t, marks=m) for t, m in zip(tracks, marks, strict=True)]


def _with_used_labels(
    tracks: list[Track], texts: Sequence[str]
) -> tuple[list[Track], tuple[str, ...]]:
    """Labels of marks that were merged away need no room in the report."""
    used = np.unique(np.concatenate([np.empty(0, np.int64), *(t.marks.label for t in tracks)]))
    renumbered = [
        replace(t, marks=replace(t.marks, label=np.searchsorted(used, t.marks.label)))
        for t in tracks
    ]
    return renumbered, tuple(texts[number] for number in used)


def _steps(steps: pd.DataFrame) -> tuple[tuple[StepSpan, ...], str]:
    note = f"The first {MAX_STEPS:,} of {len(steps):,} step boundaries are drawn."
    return tuple(_step_spans(steps)), note if len(steps) > MAX_STEPS else ""


def _step_spans(steps: pd.DataFrame) -> Iterator[StepSpan]:
    columns = (steps[name].iloc[:MAX_STEPS] for name in ("index", "start_ns", "end_ns"))
    for index, start_ns, end_ns in zip(*columns, strict=True):
        yield StepSpan(int(index), int(start_ns), int(end_ns))
