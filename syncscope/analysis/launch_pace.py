"""How fast the host feeds a GPU with kernels, and how long it does something else instead."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, covered, union
from syncscope.analysis.texts import is_any
from syncscope.analysis.windows import int64, spans
from syncscope.records import LaunchPace

OTHER_WORK_NS = 1_000_000
"""A gap this long was not spent on launching.

In recordings of launch-bound programs on an H200 half of the gaps between kernels are shorter
than 50 us, and 99 in 100 shorter than 200 us.
"""


def is_other_work(gaps: pd.DataFrame) -> Bools:
    """Which gaps charged to slow launches are other work of the host: Python, numpy, sleep.

    A gap ends with the next launch, so it holds one, however long it is. `gaps` have the
    columns of `Analysis.gaps`.
    """
    long = int64(gaps, "end_ns") - int64(gaps, "start_ns") >= OTHER_WORK_NS
    return np.asarray(long & (gaps["cause"] == "launch").to_numpy())


def launch_pace(
    activity: pd.DataFrame, gaps: pd.DataFrame, steady: pd.DataFrame
) -> LaunchPace | None:
    """The pace in the steady steps, the mean over the devices; None where they hold no kernel.

    `activity` is sorted by start. Costs a few passes over it and over the gaps.
    """
    bounds = union(int64(steady, "start_ns"), int64(steady, "end_ns"))
    starts, ends = int64(activity, "start_ns"), int64(activity, "end_ns")
    begun = np.searchsorted(bounds[0], starts, side="right")
    inside = begun > np.searchsorted(bounds[1], starts, side="right")
    rows = np.flatnonzero(inside & is_any(activity["kind"], ["kernel"]))
    if not len(rows):
        return None
    device = int64(activity, "device")[rows]
    devices = pd.unique(device)
    between = np.concatenate([np.diff(starts[rows[device == number]]) for number in devices])
    return LaunchPace(
        kernels_per_step=len(rows) / (len(steady) * len(devices)),
        kernel_ns=float((ends - starts)[rows].mean()),
        interval_ns=float(np.median(between)) if len(between) else 0.0,
        other_work_ns_per_step=_other_work_ns(gaps, steady) / len(devices),
    )


def _other_work_ns(gaps: pd.DataFrame, steady: pd.DataFrame) -> float:
    """In a usual step: of all devices, the median over the steps."""
    device, other = int64(gaps, "device"), is_other_work(gaps)
    edges = int64(steady, "start_ns"), int64(steady, "end_ns")
    by_step = [
        covered(*edges, *spans(gaps, other & (device == number))) for number in pd.unique(device)
    ]
    return float(np.median(np.sum(by_step, axis=0))) if by_step else 0.0
