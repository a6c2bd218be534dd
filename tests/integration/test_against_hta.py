"""Busy time, idle time and counts of real traces, next to those of HolisticTraceAnalysis 0.5.

tests/data/traces/hta.json holds what HTA says (`benchmarks/analysis_speed.py --agreement`): of
all steps (by default it leaves out the last one), and without its rows of kind cuda_sync, which
are waits of the host that it counts as work of the device. Its idle time lies between the first
and the last activity.

HTA has whole microseconds: it rounds starts up and ends down. The same is done here to ours.
Where times count from 1970 it rounds float64, which has steps of 0.25 us there, so that either
side of an activity may fall on the other microsecond: a quarter of a microsecond an activity
is allowed for that, not more.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from syncscope.analysis.gaps import busy_ns, idle_gaps
from syncscope.recording.reader import Recording
from syncscope.recording.trace_events import TraceFile
from syncscope.recording.trace_import import import_trace

TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"
HTA = json.loads((TRACES / "hta.json").read_text())
KINDS = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}
TOLERANCE = 0.001
FLOAT_STEP_NS = 250


@pytest.mark.parametrize("name", HTA)
def test_busy_idle_and_counts_agree(name, tmp_path):
    import_trace(TRACES / name, tmp_path / "run")
    recording = Recording(tmp_path / "run")
    activity = recording.table("activity")
    counts = {told: int((activity["kind"] == kind).sum()) for kind, told in KINDS.items()}
    assert counts == {told: HTA[name][told] for told in KINDS.values()}
    whole = in_whole_microseconds(activity, recording.manifest.origin_unix_ns - epoch_ns(name))
    (device,) = activity["device"].unique()
    window = np.array([whole["start_ns"].min()]), np.array([whole["end_ns"].max()])
    gaps = idle_gaps(whole, [device], window)
    ours = busy_ns(whole, device), int((gaps["end_ns"] - gaps["start_ns"]).sum())
    for time, told in zip(ours, (HTA[name]["busy_us"], HTA[name]["idle_us"]), strict=True):
        fine = len(activity) * FLOAT_STEP_NS if (activity["start_ns"] % 1000).any() else 0
        assert time == pytest.approx(1000 * told, rel=TOLERANCE, abs=fine)


def epoch_ns(name: str) -> int:
    """What the times of a trace count from."""
    trace = TraceFile(TRACES / name)
    for _ in trace.batches():
        pass
    return int(trace.metadata.base_time_nanoseconds)


def in_whole_microseconds(activity: pd.DataFrame, origin_ns: int) -> pd.DataFrame:
    """As HTA has it: times of the trace, starts rounded up and ends down."""
    return activity.assign(
        start_ns=-(-(activity["start_ns"] + origin_ns) // 1000) * 1000,
        end_ns=(activity["end_ns"] + origin_ns) // 1000 * 1000,
    )
