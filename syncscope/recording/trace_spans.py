"""Nested intervals of one thread: which ones contain a moment."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from syncscope.recording.trace_columns import Ints


class Nesting:
    """Intervals of one thread, as a call stack leaves them; built in O(n log n).

    `order` is the order of their starts, outer ones first.
    """

    def __init__(self, start_ns: Ints, end_ns: Ints) -> None:
        self.order = np.lexsort((-end_ns, start_ns))
        self._starts, self._ends = start_ns[self.order], end_ns[self.order]
        self._parents = self._find_parents()

    def _find_parents(self) -> Ints:
        """For each interval the last one before it that is still open at its start, or -1.

        What lies between an interval and a closed one before it is closed as well, so a
        closed candidate's own candidate is the next: distances double, as in pointer jumping.
        Traces in whole microseconds hold intervals of no length: equal starts nest.
        """
        starts, ends = self._starts, self._ends
        parents = np.arange(-1, len(starts) - 1)
        open_ones = np.arange(len(starts))
        while len(open_ones):
            at = parents[open_ones]
            closed = (at >= 0) & (ends[at] <= starts[open_ones]) & (starts[at] != starts[open_ones])
            open_ones = open_ones[closed]
            parents[open_ones] = parents[at[closed]]
        return parents

    def around(self, times_ns: Ints) -> Iterator[tuple[Ints, Ints]]:
        """The intervals that contain moments, from the innermost outwards, a level at a time.

        Each level is two arrays: indices of moments, and indices of their intervals.
        """
        moments = np.arange(len(times_ns))
        at = np.searchsorted(self._starts, times_ns, side="right") - 1
        while True:
            inside = at >= 0
            moments, at = moments[inside], at[inside]
            if not len(at):
                return
            contains = self._ends[at] >= times_ns[moments]
            yield moments[contains], self.order[at[contains]]
            at = self._parents[at]
