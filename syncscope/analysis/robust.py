"""Statistics that a few odd values do not move: levels, limits and intervals."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.int64] | npt.NDArray[np.float64]

MODIFIED_Z = 3.5
"""Beyond this modified z-score a value is an outlier (Iglewicz and Hoaglin, 1993)."""

MAD_TO_SIGMA = 0.6745
"""MAD of a normal distribution as a part of its standard deviation."""

NOISE_FLOOR = 0.2
"""A value closer to the median than this part of it is never an outlier.

The MAD of a few steps is often next to nothing, while host time drifts by as much.
"""


def tolerance(values: Numbers) -> float:
    """How far from the median of the values (not empty) another one may lie to be usual."""
    median = float(np.median(values))
    deviation = float(np.median(np.abs(values - median)))
    return max(MODIFIED_Z / MAD_TO_SIGMA * deviation, NOISE_FLOOR * median)


def median_interval(values: Numbers) -> tuple[float, float]:
    """An interval that holds the true median with a probability of at least about 95 %.

    Its ends are values themselves, so that it needs no assumption about how they are
    distributed: of n sorted values those of rank floor(n / 2 - 0.98 sqrt(n)) from either end
    (Conover, Practical Nonparametric Statistics, 1999, 3.2). Fewer than six values span less
    than 95 %: then it is lowest and highest. Not for empty input; costs a sort.
    """
    ordered = np.sort(values)
    rank = max(math.floor(len(ordered) / 2 - 0.98 * math.sqrt(len(ordered))), 1)
    return float(ordered[rank - 1]), float(ordered[-rank])
