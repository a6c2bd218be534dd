"""The time that an analysis is about, and the rows of a table that lie in it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints, clip, rising, union
from syncscope.recording.reader import Recording

_SPANS = {
    "activity": ("start_ns", "end_ns"),
    "runtime": ("start_ns", "end_ns"),
    "blocking": ("start_ns", "end_ns"),
    "transfers": ("start_ns", "end_ns"),
    "host": ("start_ns", "end_ns"),
    "steps": ("time_ns", "time_ns"),
}


def windows_of(recording: Recording) -> tuple[Ints, Ints]:
    """Disjoint, sorted windows: the manifest's, or else the span of all recorded events.

    A run that was killed, or that had only the free collectors, names no windows.
    """
    named = [(window.start_ns, window.end_ns) for window in recording.manifest.windows]
    if named:
        bounds = np.array(named, dtype=np.int64)
        return union(bounds[:, 0], bounds[:, 1])
    starts, ends = [], []
    for table, (start, end) in _SPANS.items():
        frame = recording.table(table)
        if len(frame):
            starts.append(int(frame[start].min()))
            ends.append(int(frame[end].max()))
    if not starts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    return np.array([min(starts)]), np.array([max(max(ends), min(starts))])


def clipped(frame: pd.DataFrame, windows: tuple[Ints, Ints]) -> pd.DataFrame:
    """A new frame with the parts of the rows inside the windows, sorted by start.

    Rows that follow each other in the frame, as nearly always, are not copied; neither are
    their times where no row is cut.
    """
    owner, starts, ends = clip(int64(frame, "start_ns"), int64(frame, "end_ns"), *windows)
    neighbours = len(owner) and (np.diff(owner) == 1).all()
    inside = frame.iloc[owner[0] : owner[-1] + 1] if neighbours else frame.iloc[owner]
    for name, times in (("start_ns", starts), ("end_ns", ends)):
        if not np.array_equal(int64(inside, name), times):
            inside = inside.assign(**{name: times})
    if rising(starts):
        return inside.reset_index(drop=True)
    return inside.sort_values("start_ns", kind="stable", ignore_index=True)


def touching(starts: Ints, ends: Ints, windows: tuple[Ints, Ints]) -> Bools:
    """Which intervals or moments have a part in a window.

    The last moment of a window belongs to it. An interval that ends as a window begins is
    over: the simulated clock leaves no time between a wait and the mark that follows it.
    """
    first = np.searchsorted(windows[1], starts, side="left")
    reached = np.where(
        ends > starts,
        np.searchsorted(windows[0], ends, side="left"),
        np.searchsorted(windows[0], ends, side="right"),
    )
    return np.asarray(first < reached)


def spans(frame: pd.DataFrame, rows: Bools) -> tuple[Ints, Ints]:
    """Start and end of the chosen rows; without a copy if that is all of them."""
    starts, ends = int64(frame, "start_ns"), int64(frame, "end_ns")
    if rows.all():
        return starts, ends
    chosen = np.flatnonzero(rows)  # twice as fast as masks
    return starts[chosen], ends[chosen]


def int64(frame: pd.DataFrame, column: str) -> Ints:
    """A column as a numpy array, without a copy where possible."""
    return frame[column].to_numpy(dtype=np.int64)
