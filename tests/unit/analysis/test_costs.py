"""What calls cost, against a model that looks at every nanosecond."""

from __future__ import annotations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from syncscope.analysis.costs import copying_ns, exposed_ns

SPAN = 40
activities = st.lists(
    st.tuples(
        st.integers(0, 1), st.sampled_from(["", "h2d", "d2h", "d2d"]), st.integers(0, SPAN),
        st.integers(0, 12),
    ),
    max_size=14,
)  # fmt: skip
waits = st.lists(
    st.tuples(
        st.sampled_from(["transfer", "sync"]), st.booleans(), st.integers(0, SPAN),
        st.integers(0, 20),
    ),
    max_size=6,
)  # fmt: skip


def moments(start: int, length: int) -> set[int]:
    return set(range(start, start + length))


@settings(deadline=None)
@given(activities, waits)
def test_a_copy_counts_where_nothing_computes_beside_it(
    drawn: list[tuple[int, str, int, int]], calls: list[tuple[str, bool, int, int]]
) -> None:
    drawn = sorted(drawn, key=lambda row: row[2])
    activity = pd.DataFrame(drawn, columns=["device", "direction", "start_ns", "end_ns"])
    activity["end_ns"] += activity["start_ns"]
    table = pd.DataFrame(calls, columns=["kind", "blocking", "start_ns", "end_ns"])
    table["end_ns"] += table["start_ns"]
    expected = [0] * len(calls)
    for device in (0, 1):
        moves, works = set(), set()
        for number, direction, start, length in drawn:
            if number == device:
                (moves if direction in ("h2d", "d2h") else works).update(moments(start, length))
        for index, (kind, blocking, start, length) in enumerate(calls):
            if kind == "transfer" and blocking:
                expected[index] += len(moments(start, length) & (moves - works))
    table = table.astype({"blocking": bool, "start_ns": "int64", "end_ns": "int64"})
    activity = activity.astype(dict.fromkeys(("device", "start_ns", "end_ns"), "int64"))
    assert copying_ns(table, activity).tolist() == expected


def test_a_call_is_charged_with_the_device_that_lost_most_but_no_more_than_it_took() -> None:
    calls = pd.DataFrame(
        {"blocking": True, "blocked_ns": [100, 10], "start_ns": [0, 50], "end_ns": [100, 60]}
    )
    gaps = pd.DataFrame(
        {
            "device": [0, 0, 1, 0, 1], "start_ns": [0, 20, 0, 40, 40],
            "end_ns": [10, 50, 15, 90, 99], "call": [0, 0, 0, 1, -1],
        }
    )  # fmt: skip
    assert exposed_ns(calls, gaps).tolist() == [40, 10]
