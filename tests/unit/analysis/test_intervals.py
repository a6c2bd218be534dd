"""Interval arithmetic against a model that looks at every nanosecond."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from syncscope.analysis.intervals import (
    clip,
    covered,
    expand,
    first_at,
    flatten,
    grouped,
    innermost,
    rest,
    total,
    union,
)

SPAN = 40
interval = st.tuples(st.integers(0, SPAN), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1]))
intervals = st.lists(interval, max_size=12)
Ints = npt.NDArray[np.int64]


def arrays(pairs: list[tuple[int, int]]) -> tuple[Ints, Ints]:
    table = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def moments(pairs: list[tuple[int, int]]) -> set[int]:
    return {time for start, end in pairs for time in range(start, end)}


def pairs_of(columns: tuple[Ints, Ints]) -> list[tuple[int, int]]:
    return list(zip(columns[0].tolist(), columns[1].tolist(), strict=True))


@given(intervals)
def test_a_union_covers_the_same_moments_with_intervals_that_do_not_touch(
    pairs: list[tuple[int, int]],
) -> None:
    merged = pairs_of(union(*arrays(pairs)))
    assert moments(merged) == moments(pairs)
    assert all(a[1] < b[0] for a, b in pairwise(merged))
    assert all(start < end for start, end in merged)
    assert total(*arrays(pairs)) == len(moments(pairs))


@given(intervals, intervals)
def test_rest_and_busy_time_fill_the_windows_exactly(
    pairs: list[tuple[int, int]], window_pairs: list[tuple[int, int]]
) -> None:
    windows = union(*arrays(window_pairs))
    _, starts, ends = clip(*arrays(pairs), *windows)
    busy, gaps = union(starts, ends), rest(*union(starts, ends), *windows)
    assert moments(pairs_of(gaps)) == moments(window_pairs) - moments(pairs)
    total = sum(int((high - low).sum()) for low, high in (busy, gaps))
    assert total == len(moments(window_pairs))


@given(intervals, intervals)
def test_clipping_keeps_what_lies_in_the_windows_and_whose_it_was(
    pairs: list[tuple[int, int]], window_pairs: list[tuple[int, int]]
) -> None:
    owner, starts, ends = clip(*arrays(pairs), *union(*arrays(window_pairs)))
    for index, pair in enumerate(pairs):
        parts = [
            (int(low), int(high))
            for number, low, high in zip(owner, starts, ends, strict=True)
            if number == index
        ]
        assert moments(parts) == moments([pair]) & moments(window_pairs)


def test_an_interval_of_no_length_is_kept_inside_a_window_only() -> None:
    windows = np.array([10]), np.array([20])
    owner, _, _ = clip(*arrays([(5, 5), (10, 10), (15, 15), (20, 20)]), *windows)
    assert owner.tolist() == [1, 2]


@given(intervals, intervals)
def test_covered_counts_the_common_moments(
    pairs: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    found = covered(*arrays(pairs), *union(*arrays(others)))
    assert found.tolist() == [len(moments([pair]) & moments(others)) for pair in pairs]


@st.composite
def nested(draw: st.DrawFn) -> list[tuple[int, int]]:
    """Intervals that lie in each other or apart, as calls on one thread do."""
    found: list[tuple[int, int]] = []

    def fill(low: int, high: int, depth: int) -> None:
        while low < high and draw(st.booleans()):
            start = draw(st.integers(low, high - 1))
            end = draw(st.integers(start + 1, high))
            found.append((start, end))
            if depth:
                fill(start + 1, end - 1, depth - 1)
            low = end + 1

    fill(0, SPAN, 3)
    return draw(st.permutations(found))


@given(nested(), st.lists(st.integers(-1, SPAN + 1), max_size=10))
def test_the_innermost_interval_is_the_shortest_around_a_moment(
    pairs: list[tuple[int, int]], points: list[int]
) -> None:
    found = innermost(np.array(points, dtype=np.int64), *arrays(pairs))
    for point, index in zip(points, found.tolist(), strict=True):
        around = [pair for pair in pairs if pair[0] <= point <= pair[1]]
        shortest = min(around, key=lambda pair: pair[1] - pair[0], default=None)
        assert (pairs[index] if index >= 0 else None) == shortest


@given(st.lists(st.tuples(interval, st.integers(0, 1)), max_size=12))
def test_flattening_shows_at_each_moment_the_interval_on_top(
    ranked: list[tuple[tuple[int, int], int]],
) -> None:
    starts, ends = arrays([pair for pair, _ in ranked])
    low, high, top = flatten(starts, ends, np.array([rank for _, rank in ranked], dtype=np.int64))
    assert (low[1:] >= high[:-1]).all()
    shown = {
        time: index
        for start, end, index in zip(low, high, top, strict=True)
        for time in range(start, end)
    }
    assert set(shown) == moments([pair for pair, _ in ranked])
    for time, index in shown.items():
        around = [(rank, pair[0]) for pair, rank in ranked if pair[0] <= time < pair[1]]
        assert (ranked[index][1], ranked[index][0][0]) == max(around)


@given(
    st.lists(st.integers(-2, 6), max_size=12),
    st.lists(st.integers(-4, 8), max_size=8),
    st.sampled_from([1, 1_000, 1 << 59]),
)
def test_the_first_key_that_equals_a_value_is_found(
    keys: list[int], values: list[int], apart: int
) -> None:
    many, asked = (np.array(numbers, dtype=np.int64) * apart for numbers in (keys, values))
    expected = [keys.index(v) if v in keys else -1 for v in values]
    assert first_at(asked, many).tolist() == expected


def test_values_far_from_keys_that_lie_close_together_are_not_found() -> None:
    far = np.array([1 << 62, -(1 << 62), np.iinfo(np.int64).min, np.iinfo(np.int64).max, 7])
    assert first_at(far, np.array([7, 8, 9])).tolist() == [-1, -1, -1, -1, 0]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_expanding_lists_each_number_of_each_range(ranges: list[tuple[int, int]]) -> None:
    found = expand(*arrays(ranges))
    pairs = [(row, number) for row, bounds in enumerate(ranges) for number in range(*bounds)]
    assert pairs_of(found) == pairs


@given(st.lists(st.integers(-3, 50), max_size=80), st.randoms(use_true_random=False))
def test_grouping_keeps_the_order_within_each_group(groups: list[int], random: Random) -> None:
    order = list(range(len(groups)))
    random.shuffle(order)
    found = grouped(np.array(order, dtype=np.int64), np.array(groups, dtype=np.int64))
    assert found.tolist() == sorted(order, key=lambda row: groups[row])
