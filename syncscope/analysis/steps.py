"""Steps of a run, from the marks that end them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Ints
from syncscope.analysis.windows import int64

_SOURCES = ("api", "optimizer", "profiler")


def step_marks(marks: pd.DataFrame, windows: tuple[Ints, Ints]) -> Ints:
    """Times inside the windows at which a step ended, rising, none twice.

    Of the sources the first in `_SOURCES` that left a mark counts. Optimizers have names
    of their own ("Adam#1"); the one that steps most often makes the steps (the first seen
    of those that tie), on the thread that steps it most often.
    """
    if not len(windows[0]):
        return np.empty(0, dtype=np.int64)
    for source in _SOURCES:
        chosen = marks[marks["source"] == source].sort_values("time_ns", kind="stable")
        if not len(chosen):
            continue
        if source == "optimizer":
            chosen = _most_frequent(chosen, "name")
        times = np.unique(int64(_most_frequent(chosen, "thread_id"), "time_ns"))
        window = np.searchsorted(windows[0], times, side="right") - 1
        return times[(window >= 0) & (times <= windows[1][window])]
    return np.empty(0, dtype=np.int64)


def step_table(marks: Ints, windows: tuple[Ints, Ints]) -> pd.DataFrame:
    """Intervals between marks: index, start_ns, end_ns.

    Index 0 is what comes before the first mark, start-up and the first step together: it
    is shown, but `full_steps` leaves it out. Intervals that reach over the edge of a
    window are cut there, and `full_steps` leaves out what is cut at its start. What follows
    the last mark is no step. Without marks, the whole is one step.
    """
    if not len(windows[0]):
        return pd.DataFrame({"index": [], "start_ns": [], "end_ns": []}, dtype=np.int64)
    if not len(marks):
        starts, ends = windows[0][:1], windows[1][-1:]
    else:
        window = np.searchsorted(windows[0], marks, side="right") - 1
        starts = np.maximum(np.append(windows[0][0], marks[:-1]), windows[0][window])
        ends = marks
    return pd.DataFrame({"index": np.arange(len(ends)), "start_ns": starts, "end_ns": ends})


def full_steps(steps: pd.DataFrame, marks: Ints) -> pd.DataFrame:
    """Steps that begin and end with a mark; all steps where there is no such one."""
    whole = steps[steps["start_ns"].isin(marks)]
    return whole if len(whole) else steps


def _most_frequent(marks: pd.DataFrame, column: str) -> pd.DataFrame:
    counts = marks.groupby(column, sort=False).size()
    return marks[marks[column] == counts.idxmax()]
