"""Who waited for whom in collectives: the same collective found in the recordings of all ranks.

A collective kernel runs from the moment its own rank arrives until all have arrived and the
data is exchanged. It ends on all ranks at nearly the same time, whoever was late: that tells
which kernels belong together, and how far the clocks of two ranks are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints

END_TOLERANCE_NS = 1_000_000
"""How far the ends of one collective may lie apart on two ranks (on the traces of a job of
128 A100s, tests/data/traces, they were 0.01 to 0.33 ms apart)."""

MAX_LEAD_NS = 100_000_000
"""Clocks of two hosts that are further apart than this are taken for steps that differ."""

_MIN_PAIRS = 3
_MIN_SHARE = 0.25
"""Fewer pairs, or a smaller part of all collectives, may have met by chance."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What the ranks lost to each other, by position of the rank; sums over `matched`.

    Those are the collectives that count and were found on all ranks.
    """

    matched: int
    waited_ns: tuple[int, ...]
    """How long the rank waited for the last one to arrive."""
    made_wait_ns: tuple[int, ...]
    """How long the others, all together, waited where it was the last one."""
    last: tuple[int, ...]
    """In how many collectives it was the last one."""


def is_collective(activity: pd.DataFrame) -> Bools:
    """Which rows are kernels of NCCL or RCCL. They wait for other ranks while they run."""
    named: Bools = activity["name"].str.contains("nccl|rccl", case=False).to_numpy(dtype=np.bool_)
    return named


def arrivals(ranks: Sequence[tuple[Ints, Ints, Bools]]) -> Arrivals | None:
    """Compare the ranks' collectives: start and end in Unix time, and which of them count.

    All help to find pairs; those that count on the first rank are summed up. Clocks need
    not agree. None if the same collectives cannot be found in all ranks. Costs
    O(n log n) a rank.
    """
    ranks = [_by_end(*rank) for rank in ranks]
    if len(ranks) < 2 or not all(len(starts) for starts, _, _ in ranks):
        return None
    reference = ranks[0]
    place = np.full((len(ranks), len(reference[0])), -1, dtype=np.int64)
    place[0] = np.arange(len(reference[0]))
    offsets = np.zeros((len(ranks), 1), dtype=np.int64)
    for number, rank in enumerate(ranks[1:], start=1):
        paired = _pair(reference[1], rank[1])
        if paired is None:
            return None
        place[number], offsets[number] = paired
    place = place[:, (place >= 0).all(axis=0) & reference[2]]
    if not place.shape[1]:
        return None
    starts = np.stack([rank[0][own] for rank, own in zip(ranks, place, strict=True)]) - offsets
    lengths = np.stack([(rank[1] - rank[0])[own] for rank, own in zip(ranks, place, strict=True)])
    waited = np.minimum(starts.max(axis=0) - starts, lengths)
    last = starts.argmax(axis=0)
    caused = np.bincount(last, weights=waited.sum(axis=0), minlength=len(ranks))
    return Arrivals(
        matched=place.shape[1],
        waited_ns=tuple(waited.sum(axis=1).tolist()),
        made_wait_ns=tuple(caused.astype(np.int64).tolist()),
        last=tuple(np.bincount(last, minlength=len(ranks)).tolist()),
    )


def _by_end(starts: Ints, ends: Ints, counted: Bools) -> tuple[Ints, Ints, Bools]:
    order = np.argsort(ends, kind="stable")
    return starts[order], ends[order], counted[order]


def _pair(reference: Ints, other: Ints) -> tuple[Ints, int] | None:
    """For each of the reference's ends the row of the other's or -1; and the other clock's lead.

    By order, if there are as many of them and most ends keep the same distance; else by time,
    if the clocks agree (the ranks of one host share theirs).
    """
    allowed = min(END_TOLERANCE_NS, _usual_distance(reference) // 4)
    if len(reference) == len(other):
        distance = other - reference
        lead = int(np.median(distance))
        near = np.abs(distance - lead) <= allowed
        if near.sum() > len(near) / 2 and abs(lead) <= MAX_LEAD_NS:
            return np.where(near, np.arange(len(other)), -1), lead
    nearest = _nearest(reference, other)
    near = np.abs(other[nearest] - reference) <= allowed
    near &= _nearest(other, reference)[nearest] == np.arange(len(reference))
    if near.sum() < max(_MIN_PAIRS, _MIN_SHARE * max(len(reference), len(other))):
        return None
    return np.where(near, nearest, -1), 0


def _usual_distance(ends: Ints) -> int:
    return int(np.median(np.diff(ends))) if len(ends) > 1 else 4 * END_TOLERANCE_NS


def _nearest(points: Ints, candidates: Ints) -> Ints:
    """Row of the nearest of the sorted candidates, point by point."""
    after = np.searchsorted(candidates, points).clip(1, max(len(candidates) - 1, 1))
    low, high = after - 1, np.minimum(after, len(candidates) - 1)
    nearer_low = points - candidates[low] <= candidates[high] - points
    return np.where(nearer_low, low, high)
