"""Small multiples of a job: the steps of each rank, on one scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from syncscope.analysis.result import Analysis
from syncscope.reports.step_chart import StepChart, chart_height_ns, step_chart
from syncscope.reports.units import duration, percent

MAX_RANKS = 64


@dataclass(frozen=True, slots=True)
class RankChart:
    """One rank; `slowest` marks the one with the longest median step. `chart` as for a run."""

    rank: int
    step: str
    idle: str
    slowest: bool
    chart: StepChart | None


def rank_charts(analyses: Sequence[Analysis]) -> tuple[RankChart, ...]:
    """One chart for each rank, in the order of ranks; empty for a single one.

    Steps of all ranks wait for each other, so that the rank which idles least is often the
    one that the others wait for.
    """
    if len(analyses) < 2:
        return ()
    ordered = sorted(analyses, key=lambda one: one.manifest.rank)[:MAX_RANKS]
    top_ns = max(chart_height_ns(one.summary) for one in ordered)
    longest_ns = max(one.summary.run.step_ns for one in ordered)
    return tuple(
        RankChart(
            rank=one.manifest.rank,
            step=duration(one.summary.run.step_ns),
            idle=_idle(one),
            slowest=one.summary.run.step_ns == longest_ns,
            chart=step_chart(one.summary, top_ns),
        )
        for one in ordered
    )


def _idle(analysis: Analysis) -> str:
    gpus = [gpu for gpu in analysis.summary.gpu if gpu.busy_ns]
    if not gpus:
        return "unknown"
    return percent(sum(gpu.steady_idle_fraction for gpu in gpus) / len(gpus))
