"""Intervals thinned out to a number that a browser can draw. Plain arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]

_PIXELS = 8_000
"""Of a wide screen at two pixels a point; merging starts at a fraction of one of these."""


@dataclass(frozen=True)
class Marks:
    """Intervals of one kind in one lane, sorted by start; `site` and `label` are numbers.

    A mark may stand for several events: `count` says how many, `busy_ns` how much of it they
    fill, and its label is that of the longest.
    """

    start_ns: Integers
    end_ns: Integers
    site: Integers
    label: Integers
    count: Integers
    busy_ns: Integers

    def __len__(self) -> int:
        return len(self.start_ns)


def sorted_marks(start_ns: Integers, end_ns: Integers, site: Integers, label: Integers) -> Marks:
    """One mark for each interval, sorted by start, of equal starts the longest first."""
    order = np.lexsort((-end_ns, start_ns))
    start_ns, end_ns = start_ns[order], np.maximum(end_ns, start_ns)[order]
    count = np.ones(len(order), dtype=np.int64)
    return Marks(start_ns, end_ns, site[order], label[order], count, end_ns - start_ns)


def merged(marks: Marks, threshold_ns: int) -> Marks:
    """Neighbours of the same site no further apart than the threshold become one mark."""
    if len(marks) < 2:
        return marks
    reached = np.maximum.accumulate(marks.end_ns)
    apart = marks.start_ns[1:] - reached[:-1] > threshold_ns
    begins = np.flatnonzero(np.r_[True, apart | (marks.site[1:] != marks.site[:-1])])
    start_ns, end_ns = marks.start_ns[begins], np.maximum.reduceat(marks.end_ns, begins)
    busy_ns = np.add.reduceat(marks.busy_ns, begins)
    return Marks(
        start_ns,
        end_ns,
        marks.site[begins],
        marks.label[_longest_of_each(marks, begins)],
        np.add.reduceat(marks.count, begins),
        # Calls within calls would be counted twice.
        np.minimum(busy_ns, end_ns - start_ns),
    )


def merged_to_budget(
    groups: Sequence[Marks], budget: int, window_ns: int
) -> tuple[list[Marks], int]:
    """Merge all groups by one threshold, the smallest power-of-two step that fits the budget.

    Returns the groups and the threshold in ns; 0 where nothing had to be merged. Groups that
    stay above the budget at the widest threshold keep their longest marks only.
    """
    if sum(map(len, groups)) <= budget:
        return list(groups), 0
    threshold_ns = max(1, window_ns // (4 * _PIXELS))
    while threshold_ns < window_ns:
        thinned = [merged(marks, threshold_ns) for marks in groups]
        if sum(map(len, thinned)) <= budget:
            return thinned, threshold_ns
        threshold_ns *= 2
    coarse = [merged(marks, window_ns) for marks in groups]
    return longest(coarse, budget)[0], threshold_ns


def longest(groups: Sequence[Marks], budget: int) -> tuple[list[Marks], int]:
    """Keep the `budget` longest marks of all groups.

    Returns the groups and the length in ns of the shortest that was kept; 0 where all were.
    """
    total = sum(map(len, groups))
    if total <= budget:
        return list(groups), 0
    lengths = np.concatenate([marks.end_ns - marks.start_ns for marks in groups])
    # Stable, so that the same recording gives the same report.
    kept = np.zeros(total, dtype=bool)
    kept[np.argsort(-lengths, kind="stable")[:budget]] = True
    bounds = np.cumsum([0, *map(len, groups)])
    chosen = [
        _selected(marks, np.flatnonzero(kept[bounds[i] : bounds[i + 1]]))
        for i, marks in enumerate(groups)
    ]
    return chosen, int(lengths[kept].min())


def _longest_of_each(marks: Marks, begins: Integers) -> Integers:
    lengths = marks.end_ns - marks.start_ns
    block = np.repeat(np.arange(len(begins)), np.diff(np.r_[begins, len(marks)]))
    order = np.lexsort((np.arange(len(marks)), -lengths, block))
    first: Integers = order[begins]
    return first


def _selected(marks: Marks, index: Integers) -> Marks:
    return Marks(
        marks.start_ns[index],
        marks.end_ns[index],
        marks.site[index],
        marks.label[index],
        marks.count[index],
        marks.busy_ns[index],
    )
