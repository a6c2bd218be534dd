"""The ranks of one job, read together: what each costs, and which one made the others wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from syncscope.analysis.code_match import CodeKey, code_key
from syncscope.analysis.collectives import Arrivals, arrivals, is_collective
from syncscope.analysis.intervals import Bools, Ints, covered, union
from syncscope.analysis.replay_forecast import FIX_FRACTION
from syncscope.analysis.result import Analysis
from syncscope.analysis.robust import NOISE_FLOOR
from syncscope.analysis.spread import Spread, spread_of
from syncscope.analysis.windows import int64
from syncscope.records import CAUSES_OF_IDLE, Site, StepRecord

JOB_SCHEMA = 1

CLEAR = 1.5
"""The slowest rank must stand out from the second slowest by this factor to be named."""


@dataclass(frozen=True, slots=True)
class RankFigures:
    """What one rank does in a steady step; times in ns per step, means but for `step`.

    `compute_ns` is the time in which its GPU ran anything but collectives, `collective_ns` that
    of the collectives. `waited_ns` is the part of it in which the rank waited for the last one
    to arrive, `made_wait_ns` how long each other rank waited for this one, `last` in how many
    of the matched collectives; None where collectives could not be matched.
    """

    rank: int
    device: str
    steps: int
    step: Spread
    idle_fraction: float
    idle_by_cause_ns: dict[str, float]
    blocked_ns: float
    compute_ns: float
    collective_ns: float
    waited_ns: float | None = None
    made_wait_ns: float | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class RankCost:
    """What a piece of code costs on one rank, per steady step; `count` is its calls in all."""

    rank: int
    count: int
    savings_ns: int
    blocked_ns: int
    """In all."""


@dataclass(frozen=True, slots=True)
class JobSite:
    """The same code on the ranks that reach it. `verdict` is the worst of theirs."""

    file: str
    line: int
    function: str
    expression: str
    kind: str
    cause: str
    flagged: bool
    verdict: str
    costs: tuple[RankCost, ...]


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that made the others wait, and what it does for longer than they.

    `basis` is arrivals (the same collectives were found on all ranks) or waits (they were not:
    the rank that spends least time in collectives is the one for which the others wait).
    `why` is compute or a cause of idle time, and `why_ns` by how much it exceeds the median
    of the other ranks; "" if that explains less than half of the wait.
    """

    rank: int
    basis: str
    others_wait_ns: float
    why: str
    why_ns: float


@dataclass(frozen=True, slots=True)
class Job:
    """All ranks of a job. `missing` are those that left no recording here."""

    argv: tuple[str, ...]
    simulated: bool
    same_command: bool
    world_size: int
    missing: tuple[int, ...]
    ranks: tuple[RankFigures, ...]
    collectives: int
    """Collectives on the rank with most of them, in its steady steps."""
    matched: int
    straggler: Straggler | None
    sites: tuple[JobSite, ...]
    schema: int = field(default=JOB_SCHEMA)


def job_of(ranks: Iterable[tuple[int, Analysis]]) -> Job:
    """Read the ranks of a job together, one after the other; at least one.

    Sites are the same if their code is (`code_match`). Analyses may come from a generator:
    no more than one has to be in memory at a time.
    """
    seen = [_Rank(number, analysis) for number, analysis in ranks]
    met = arrivals([rank.collectives for rank in seen])
    figures = tuple(
        _with_arrivals(rank.figures, met, place, len(seen)) for place, rank in enumerate(seen)
    )
    world_size = max(max(rank.world_size, rank.number + 1) for rank in seen)
    return Job(
        argv=seen[0].argv,
        simulated=any(rank.simulated for rank in seen),
        same_command=all(rank.imported or rank.argv == seen[0].argv for rank in seen),
        world_size=world_size,
        missing=tuple(sorted(set(range(world_size)) - {rank.number for rank in seen})),
        ranks=figures,
        collectives=max(int(rank.collectives[2].sum()) for rank in seen),
        matched=met.matched if met else 0,
        straggler=None if seen[0].simulated else _straggler(figures),
        sites=_sites(seen),
    )


class _Rank:
    """What is kept of the analysis of one rank."""

    def __init__(self, number: int, analysis: Analysis) -> None:
        manifest, summary = analysis.manifest, analysis.summary
        steady = [step for step in summary.steps if step.steady]
        self.number = number
        self.argv = summary.run.argv
        self.simulated = summary.run.simulated
        self.imported = summary.run.imported
        self.world_size = manifest.world_size
        self.sites = summary.sites
        self.figures = _figures(number, analysis, steady)
        kernels = analysis.activity[is_collective(analysis.activity)]
        starts, ends = int64(kernels, "start_ns"), int64(kernels, "end_ns")
        origin = manifest.origin_unix_ns
        self.collectives = (starts + origin, ends + origin, _in_steps(ends, steady))


def _figures(number: int, analysis: Analysis, steady: Sequence[StepRecord]) -> RankFigures:
    summary, activity = analysis.summary, analysis.activity
    count = max(len(steady), 1)
    collective = is_collective(activity)
    lengths = np.array([step.length_ns for step in steady], dtype=np.int64)
    gpus = max(len(summary.gpu), 1)
    idle = {
        cause: sum(gpu.steady_idle_by_cause_ns.get(cause, 0) for gpu in summary.gpu) / gpus / count
        for cause in CAUSES_OF_IDLE
    }
    return RankFigures(
        rank=number,
        device=summary.run.device,
        steps=len(steady),
        step=spread_of(lengths),
        idle_fraction=sum(gpu.steady_idle_fraction for gpu in summary.gpu) / gpus,
        idle_by_cause_ns=idle,
        blocked_ns=sum(step.blocked_ns for step in steady) / count,
        compute_ns=_busy_ns(activity[~collective], steady) / count,
        collective_ns=_busy_ns(activity[collective], steady) / count,
    )


def _busy_ns(activity: pd.DataFrame, steady: Sequence[StepRecord]) -> int:
    """Time in the steady steps that these activities cover."""
    spans = union(int64(activity, "start_ns"), int64(activity, "end_ns"))
    return int(covered(*_spans(steady), *spans).sum())


def _spans(steady: Sequence[StepRecord]) -> tuple[Ints, Ints]:
    starts = np.array([step.start_ns for step in steady], dtype=np.int64)
    return starts, np.array([step.end_ns for step in steady], dtype=np.int64)


def _in_steps(times: Ints, steady: Sequence[StepRecord]) -> Bools:
    """Which moments lie in a steady step; the last moment of a step belongs to it."""
    return np.asarray(covered(times - 1, times, *_spans(steady)) > 0)


def _with_arrivals(
    figures: RankFigures, met: Arrivals | None, place: int, ranks: int
) -> RankFigures:
    if met is None:
        return figures
    steps = max(figures.steps, 1)
    return replace(
        figures,
        waited_ns=met.waited_ns[place] / steps,
        made_wait_ns=met.made_wait_ns[place] / (ranks - 1) / steps,
        last=met.last[place],
    )


def _straggler(ranks: Sequence[RankFigures]) -> Straggler | None:
    """The rank that the others wait for, if they do for more than 1 % of a step (FIX_FRACTION).

    It must stand out: ranks that wait for each other in turn have no straggler. By arrivals,
    it makes the others wait longer than the second slowest does, by a factor of CLEAR. By the
    time spent in collectives, the others must spend more by NOISE_FLOOR as well: which
    collectives these are is not known.
    """
    if len(ranks) < 2 or not any(rank.collective_ns for rank in ranks):
        return None
    arrived = all(rank.made_wait_ns is not None for rank in ranks)
    most = max(rank.collective_ns for rank in ranks)
    costs = [rank.made_wait_ns or 0.0 if arrived else most - rank.collective_ns for rank in ranks]
    order = np.argsort(np.negative(costs), kind="stable")
    first, second = ranks[order[0]], costs[order[1]]
    cost = costs[order[0]]
    least = FIX_FRACTION * max(rank.step.median for rank in ranks)
    if not arrived:
        least = max(least, NOISE_FLOOR * most)
    if cost <= least or cost < CLEAR * second:
        return None
    why, why_ns = _why(first, [rank for rank in ranks if rank is not first])
    if why_ns < cost / 2:
        why, why_ns = "", 0.0
    return Straggler(first.rank, "arrivals" if arrived else "waits", cost, why, why_ns)


def _why(slow: RankFigures, others: Sequence[RankFigures]) -> tuple[str, float]:
    """What the rank does for longer than the others, most of all, and by how much."""

    def parts(rank: RankFigures) -> Mapping[str, float]:
        return {"compute": rank.compute_ns, **rank.idle_by_cause_ns}

    usual = [parts(rank) for rank in others]
    excess = {
        name: value - float(np.median([other[name] for other in usual]))
        for name, value in parts(slow).items()
    }
    best = max(excess, key=lambda name: excess[name])
    return best, excess[best]


def _sites(ranks: Sequence[_Rank]) -> tuple[JobSite, ...]:
    """The code of all ranks, flagged and dear first."""
    found: dict[CodeKey, list[tuple[int, Site]]] = {}
    for rank in ranks:
        for site in rank.sites:
            found.setdefault(code_key(site, {}), []).append((rank.number, site))
    sites = [_site(entries) for entries in found.values()]
    return tuple(sorted(sites, key=_order))


def _site(entries: Sequence[tuple[int, Site]]) -> JobSite:
    order = ("unsafe", "fix", "allowed", "harmless")
    worst = min((site for _, site in entries), key=lambda site: order.index(site.verdict))
    costs = {}
    for number in dict.fromkeys(number for number, _ in entries):
        own = [site for rank, site in entries if rank == number]
        costs[number] = RankCost(
            rank=number,
            count=sum(site.count for site in own),
            savings_ns=sum(site.savings_ns_per_step for site in own),
            blocked_ns=sum(site.blocked_ns for site in own),
        )
    return JobSite(
        worst.file, worst.line, worst.function, worst.expression, worst.kind, worst.cause,
        any(site.flagged for _, site in entries), worst.verdict, tuple(costs.values()),
    )  # fmt: skip


def _order(site: JobSite) -> tuple[object, ...]:
    dearest = max(cost.savings_ns for cost in site.costs)
    return (not site.flagged, -dearest, site.file, site.line, site.expression)
