"""Which parts of a long recording a report holds event by event; the rest is kept in slots."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from syncscope.reports.marks import Flags, Integers, Marks

MIN_STEPS = 8
PIECES = 256
"""A recording with fewer steps than MIN_STEPS is chosen from in so many equal pieces."""

Span = tuple[int, int]


def detailed_spans(
    groups: Sequence[Marks], edges_ns: Integers, wanted_ns: Integers, budget: int
) -> tuple[Span, ...]:
    """Spans between edges that hold at most `budget` marks together, neighbours joined.

    First those with one of the wanted times, then from the middle of the recording outwards:
    the beginning is warm-up. Where everything fits, the one span is everything.
    """
    if sum(map(len, groups)) <= budget:
        return ((int(edges_ns[0]), int(edges_ns[-1])),)
    counts = np.zeros(len(edges_ns) - 1, dtype=np.int64)
    for marks in groups:
        counts += np.bincount(_span_of(marks.start_ns, edges_ns), minlength=len(counts))
    wanted = np.zeros(len(counts), dtype=bool)
    wanted[_span_of(wanted_ns, edges_ns)] = True
    distance = np.abs(np.arange(len(counts)) - len(counts) // 2)
    chosen = np.zeros(len(counts), dtype=bool)
    for number in np.lexsort((distance, ~wanted)):
        if counts[number] <= budget:
            budget -= int(counts[number])
            chosen[number] = True
    return _joined(chosen, edges_ns)


def edges_of(steps: pd.DataFrame, start_ns: int, end_ns: int) -> Integers:
    """The times at which steps begin, or of equal pieces where there are few steps.

    The last edge is past the end: a mark may begin in the last moment of the recording.
    """
    if len(steps) < MIN_STEPS:
        return np.unique(np.linspace(start_ns, end_ns + 1, PIECES + 1).astype("i8"))
    starts = steps["start_ns"].to_numpy(dtype=np.int64)
    return np.unique(np.concatenate(([start_ns], starts, [end_ns + 1])))


def within(marks: Marks, spans: Sequence[Span]) -> Marks:
    """The marks that begin in one of the spans."""
    inside = np.zeros(len(marks), dtype=bool)
    for start_ns, end_ns in spans:
        inside[slice(*np.searchsorted(marks.start_ns, [start_ns, end_ns]))] = True
    return marks.where(inside)


def _span_of(times_ns: Integers, edges_ns: Integers) -> Integers:
    span = np.searchsorted(edges_ns, times_ns, side="right") - 1
    return np.clip(span, 0, len(edges_ns) - 2)


def _joined(chosen: Flags, edges_ns: Integers) -> tuple[Span, ...]:
    steps = np.diff(np.concatenate(([0], chosen.astype(np.int8), [0])))
    starts, ends = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return tuple(zip(edges_ns[starts].tolist(), edges_ns[ends].tolist(), strict=True))
