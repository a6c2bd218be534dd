"""Arrows of the timeline: from a wait to what it waited for, from a gap to what caused it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from syncscope.analysis.result import Analysis
from syncscope.reports.awaited import awaited
from syncscope.reports.marks import Integers
from syncscope.reports.timeline_tracks import Lane

MAX_ARROWS = 20_000


@dataclass(frozen=True)
class Arrows:
    """Columns of one length, sorted by `from_ns`; lanes by number, `site` -1 for none.

    `weight_ns` is the length of the wait or gap: where arrows are too many, the long ones count.
    """

    from_ns: Integers
    from_lane: Integers
    to_ns: Integers
    to_lane: Integers
    site: Integers
    weight_ns: Integers

    def __len__(self) -> int:
        return len(self.from_ns)


def arrows_of(analysis: Analysis, lanes: Sequence[Lane], sites: Mapping[str, int]) -> Arrows:
    """The longest waits' and gaps' arrows between lanes that are shown, MAX_ARROWS at most."""
    numbers = {(lane.group, lane.device, lane.key): n for n, lane in enumerate(lanes)}
    columns = pd.concat([_waits(analysis, numbers), _gaps(analysis, numbers)])
    columns = columns[(columns["from_lane"] >= 0) & (columns["to_lane"] >= 0)]
    columns = columns.sort_values("weight_ns", ascending=False, kind="stable")[:MAX_ARROWS]
    columns = columns.sort_values("from_ns", kind="stable")
    site = [sites.get(name, -1) for name in columns["site_id"]]
    columns = columns.drop(columns="site_id").assign(site=site).astype("int64")
    return Arrows(**{str(name): columns[name].to_numpy() for name in columns})


_Numbers = Mapping[tuple[str, int, int], int]


def _waits(analysis: Analysis, numbers: _Numbers) -> pd.DataFrame:
    """From the end of a call to the end of the activity that it waited for."""
    target = awaited(analysis.calls, analysis.activity)
    calls = analysis.calls[target >= 0]
    ended = analysis.activity.iloc[target[target >= 0]]
    streams = zip(ended["device"], ended["stream"], strict=True)
    return pd.DataFrame(
        {
            "from_ns": calls["end_ns"].to_numpy(),
            "from_lane": [numbers.get(("host", -1, thread), -1) for thread in calls["thread_id"]],
            "to_ns": ended["end_ns"].to_numpy(),
            "to_lane": [numbers.get(("stream", device, key), -1) for device, key in streams],
            "site_id": calls["site_id"].to_numpy(),
            "weight_ns": (calls["end_ns"] - calls["start_ns"]).to_numpy(),
        }
    )


def _gaps(analysis: Analysis, numbers: _Numbers) -> pd.DataFrame:
    """From the middle of a gap to the last call of its site that began before the gap ended."""
    gaps = _mergeable(analysis.gaps[analysis.gaps["site_id"] != ""])
    gaps = gaps.sort_values("end_ns", kind="stable")
    calls = _mergeable(analysis.calls)
    calls = calls.rename(columns={"start_ns": "call_ns", "end_ns": "call_end_ns"})
    found = pd.merge_asof(
        gaps,
        calls[["call_ns", "call_end_ns", "thread_id", "site_id"]],
        left_on="end_ns",
        right_on="call_ns",
        by="site_id",
        allow_exact_matches=False,
    ).dropna(subset="call_ns")
    middle = (found["start_ns"] + found["end_ns"]) // 2
    return pd.DataFrame(
        {
            "from_ns": middle,
            "from_lane": [numbers.get(("gaps", device, -1), -1) for device in found["device"]],
            "to_ns": np.clip(middle, found["call_ns"], found["call_end_ns"]).astype("int64"),
            "to_lane": [numbers.get(("host", -1, thread), -1) for thread in found["thread_id"]],
            "site_id": found["site_id"],
            "weight_ns": found["end_ns"] - found["start_ns"],
        }
    )


def _mergeable(table: pd.DataFrame) -> pd.DataFrame:
    """Tables without rows have columns of types of their own, which do not merge."""
    return table.astype({"site_id": "object", "start_ns": "int64", "end_ns": "int64"})
