"""Small multiples of a job: the steps of each rank, on one scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from syncscope.records import Summary
from syncscope.reports.step_chart import StepChart, chart_height_ns, step_chart
from syncscope.units import duration, percent

MAX_RANKS = 64


@dataclass(frozen=True, slots=True)
class RankChart:
    """One rank; `slowest` marks the one with the longest median step. `chart` as for a run."""

    rank: int
    step: str
    idle: str
    slowest: bool
    chart: StepChart | None


def rank_charts(summaries: Mapping[int, Summary]) -> tuple[RankChart, ...]:
    """One chart for each rank, in the order of ranks, MAX_RANKS at most.

    Steps of all ranks wait for each other, so that the rank which idles least is often the
    one that the others wait for.
    """
    ranks = sorted(summaries)[:MAX_RANKS]
    top_ns = max((chart_height_ns(summaries[rank]) for rank in ranks), default=1)
    longest_ns = max((summaries[rank].run.step_ns for rank in ranks), default=0)
    return tuple(
        RankChart(
            rank=rank,
            step=duration(summaries[rank].run.step_ns),
            idle=_idle(summaries[rank]),
            slowest=summaries[rank].run.step_ns == longest_ns,
            chart=step_chart(summaries[rank], top_ns),
        )
        for rank in ranks
    )


def _idle(summary: Summary) -> str:
    gpus = [gpu for gpu in summary.gpu if gpu.busy_ns]
    if not gpus:
        return "unknown"
    return percent(sum(gpu.steady_idle_fraction for gpu in gpus) / len(gpus))
