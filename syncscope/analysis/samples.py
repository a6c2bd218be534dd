"""Calls that no hook saw, but during which the thread's stack was sampled."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Ints, innermost
from syncscope.analysis.windows import int64


def ask_samples(event: Ints, waits: pd.DataFrame, hooks: pd.DataFrame) -> None:
    """Give each wait or allocator call that is still free the sample of its thread in it.

    `event` holds for each row of `waits` the row of `hooks` that claims it, or -1, and is
    filled in place. A sampled row spans the runtime call in which the sample was taken.
    """
    samples = hooks[hooks["source"] == "sampled"]
    wanted = (event < 0) & (waits["blocking"] | (waits["kind"] == "allocator")).to_numpy()
    threads = int64(waits, "thread_id")
    for thread, group in samples.groupby("thread_id"):
        free = np.flatnonzero(wanted & (threads == thread))
        middle = (int64(group, "start_ns") + int64(group, "end_ns")) // 2
        found = innermost(middle, int64(waits, "start_ns")[free], int64(waits, "end_ns")[free])
        inside = found >= 0
        event[free[found[inside]]] = group.index.to_numpy()[inside]
