"""Intervals and limits that a few odd values do not move."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.analysis.robust import median_interval, tolerance

values = st.lists(st.integers(0, 10**12), min_size=1, max_size=60).map(
    lambda items: np.array(items, dtype=np.int64)
)


@given(values)
def test_the_interval_holds_the_median(sample: np.ndarray) -> None:
    low, high = median_interval(sample)
    assert sample.min() <= low <= np.median(sample) <= high <= sample.max()


@pytest.mark.parametrize("count", range(6, 400, 7))
def test_the_interval_covers_the_true_median_in_95_percent(count: int) -> None:
    low, _ = median_interval(np.arange(count))
    # It misses when fewer than low + 1 values fall on one side: a fair coin, thrown count times.
    missed = 2 * sum(comb(count, k) for k in range(int(low) + 1)) / 2**count
    assert missed <= 0.053
    more = missed + 2 * comb(count, int(low) + 1) / 2**count
    assert more > 0.01, "the interval is needlessly wide"


def test_one_odd_value_moves_neither() -> None:
    usual = np.linspace(50.0, 150.0, 101)
    odd = np.append(usual, 1e9)
    assert tolerance(odd) == pytest.approx(tolerance(usual), rel=0.05)
    assert median_interval(odd) == pytest.approx(median_interval(usual), rel=0.05)


def test_equal_values_tolerate_a_fifth() -> None:
    assert tolerance(np.full(5, 100)) == 20
