"""A time that differs from step to step, and whether it changed by more than that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from syncscope.analysis.robust import Numbers, median_interval
from syncscope.analysis.steps import MIN_STEPS


@dataclass(frozen=True, slots=True)
class Spread:
    """Median of a figure over `count` steady steps, and an interval that holds it.

    The interval is that of `robust.median_interval`: 95 % where there are six steps or more,
    else the lowest and the highest step.
    """

    median: float
    low: float
    high: float
    count: int


@dataclass(frozen=True, slots=True)
class Change:
    """A figure before and after. `outcome` is better (less), worse, noise or unknown."""

    old: Spread
    new: Spread
    outcome: str


def spread_of(values: Numbers) -> Spread:
    """The spread of one value a step; all zeros where there is no step."""
    if not len(values):
        return Spread(0.0, 0.0, 0.0, 0)
    low, high = median_interval(values)
    return Spread(float(np.median(values)), low, high, len(values))


def change_of(old: Spread, new: Spread, floor: float, *, comparable: bool = True) -> Change:
    """Compare two spreads of a figure of which less is better.

    It changed if the intervals do not overlap and the medians differ by more than `floor`;
    else the difference is noise. Where nothing changed, intervals of 95 % come apart in about
    one of 200 comparisons; those of MIN_STEPS steps, from lowest to highest, in one of 35. With
    fewer steps on a side, or sides that are not `comparable`, the outcome is unknown.
    """
    if not comparable or min(old.count, new.count) < MIN_STEPS:
        return Change(old, new, "unknown")
    apart = old.high < new.low or new.high < old.low
    if not apart or abs(new.median - old.median) <= floor:
        return Change(old, new, "noise")
    return Change(old, new, "worse" if new.median > old.median else "better")
