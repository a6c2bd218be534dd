"""Busy and idle time against a model that looks at every nanosecond."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from syncscope.analysis.gaps import busy_ns, idle_gaps, stream_summaries
from syncscope.analysis.intervals import union
from syncscope.analysis.windows import clipped

SPAN = 40
Row = tuple[int, int, int, int]
rows = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([7, 9]), st.integers(0, SPAN), st.integers(0, 12)),
    max_size=15,
)
spans = st.lists(st.tuples(st.integers(0, SPAN), st.integers(1, 15)), min_size=1, max_size=3)


def moments(pairs: list[tuple[int, int]]) -> set[int]:
    return {time for start, length in pairs for time in range(start, start + length)}


def table(drawn: list[Row]) -> pd.DataFrame:
    columns = np.array(drawn, dtype=np.int64).reshape(-1, 4)
    frame = pd.DataFrame(columns, columns=["device", "stream", "start_ns", "end_ns"])
    return frame.assign(end_ns=frame["start_ns"] + frame["end_ns"])


@given(rows, spans)
def test_gaps_and_busy_time_are_those_of_every_single_moment(
    drawn: list[Row], windows: list[tuple[int, int]]
) -> None:
    bounds = union(
        np.array([start for start, _ in windows]),
        np.array([start + length for start, length in windows]),
    )
    activity = clipped(table(drawn), bounds)
    gaps = idle_gaps(activity, [0, 1], bounds)
    for device in (0, 1):
        busy = moments([(start, length) for d, _, start, length in drawn if d == device])
        inside = moments(windows)
        own = gaps[gaps["device"] == device]
        found = [(int(low), int(high - low)) for _, low, high in own.itertuples(index=False)]
        assert moments(found) == inside - busy
        assert sum(length for _, length in found) == len(inside - busy)
        assert busy_ns(activity, device) == len(inside & busy)


@given(rows)
def test_a_stream_is_busy_or_idle_whenever_its_device_is_busy(drawn: list[Row]) -> None:
    for device in (0, 1):
        whole = moments([(start, length) for d, _, start, length in drawn if d == device])
        for stream in stream_summaries(table(drawn), device):
            own = moments(
                [(start, n) for d, s, start, n in drawn if (d, s) == (device, stream.stream)]
            )
            assert stream.busy_ns == len(own)
            assert stream.idle_ns == len(whole - own)
