"""The same collective is found on all ranks, and the last one to arrive with it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.analysis.collectives import arrivals, is_collective

MS = 1_000_000
Rank = tuple[np.ndarray, np.ndarray, np.ndarray]


def met(arrived: list[list[int]], *, lead: int = 0, exchange: int = MS) -> list[Rank]:
    """Kernels of ranks that arrived at these times (ms), one row a rank; each clock further on."""
    starts = np.array(arrived, dtype=np.int64) * MS
    ends = starts.max(axis=0) + exchange
    ranks = []
    for number, own in enumerate(starts):
        shift = number * lead
        jitter = np.arange(len(own)) * 1_000 * number  # ends differ by microseconds
        ranks.append((own + shift, ends + jitter + shift, np.ones(len(own), dtype=np.bool_)))
    return ranks


def without(rank: Rank, *rows: int) -> Rank:
    keep = np.setdiff1d(np.arange(len(rank[0])), rows)
    starts, ends, counted = rank
    return starts[keep], ends[keep], counted[keep]


ARRIVED = [[10, 50, 90, 130], [14, 50, 95, 131], [11, 48, 91, 137]]


def test_waits_are_charged_to_the_rank_that_came_last() -> None:
    found = arrivals(met(ARRIVED))
    assert found is not None
    assert found.matched == 4
    assert found.waited_ns == pytest.approx((16 * MS, 6 * MS, 9 * MS), abs=20_000)
    assert found.last == (1, 2, 1)
    assert found.made_wait_ns == pytest.approx((2 * MS, 16 * MS, 13 * MS), abs=20_000)


@pytest.mark.parametrize("lead", [30_000, 7 * MS, -40 * MS])
def test_clocks_need_not_agree(lead: int) -> None:
    assert arrivals(met(ARRIVED, lead=lead)) == arrivals(met(ARRIVED))


def test_collectives_that_a_rank_did_not_record_are_left_out() -> None:
    one, two, three = met(ARRIVED)
    found = arrivals([one, without(two, 1), three])
    assert found is not None
    assert found.matched == 3
    assert found.last == (0, 2, 1)


def test_steps_that_differ_are_not_taken_for_clocks_that_differ() -> None:
    one, other = met([[10, 400, 790, 1180, 1575], [14, 405, 793, 1184, 1570]])
    found = arrivals([without(one, 4), without(other, 0)])  # windows a step apart
    assert found is not None
    assert (found.matched, found.last) == (3, (0, 3))


def test_only_what_counts_is_summed_up_but_all_helps_to_find_pairs() -> None:
    one, two, three = met(ARRIVED)
    late = np.array([False, False, False, True])
    found = arrivals([(one[0], one[1], late), two, three])
    assert found is not None
    assert (found.matched, found.last) == (1, (0, 0, 1))
    assert arrivals([(one[0], one[1], ~late & late), two, three]) is None


@pytest.mark.parametrize(
    "ranks",
    [
        [],
        met([[10, 50]]),
        [*met([[10, 50]]), (np.zeros(0, int), np.zeros(0, int), np.zeros(0, bool))],
        # two programs that have nothing to do with each other
        [met([[10, 50, 93]])[0], met([[1_022, 1_031, 1_077, 1_080]])[0]],
    ],
)
def test_what_has_no_partner_is_not_compared(ranks: list[Rank]) -> None:
    assert arrivals(ranks) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)), min_size=3, max_size=20
    ),
    st.integers(-15, 15),  # of clocks that differ by half a step no pairing is sure
)
def test_it_agrees_with_what_the_ranks_did(late: list[tuple[int, ...]], lead: int) -> None:
    arrived = np.array(late, dtype=np.int64).T + np.arange(len(late)) * 40
    found = arrivals(met(arrived.tolist(), lead=lead * MS))
    assert found is not None
    assert found.matched == len(late)
    waited = (arrived.max(axis=0) - arrived).sum(axis=1) * MS
    # Ends that differ by microseconds are all that the clocks are read from.
    assert np.abs(np.array(found.waited_ns) - waited).max() <= 40_000 * len(late)
    assert sum(found.made_wait_ns) == sum(found.waited_ns)
    assert sum(found.last) == len(late)


def test_kernels_of_nccl_and_rccl_are_collectives() -> None:
    names = ["ncclDevKernel_AllReduce_Sum_f32_RING_LL(x)", "rcclGenericKernel", "gemm"]
    assert is_collective(pd.DataFrame({"name": names})).tolist() == [True, True, False]
    assert len(is_collective(pd.DataFrame({"name": np.array([], dtype=object)}))) == 0
