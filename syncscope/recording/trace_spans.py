"""Nested intervals of one thread: which ones contain a moment."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from syncscope.recording.trace_columns import Ints


def spans_around(start_ns: Ints, end_ns: Ints, times_ns: Ints) -> Iterator[tuple[Ints, Ints]]:
    """The intervals of a call stack that contain moments, from the innermost outwards.

    Yields level by level two arrays: indices of moments, and indices of their intervals. Costs
    O(n log n) in the moments and in the intervals that contain one, O(n) in the others.
    """
    ordered = np.sort(times_ns)
    begun = np.searchsorted(ordered, start_ns, side="left")
    spans = np.flatnonzero(begun < np.searchsorted(ordered, end_ns, side="right"))
    spans = spans[np.lexsort((-end_ns[spans], start_ns[spans]))]
    starts, ends = start_ns[spans], end_ns[spans]
    parents = _parents(starts, ends)
    moments = np.arange(len(times_ns))
    at = np.searchsorted(starts, times_ns, side="right") - 1
    while len(moments := moments[at >= 0]):
        at = at[at >= 0]
        contains = ends[at] >= times_ns[moments]
        yield moments[contains], spans[at[contains]]
        at = parents[at]


def _parents(starts: Ints, ends: Ints) -> Ints:
    """For each interval the last one before it that is still open at its start, or -1.

    What lies between an interval and a closed one before it is closed as well, so a closed
    candidate's own candidate is the next: distances double, as in pointer jumping. Traces in
    whole microseconds hold intervals of no length: equal starts nest.
    """
    parents = np.arange(-1, len(starts) - 1)
    searching = np.arange(len(starts))
    while len(searching):
        at = parents[searching]
        closed = (at >= 0) & (ends[at] <= starts[searching]) & (starts[at] != starts[searching])
        searching = searching[closed]
        parents[searching] = parents[at[closed]]
    return parents
