"""Arithmetic on half-open intervals [start, end) of int64 nanoseconds, vectorised.

Every function takes plain arrays, leaves them as they are and costs O(n log n) unless it
says otherwise. What is sorted already, as recorded events nearly always are, costs a few
passes: sorting it again finds one run.
"""

from __future__ import annotations

import heapq
from itertools import pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

Ints: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]


def union(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Disjoint, sorted intervals that cover the same time; touching ones are one."""
    starts, ends = _by_start(starts, ends)
    if not len(starts):
        return starts, ends
    reach = np.maximum.accumulate(ends)
    first = np.flatnonzero(starts[1:] > reach[:-1]) + 1
    return starts[np.append(0, first)], reach[np.append(first - 1, -1)]


def total(starts: Ints, ends: Ints) -> int:
    """How much time the intervals cover together."""
    starts, ends = _by_start(starts, ends)
    if not len(starts):
        return 0
    reach = np.maximum.accumulate(ends)
    between = starts[1:] - reach[:-1]
    return int(reach[-1] - starts[0] - np.maximum(between, 0, out=between).sum())


def rising(values: Ints) -> bool:
    """Whether no value is less than the one before it."""
    return bool((values[1:] >= values[:-1]).all())


def _by_start(starts: Ints, ends: Ints) -> tuple[Ints, Ints]:
    """Those of some length, sorted by start; the arrays themselves if they are that already."""
    filled = ends > starts
    if not filled.all():
        starts, ends = starts[filled], ends[filled]
    if not rising(starts):
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    return starts, ends


def rest(starts: Ints, ends: Ints, window_starts: Ints, window_ends: Ints) -> tuple[Ints, Ints]:
    """The parts of the windows that no interval covers. Windows are disjoint and sorted."""
    if not len(window_starts):
        return window_starts, window_ends
    if len(window_starts) > 1:  # what lies between them is no part of them
        starts = np.concatenate((starts, window_ends[:-1]))
        ends = np.concatenate((ends, window_starts[1:]))
    starts, ends = union(starts, ends)
    first = np.searchsorted(ends, window_starts[0], side="right")
    last = np.searchsorted(starts, window_ends[-1], side="left")
    low = np.concatenate((window_starts[:1], ends[first:last]))
    high = np.concatenate((starts[first:last], window_ends[-1:]))
    open_ = high > low
    return (low, high) if open_.all() else (low[open_], high[open_])


def covered(starts: Ints, ends: Ints, over_starts: Ints, over_ends: Ints) -> Ints:
    """How much of each interval lies in the disjoint, sorted intervals `over`."""
    if not len(over_starts):
        return np.zeros(len(starts), dtype=np.int64)
    if len(over_starts) == 1:
        whole: Ints = np.minimum(ends, over_ends) - np.maximum(starts, over_starts)
        return np.maximum(whole, 0, out=whole)
    total = np.concatenate(([0], np.cumsum(over_ends - over_starts)))

    def before(points: Ints) -> Ints:
        index = np.searchsorted(over_starts, points, side="right")
        spill = np.maximum(over_ends[index - 1] - points, 0)
        return np.asarray(total[index] - np.where(index > 0, spill, 0))

    inside: Ints = np.maximum(before(ends) - before(starts), 0)
    return inside


def clip(
    starts: Ints, ends: Ints, window_starts: Ints, window_ends: Ints
) -> tuple[Ints, Ints, Ints]:
    """Parts of the intervals inside the windows: (index of the interval, start, end).

    An interval that spans two windows yields two parts. One of no length is kept when it
    lies in a window.
    """
    if len(window_starts) == 1:
        reaches = (ends > window_starts) | ((ends == window_starts) & (ends <= starts))
        owner = np.flatnonzero(reaches & (starts < window_ends))
        window = np.zeros(1, dtype=np.int64)
    else:
        first = np.searchsorted(window_ends, starts, side="right")
        last = np.searchsorted(window_starts, ends, side="left")
        empty = np.flatnonzero(ends <= starts)
        last[empty] = np.searchsorted(window_starts, ends[empty], side="right")
        owner, window = expand(first, last)
    return (
        owner,
        np.maximum(starts[owner], window_starts[window]),
        np.minimum(ends[owner], window_ends[window]),
    )


def expand(first: Ints, last: Ints) -> tuple[Ints, Ints]:
    """Pairs (i, j) for each row i and each j in range(first[i], last[i])."""
    counts = np.maximum(last - first, 0)
    if counts.max(initial=0) <= 1:
        owner = np.flatnonzero(counts)
        return owner, first[owner]
    owner = np.repeat(np.arange(len(first)), counts)
    offset = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, first[owner] + offset


_DENSE = 4
"""Keys whose range is at most this many times their number make a table of it."""


def first_at(values: Ints, keys: Ints) -> Ints:
    """For each value the index of the first key that equals it, or -1.

    Keys that lie close together, as correlation ids do, cost a pass and a table of their range.
    """
    if not len(keys):
        return np.full(len(values), -1, dtype=np.int64)
    low = keys.min()
    span = int(keys.max()) - int(low) + 1
    if span <= _DENSE * len(keys):
        table = np.full(span + 1, -1, dtype=np.int32 if len(keys) < 1 << 31 else np.int64)
        backwards = np.arange(len(keys) - 1, -1, -1, dtype=table.dtype)
        table[keys[::-1] - low] = backwards  # the first one is set last
        outside = np.uint64(span)  # negative offsets are larger than any as unsigned numbers
        offset = np.minimum((values - low).view(np.uint64), outside).view(np.int64)
        return np.asarray(table[offset], dtype=np.int64)
    order = None if rising(keys) else np.argsort(keys, kind="stable")
    ordered = keys if order is None else keys[order]
    place = np.minimum(np.searchsorted(ordered, values), len(keys) - 1)
    found = place if order is None else order[place]
    return np.where(ordered[place] == values, found, -1)


_FEW = 32
"""So many passes that pick a group out cost less than to sort by groups."""


def grouped(order: Ints, groups: Ints) -> Ints:
    """The order of some rows, sorted stably by their groups. A pass for each of a few groups."""
    if (groups == groups[:1]).all():
        return order
    groups = groups[order]
    kinds = np.sort(pd.unique(groups))
    if len(kinds) <= _FEW:
        return np.concatenate([order[np.flatnonzero(groups == kind)] for kind in kinds])
    return order[np.argsort(groups, kind="stable")]


def innermost(points: Ints, starts: Ints, ends: Ints) -> Ints:
    """For each point the index of the innermost interval [start, end] around it, or -1.

    Intervals nest, as calls on one thread do; the innermost is the one that started last.
    Costs one Python step per interval and one pass over the points per level of nesting.
    """
    found = np.full(len(points), -1, dtype=np.int64)
    if not len(starts) or not len(points):
        return found
    order = np.lexsort((-ends, starts))
    sorted_ends = ends[order]
    parents = np.append(_parents(sorted_ends), -1)
    reach = np.append(sorted_ends, np.iinfo(np.int64).max)
    candidate = np.searchsorted(starts[order], points, side="right") - 1
    while True:
        outside = reach[candidate] < points
        if not outside.any():
            break
        candidate = np.where(outside, parents[candidate], candidate)
    inside = candidate >= 0
    found[inside] = order[candidate[inside]]
    return found


def _parents(ends: Ints) -> Ints:
    """Index of the nearest earlier interval that ends no sooner; intervals sorted by start."""
    parents: list[int] = []
    open_: list[int] = []
    values = ends.tolist()
    for index, end in enumerate(values):
        while open_ and values[open_[-1]] < end:
            open_.pop()
        parents.append(open_[-1] if open_ else -1)
        open_.append(index)
    return np.array(parents, dtype=np.int64)


def flatten(starts: Ints, ends: Ints, ranks: Ints) -> tuple[Ints, Ints, Ints]:
    """Disjoint, sorted segments (start, end, index of the interval on top).

    Of the intervals that overlap, the one of higher rank is on top, among equals the one
    that started last. Overlapping intervals cost a Python step each, the others none.
    """
    index = np.flatnonzero(ends > starts)
    index = index[np.argsort(starts[index], kind="stable")]
    s, e = starts[index], ends[index]
    if len(s) < 2:
        return s, e, index
    reach = np.maximum.accumulate(e)
    begins = np.concatenate(([True], s[1:] >= reach[:-1]))
    cluster = np.cumsum(begins) - 1
    alone = np.bincount(cluster)[cluster] == 1
    parts = [(s[alone], e[alone], index[alone])]
    bounds = np.append(np.flatnonzero(begins), len(s))
    for number in np.unique(cluster[~alone]):
        members = slice(bounds[number], bounds[number + 1])
        parts.append(_sweep(s[members], e[members], ranks[index[members]], index[members]))
    low, high, top = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(low, kind="stable")
    return low[order], high[order], top[order]


def _sweep(starts: Ints, ends: Ints, ranks: Ints, index: Ints) -> tuple[Ints, Ints, Ints]:
    """`flatten` for a cluster of intervals sorted by start."""
    times = np.unique(np.concatenate((starts, ends))).tolist()
    keys = list(zip((-ranks).tolist(), (-starts).tolist(), range(len(starts)), strict=True))
    begin, end = starts.tolist(), ends.tolist()
    active: list[tuple[int, int, int]] = []
    segments: list[tuple[int, int, int]] = []
    following = 0
    for low, high in pairwise(times):
        while following < len(begin) and begin[following] <= low:
            heapq.heappush(active, keys[following])
            following += 1
        while active and end[active[0][2]] <= low:
            heapq.heappop(active)
        if not active:
            continue
        top = int(index[active[0][2]])
        if segments and segments[-1][1] == low and segments[-1][2] == top:
            segments[-1] = (segments[-1][0], high, top)
        else:
            segments.append((low, high, top))
    columns = np.array(segments, dtype=np.int64).reshape(-1, 3)
    return columns[:, 0], columns[:, 1], columns[:, 2]
