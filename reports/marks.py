"""Intervals to draw, and how much of each slot of time they fill. Arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from syncscope.analysis.intervals import covered, union

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Shares = npt.NDArray[np.uint16]

FULL = 65_535
"""A slot that is filled from its beginning to its end."""


@dataclass(frozen=True)
class Marks:
    """Columns of one length, sorted by start; times in ns.

    `site` is the number of a site or -1, `label` the number of a text.
    """

    start_ns: Integers
    end_ns: Integers
    site: Integers
    label: Integers

    def __len__(self) -> int:
        return len(self.start_ns)

    def where(self, chosen: Flags | Integers) -> Marks:
        """The chosen marks, in the order they are chosen in."""
        return Marks(
            self.start_ns[chosen], self.end_ns[chosen], self.site[chosen], self.label[chosen]
        )


def sorted_marks(start_ns: Integers, end_ns: Integers, site: Integers, label: Integers) -> Marks:
    """One mark for each interval, sorted by start, of equal starts the longest first."""
    order = np.lexsort((-end_ns, start_ns))
    return Marks(start_ns, np.maximum(end_ns, start_ns), site, label).where(order)


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
    parts = np.split(kept, np.cumsum([len(marks) for marks in groups])[:-1])
    chosen = [marks.where(part) for marks, part in zip(groups, parts, strict=True)]
    return chosen, int(lengths[kept].min())


def filled(marks: Marks, start_ns: int, slot_ns: int, slots: int) -> Shares:
    """How much of each slot the marks cover, together: 0 to FULL, rounded up.

    Marks that overlap count once. Rounding up keeps what is short from vanishing; it is
    wrong by less than 1 / FULL of a slot.
    """
    edges = start_ns + slot_ns * np.arange(slots + 1, dtype=np.int64)
    time_ns = covered(edges[:-1], edges[1:], *union(marks.start_ns, marks.end_ns))
    shares: Shares = (-(-time_ns * FULL // slot_ns)).astype(np.uint16)
    return shares
