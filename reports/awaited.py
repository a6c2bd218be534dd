"""What a wait of the host waited for: the activity of the device that ended last meanwhile."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

Integers = npt.NDArray[np.int64]


def awaited(calls: pd.DataFrame, activity: pd.DataFrame) -> Integers:
    """For each call the row number in `activity` of what it waited for, or -1.

    A wait is over when the last thing in its queue is, so that is what ended last between the
    call's start and its end; a transfer waited for a copy of its direction if one ended then.
    Calls that did not block, or whose length is not known, waited for nothing. Both tables
    are those of an `Analysis`. Costs a sort of the activity.
    """
    found = _ended_last(calls, activity, np.arange(len(activity)))
    for direction in ("h2d", "d2h"):
        copies = np.flatnonzero((activity["direction"] == direction).to_numpy())
        own = _ended_last(calls, activity, copies)
        found = np.where((calls["direction"] == direction).to_numpy() & (own >= 0), own, found)
    return np.where(calls["blocking"].to_numpy(dtype=np.bool_), found, -1)


def _ended_last(calls: pd.DataFrame, activity: pd.DataFrame, rows: Integers) -> Integers:
    """By call, which of these rows of `activity` ended last between its start and its end."""
    if not len(rows):
        return np.full(len(calls), -1, dtype=np.int64)
    ends = activity["end_ns"].to_numpy(dtype=np.int64)[rows]
    order = np.argsort(ends, kind="stable")
    place = np.searchsorted(ends[order], calls["end_ns"].to_numpy(dtype=np.int64), "right") - 1
    last = order[place]
    within = (place >= 0) & (ends[last] > calls["start_ns"].to_numpy(dtype=np.int64))
    return np.where(within, rows[last], -1)
