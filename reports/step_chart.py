"""The steps one after another: how long each took, how much of it the GPU idled, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from syncscope.records import StepRecord, Summary
from syncscope.reports.visible_text import visible
from syncscope.units import byte_size, duration, percent, quantity

MAX_COLUMNS = 200
MAX_OUTLIERS = 8
ROOM = 1.25
"""Height of the chart, of the longest steady step: start-up would make all others invisible."""


@dataclass(frozen=True, slots=True)
class StepColumn:
    """One step, or the longest of several neighbours. Heights are of the chart, 0 to 1."""

    index: int
    busy: float
    idle: float
    steady: bool
    outlier: bool
    cut: bool
    """Whether it is longer than the chart is high."""
    title: str


@dataclass(frozen=True, slots=True)
class Outlier:
    """A step that took long, and the sentence that says why."""

    index: int
    sentence: str


@dataclass(frozen=True, slots=True)
class StepChart:
    """Columns from left to right."""

    columns: tuple[StepColumn, ...]
    top: str
    """The length that the chart is high."""
    summary: str
    outliers: tuple[Outlier, ...]
    outliers_left_out: int


def step_chart(summary: Summary, top_ns: int | None = None) -> StepChart | None:
    """Shape the steps; None for fewer than two. `top_ns` gives charts the same scale."""
    steps = summary.steps
    if len(steps) < 2:
        return None
    height_ns = top_ns or chart_height_ns(summary)
    outliers = [step for step in steps if step.outlier]
    return StepChart(
        columns=tuple(_column(group, height_ns) for group in _grouped(steps)),
        top=duration(height_ns),
        summary=_in_words(steps),
        outliers=tuple(
            Outlier(step.index, visible(step.outlier, 400)) for step in outliers[:MAX_OUTLIERS]
        ),
        outliers_left_out=max(len(outliers) - MAX_OUTLIERS, 0),
    )


def chart_height_ns(summary: Summary) -> int:
    """A length a little above the longest steady step; of all steps where none is steady."""
    steady = [step.length_ns for step in summary.steps if step.steady]
    lengths = steady or [step.length_ns for step in summary.steps]
    return max(int(max(lengths, default=1) * ROOM), 1)


def _grouped(steps: Sequence[StepRecord]) -> list[Sequence[StepRecord]]:
    each = -(-len(steps) // MAX_COLUMNS)
    return [steps[first : first + each] for first in range(0, len(steps), each)]


def _column(group: Sequence[StepRecord], height_ns: int) -> StepColumn:
    step = max(group, key=lambda one: (bool(one.outlier), one.length_ns))
    idle = min(step.idle_ns, step.length_ns) / height_ns
    whole = step.length_ns / height_ns
    # What does not fit is cut off in proportion: the share of idle time stays true.
    scale = min(1.0, 1 / whole) if whole else 1.0
    return StepColumn(
        index=step.index,
        busy=(whole - idle) * scale,
        idle=idle * scale,
        steady=step.steady,
        outlier=bool(step.outlier),
        cut=whole > 1,
        title=_title(step, len(group)),
    )


def _title(step: StepRecord, of: int) -> str:
    share = percent(step.idle_ns / step.length_ns) if step.length_ns else "–"
    parts = [
        f"step {step.index}: {duration(step.length_ns)}",
        f"GPU idle {share}",
        f"host blocked {duration(step.blocked_ns)}",
    ]
    if step.h2d_bytes or step.d2h_bytes:
        parts.append(f"{byte_size(step.h2d_bytes)} to the GPU, {byte_size(step.d2h_bytes)} back")
    if not step.steady:
        parts.append("warm-up")
    if of > 1:
        parts.append(f"the longest of {of} steps")
    return ", ".join(parts)


def _in_words(steps: Sequence[StepRecord]) -> str:
    steady = np.array([step.length_ns for step in steps if step.steady], dtype=np.int64)
    if not len(steady):
        return f"{quantity(len(steps), 'step')}, none of them steady"
    low, middle, high = np.percentile(steady, [5, 50, 95])
    spread = f"median {duration(middle)}, nine of ten between {duration(low)} and {duration(high)}"
    return f"{quantity(len(steady), 'steady step')}: {spread}"
