"""When each device was busy, and when it was not."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Ints, rest, union
from syncscope.analysis.windows import int64
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
        own = activity.loc[activity["device"] == device, ["start_ns", "end_ns"]]
        starts, ends = rest(*union(int64(own, "start_ns"), int64(own, "end_ns")), *windows)
        parts.append(pd.DataFrame({"device": device, "start_ns": starts, "end_ns": ends}))
    if not parts:
        return pd.DataFrame({"device": [], "start_ns": [], "end_ns": []}, dtype=np.int64)
    return pd.concat(parts, ignore_index=True)


def busy_ns(activity: pd.DataFrame, device: int) -> int:
    """Time in which the device ran anything."""
    own = activity.loc[activity["device"] == device, ["start_ns", "end_ns"]]
    starts, ends = union(int64(own, "start_ns"), int64(own, "end_ns"))
    return int((ends - starts).sum())


def stream_summaries(activity: pd.DataFrame, device: int) -> tuple[StreamSummary, ...]:
    """Each stream's own busy time, and its idle time while another stream was busy."""
    own = activity.loc[activity["device"] == device, ["stream", "start_ns", "end_ns"]]
    whole = busy_ns(activity, device)
    summaries = []
    for stream in np.unique(int64(own, "stream")).tolist():
        rows = own[own["stream"] == stream]
        starts, ends = union(int64(rows, "start_ns"), int64(rows, "end_ns"))
        busy = int((ends - starts).sum())
        summaries.append(StreamSummary(stream, busy, whole - busy))
    return tuple(summaries)
