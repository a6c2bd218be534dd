"""When each device was busy, and when it was not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints, rest, total
from syncscope.analysis.windows import int64, spans
from syncscope.records import StreamSummary


def idle_gaps(
    activity: pd.DataFrame, devices: list[int], windows: tuple[Ints, Ints]
) -> pd.DataFrame:
    """Columns device, start_ns, end_ns: the time in the windows without any activity.

    `activity` is clipped to the windows. Busy time is the union over all streams, so that
    gaps and busy time of a device add up to the windows exactly.
    """
    parts = []
    for device in devices:
        starts, ends = rest(*spans(activity, _rows(activity, "device", device)), *windows)
        parts.append(pd.DataFrame({"device": device, "start_ns": starts, "end_ns": ends}))
    if not parts:
        return pd.DataFrame({"device": [], "start_ns": [], "end_ns": []}, dtype=np.int64)
    return pd.concat(parts, ignore_index=True)


def busy_ns(activity: pd.DataFrame, device: int) -> int:
    """Time in which the device ran anything."""
    return total(*spans(activity, _rows(activity, "device", device)))


def stream_summaries(activity: pd.DataFrame, device: int) -> tuple[StreamSummary, ...]:
    """Each stream's own busy time, and its idle time while another stream was busy."""
    own = _rows(activity, "device", device)
    whole = total(*spans(activity, own))
    summaries = []
    for stream in sorted(pd.unique(int64(activity, "stream")[own]).tolist()):
        busy = total(*spans(activity, own & _rows(activity, "stream", stream)))
        summaries.append(StreamSummary(stream, busy, whole - busy))
    return tuple(summaries)


def _rows(activity: pd.DataFrame, column: str, number: int) -> Bools:
    return (activity[column] == number).to_numpy()
