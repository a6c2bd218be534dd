"""Steps of a run, from the marks that end them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Ints
from syncscope.analysis.robust import tolerance
from syncscope.analysis.windows import int64

_SOURCES = ("api", "optimizer", "profiler")

MIN_STEPS = 4
"""Fewer steps do not show what is usual."""


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

    The first is what comes before the first mark, start-up and the first step together: it
    is shown, but `full_steps` leaves it out. Intervals that reach over the edge of a
    window are cut there, and `full_steps` leaves out what is cut at its start. A mark at the
    start of a window ends no step in it. What follows the last mark is no step. Without marks
    that end one, the whole is one step.
    """
    if not len(windows[0]):
        return pd.DataFrame({"index": [], "start_ns": [], "end_ns": []}, dtype=np.int64)
    window = np.searchsorted(windows[0], marks, side="right") - 1
    starts = np.maximum(np.append(windows[0][:1], marks[:-1])[: len(marks)], windows[0][window])
    starts, ends = starts[marks > starts], marks[marks > starts]
    if not len(ends):
        starts, ends = windows[0][:1], windows[1][-1:]
    return pd.DataFrame({"index": np.arange(len(ends)), "start_ns": starts, "end_ns": ends})


def full_steps(steps: pd.DataFrame, marks: Ints) -> pd.DataFrame:
    """The steps that count: they begin and end with a mark, and come after the warm-up.

    All steps where none begins with a mark. Every figure "per step" is over these.
    """
    whole = steps[steps["start_ns"].isin(marks)]
    if not len(whole):
        return steps
    return whole.iloc[warm_up_length(int64(whole, "end_ns") - int64(whole, "start_ns")) :]


def with_lengths(steps: pd.DataFrame, done_by: Callable[[Ints], Ints] | None) -> pd.DataFrame:
    """Add length_ns: how long each step took on the host and the devices together.

    `done_by` says for moments of the host when all was done that it had launched until then
    (`replay.Program.done_by`), and a step took from there to there. So a host that runs ahead
    of the devices does not make steps look shorter than they are. Without it, the time
    between the marks.
    """
    starts, ends = int64(steps, "start_ns"), int64(steps, "end_ns")
    if done_by is not None:
        starts, ends = done_by(starts), done_by(ends)
    return steps.assign(length_ns=ends - starts)


def warm_up_length(lengths: Ints) -> int:
    """How many of the first steps are warm-up, at most half of them.

    The later half tells what is usual: its median, and a tolerance of `robust.tolerance`
    (warm-up that lasts longer than half of the run cannot be told from it). Warm-up is the
    steps before the first usual one: longer than that (libraries load, kernels are compiled
    or chosen), or less than half as long (the host runs ahead until the queue of launches
    is full, and what it does then takes no time). Fewer than MIN_STEPS say nothing: 0.
    """
    if len(lengths) < MIN_STEPS:
        return 0
    early, later = np.split(lengths, [len(lengths) // 2])
    level, allowed = float(np.median(later)), tolerance(later)
    usual = (early <= level + allowed) & (early >= level - max(allowed, level / 2))
    return int(np.argmax(np.append(usual, True)))


def _most_frequent(marks: pd.DataFrame, column: str) -> pd.DataFrame:
    counts = marks.groupby(column, sort=False).size()
    return marks[marks[column] == counts.idxmax()]
