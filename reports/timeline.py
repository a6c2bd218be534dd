"""The timeline as data: lanes from top to bottom and what lies in them. Nothing is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from syncscope.analysis.result import Analysis
from syncscope.records import StepRecord
from syncscope.reports.marks import Integers, filled, longest
from syncscope.reports.timeline_arrows import Arrows, arrows_of
from syncscope.reports.timeline_counters import Counter, counters_of
from syncscope.reports.timeline_detail import Span, detailed_spans, edges_of, within
from syncscope.reports.timeline_tracks import (
    Labels,
    Lane,
    Track,
    engine_tracks,
    gap_tracks,
    host_tracks,
    stream_tracks,
)
from syncscope.units import duration

MAX_HOST_MARKS = 100_000
MAX_DEVICE_MARKS = 1_200_000
"""Activities and gaps that a report holds one by one: about four bytes each."""
MAX_STEPS = 20_000
SLOTS = 4_096
FINE_SLOTS = 65_536
"""Where not every event is held, the slots have to show what a step looks like."""


@dataclass(frozen=True)
class Timeline:
    """Times are ns in the recording's clock. Marks refer to `labels` by number.

    Every track is there twice: as the share of each slot of `slot_ns` that it fills, over the
    whole recording, and event by event within the spans `detail` (of the host: throughout).
    """

    start_ns: int
    end_ns: int
    slot_ns: int
    lanes: tuple[Lane, ...]
    """Top to bottom."""
    tracks: tuple[Track, ...]
    labels: tuple[str, ...]
    steps: pd.DataFrame
    """index, start_ns, end_ns."""
    typical: int
    """Row of the steady step whose length is the median; -1 where there is none."""
    detail: tuple[Span, ...]
    arrows: Arrows
    counters: tuple[Counter, ...]
    notes: tuple[str, ...]
    """What was left out to keep it small."""


def timeline_of(analysis: Analysis, site_ids: Sequence[str]) -> Timeline:
    """Shape the event tables; a mark's site is its index in `site_ids`, -1 for any other.

    Pure. Costs sorting of the tables: about four seconds for a million activities.
    """
    labels = Labels()
    sites = {site: number for number, site in enumerate(site_ids)}
    start_ns, end_ns = _extent(analysis)
    host, thread_note = host_tracks(analysis, labels, sites)
    streams, stream_note = stream_tracks(analysis, labels)
    idle, engines = gap_tracks(analysis, labels, sites), engine_tracks(analysis, labels)
    device = [*idle, *engines, *streams]
    detail, detail_note = _detail(analysis, device, start_ns, end_ns)
    whole = len(detail) == 1 and detail[0][0] <= start_ns and end_ns <= detail[0][1]
    slots = SLOTS if whole else FINE_SLOTS
    slot_ns = max(1, -(-(end_ns - start_ns) // slots))
    tracks = _with_fill([t for t in (*host, *device) if len(t.marks)], start_ns, slot_ns, slots)
    lanes = _lanes(tracks)
    tracks, host_note = _thinned(tracks, detail)
    tracks, texts = _with_used_labels(tracks, labels.texts)
    steps, step_note = _steps(analysis.steps)
    notes = (thread_note, stream_note, host_note, detail_note, step_note)
    return Timeline(
        start_ns=start_ns,
        end_ns=end_ns,
        slot_ns=slot_ns,
        lanes=lanes,
        tracks=tuple(tracks),
        labels=texts,
        steps=steps,
        typical=_typical(analysis.summary.steps[: len(steps)]),
        detail=detail,
        arrows=arrows_of(analysis, lanes, sites),
        counters=counters_of(analysis, start_ns, end_ns),
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


def _detail(
    analysis: Analysis, tracks: Sequence[Track], start_ns: int, end_ns: int
) -> tuple[tuple[Span, ...], str]:
    groups = [track.marks for track in tracks]
    edges = edges_of(analysis.steps, start_ns, end_ns)
    detail = detailed_spans(groups, edges, _longest_calls(analysis.calls), MAX_DEVICE_MARKS)
    kept = sum(end - start for start, end in detail) / max(end_ns - start_ns, 1)
    note = (
        f"Single GPU events are kept for {kept:.0%} of the time, whole steps at a time; elsewhere "
        "the share of time that they fill is drawn."
    )
    return detail, note if kept < 0.999 else ""


def _longest_calls(calls: pd.DataFrame) -> Integers:
    """When the longest call of each site began."""
    known = calls[calls["site_id"] != ""]
    lengths = (known["end_ns"] - known["start_ns"]).groupby(known["site_id"])
    return known["start_ns"].loc[lengths.idxmax()].to_numpy(dtype=np.int64)


def _lanes(tracks: Sequence[Track]) -> tuple[Lane, ...]:
    """Host first, then each device: its idle time above its copy engines and streams."""
    distinct = dict.fromkeys(track.lane for track in tracks)
    return tuple(sorted(distinct, key=lambda lane: (lane.device, lane.group != "gaps")))


def _with_fill(tracks: Sequence[Track], start_ns: int, slot_ns: int, slots: int) -> list[Track]:
    return [replace(t, fill=filled(t.marks, start_ns, slot_ns, slots)) for t in tracks]


def _thinned(tracks: Sequence[Track], detail: Sequence[Span]) -> tuple[list[Track], str]:
    """Drop the marks of devices outside the detail, and the shortest of the host's."""
    host = [track.marks for track in tracks if track.lane.group == "host"]
    kept, shortest_ns = longest(host, MAX_HOST_MARKS)
    chosen = iter(kept)
    thinned = [
        replace(t, marks=next(chosen) if t.lane.group == "host" else within(t.marks, detail))
        for t in tracks
    ]
    note = (
        f"Only the {MAX_HOST_MARKS:,} longest of {sum(map(len, host)):,} events of the host are "
        f"kept, down to {duration(shortest_ns)}."
    )
    return thinned, note if shortest_ns else ""


def _with_used_labels(
    tracks: Sequence[Track], texts: Sequence[str]
) -> tuple[list[Track], tuple[str, ...]]:
    """Labels of marks that were left out need no room in the report."""
    used = np.unique(np.concatenate([np.empty(0, np.int64), *(t.marks.label for t in tracks)]))
    renumbered = [
        replace(t, marks=replace(t.marks, label=np.searchsorted(used, t.marks.label)))
        for t in tracks
    ]
    return renumbered, tuple(texts[number] for number in used)


def _steps(steps: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    note = f"The first {MAX_STEPS:,} of {len(steps):,} step boundaries are drawn."
    return steps.iloc[:MAX_STEPS], note if len(steps) > MAX_STEPS else ""


def _typical(steps: Sequence[StepRecord]) -> int:
    rows = [row for row, step in enumerate(steps) if step.steady]
    rows.sort(key=lambda row: steps[row].length_ns)
    return rows[(len(rows) - 1) // 2] if rows else -1
