"""The timeline as a page holds it: a description in JSON and packed columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from syncscope.reports.marks import Integers, Marks
from syncscope.reports.packed_columns import PackedColumns
from syncscope.reports.timeline import Timeline
from syncscope.reports.timeline_arrows import Arrows
from syncscope.reports.timeline_counters import Counter
from syncscope.reports.timeline_tracks import Track


def packed_timeline(timeline: Timeline) -> tuple[dict[str, Any], str]:
    """What `static/timeline_data.js` reads: a description for JSON, and the columns in base64.

    Times are ns since the timeline's start; columns of rising times (`starts`, `from`) hold
    differences. The description names columns by number.
    """
    columns = PackedColumns()
    origin = timeline.start_ns
    lanes = {lane: number for number, lane in enumerate(timeline.lanes)}
    steps = timeline.steps
    description = {
        "end": timeline.end_ns - origin,
        "slot": timeline.slot_ns,
        "lanes": [{"group": lane.group, "label": lane.label} for lane in timeline.lanes],
        "tracks": [
            {"lane": lanes[track.lane], "kind": track.kind, **_track(track, origin, columns)}
            for track in timeline.tracks
        ],
        "labels": timeline.labels,
        "steps": {
            "index": columns.add(steps["index"].to_numpy(dtype=np.int64)),
            "starts": columns.add(_steps_between(steps["start_ns"].to_numpy("i8"), origin)),
            "lengths": columns.add((steps["end_ns"] - steps["start_ns"]).to_numpy("i8")),
        },
        "typical": timeline.typical,
        "detail": [[start - origin, end - origin] for start, end in timeline.detail],
        "arrows": _arrows(timeline.arrows, origin, columns),
        "counters": [_counter(counter, origin) for counter in timeline.counters],
    }
    return {**description, "columns": columns.sizes}, columns.text()


def _track(track: Track, origin_ns: int, columns: PackedColumns) -> dict[str, int]:
    """Sites and labels only where there are any; sites count from 1, 0 is none."""
    marks: Marks = track.marks
    packed = {
        "starts": columns.add(_steps_between(marks.start_ns, origin_ns)),
        "lengths": columns.add(marks.end_ns - marks.start_ns),
        "fill": columns.add(track.fill),
        "label": columns.add(marks.label),
    }
    if (marks.site >= 0).any():
        packed["site"] = columns.add(marks.site + 1)
    return packed


def _arrows(arrows: Arrows, origin_ns: int, columns: PackedColumns) -> dict[str, int]:
    return {
        "from": columns.add(_steps_between(arrows.from_ns, origin_ns)),
        "fromLane": columns.add(arrows.from_lane),
        "to": columns.add(arrows.to_ns - origin_ns),
        "toLane": columns.add(arrows.to_lane),
        "site": columns.add(arrows.site + 1),
        "weight": columns.add(arrows.weight_ns),
    }


def _counter(counter: Counter, origin_ns: int) -> dict[str, Any]:
    return {
        "label": counter.label,
        "unit": counter.unit,
        "device": counter.device,
        "times": [time_ns - origin_ns for time_ns in counter.time_ns],
        "values": counter.values,
    }


def _steps_between(times_ns: Integers, origin_ns: int) -> Integers:
    """Rising times as differences, the first to the origin: small numbers pack well."""
    return np.diff(times_ns, prepend=origin_ns)
