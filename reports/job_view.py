"""The first half of the reports of a job: its ranks shaped into texts to show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from syncscope.analysis.job import Job, JobSite, RankFigures, Straggler
from syncscope.reports.figures import IDLE_CAUSES_IN_WORDS
from syncscope.reports.recorded import device_model
from syncscope.reports.visible_text import one_line, visible, visible_path
from syncscope.units import duration, percent, quantity

MAX_SITES = 100
MAX_RANKS_IN_LINE = 8
"""Beyond it a line's costs are summed up by their lowest and highest."""

RANK_HEAD = (
    "rank", "GPU", "steps", "step time", "GPU idle", "computes", "in collectives", "waits",
    "made wait", "last",
)  # fmt: skip
"""Times are per steady step; "waits" is for later ranks, "made wait" what each other one lost."""


@dataclass(frozen=True, slots=True)
class JobSiteRow:
    """A line and what it costs on each rank."""

    location: str
    function: str
    expression: str
    verdict: str
    costs: str


@dataclass(frozen=True, slots=True)
class JobView:
    """Everything that the report of a job shows; all texts are safe to show."""

    program: str
    subtitle: str
    sentence: str
    explanation: str
    tone: str
    notes: tuple[str, ...]
    head: tuple[str, ...]
    ranks: tuple[tuple[str, ...], ...]
    sites: tuple[JobSiteRow, ...]
    sites_total: int
    unflagged: int


def job_view(job: Job) -> JobView:
    """Shape a job. Pure; costs a pass over its sites."""
    flagged = [site for site in job.sites if site.flagged]
    return JobView(
        program=visible_path(" ".join(job.argv), 80) or "imported traces",
        subtitle=_subtitle(job),
        sentence=_sentence(job),
        explanation=_explanation(job),
        tone="gain" if job.straggler else "neutral",
        notes=tuple(_notes(job)),
        head=RANK_HEAD,
        ranks=tuple(_rank_row(rank) for rank in job.ranks),
        sites=tuple(_site_row(site, job) for site in flagged[:MAX_SITES]),
        sites_total=len(flagged),
        unflagged=len(job.sites) - len(flagged),
    )


def _subtitle(job: Job) -> str:
    ranks = quantity(len(job.ranks), "rank")
    read = ranks if not job.missing else f"{len(job.ranks)} of {quantity(job.world_size, 'rank')}"
    return f"{read} · shadow GPUs" if job.simulated else read


def _sentence(job: Job) -> str:
    slow = job.straggler
    if slow is not None:
        others = "the others wait" if len(job.ranks) > 2 else "the other one waits"
        return f"Rank {slow.rank} is the slow one: {others} {duration(slow.others_wait_ns)} a step."
    longest = max(job.ranks, key=lambda rank: rank.step.median)
    shortest = min(rank.step.median for rank in job.ranks)
    clause = "Estimated steps take" if job.simulated else "Steps take"
    clause = f"{clause} {duration(longest.step.median)}"
    if len(job.ranks) < 2:
        return f"{clause}; this is one rank alone."
    if shortest < longest.step.median:
        clause = f"{clause} on rank {longest.rank}, down to {duration(shortest)} on others"
    if job.simulated:
        return f"{clause}; who would wait for whom is not simulated."
    if not job.collectives:
        return f"{clause}; no collective ran on the GPU, so who waits for whom is not known."
    return f"{clause}; no rank keeps the others waiting."


def _explanation(job: Job) -> str:
    slow = job.straggler
    if slow is None:
        return ""
    return f"{_basis(slow, job)} {_why(slow)}".strip()


def _basis(slow: Straggler, job: Job) -> str:
    if slow.basis == "waits":
        return (
            "Its collectives take least time, so it is the last to arrive. (The same collectives "
            "were not found on all ranks.)"
        )
    last = next(rank.last or 0 for rank in job.ranks if rank.rank == slow.rank)
    return f"It came last to {last:,} of the {quantity(job.matched, 'collective')} compared."


def _why(slow: Straggler) -> str:
    if not slow.why:
        return "Nothing that was recorded explains it."
    more = duration(slow.why_ns)
    if slow.why == "compute":
        return f"Its GPU computes for {more} more a step."
    cause = IDLE_CAUSES_IN_WORDS.get(slow.why, slow.why)
    return f"Its GPU is idle for {more} more a step: {cause}."


def _notes(job: Job) -> Iterator[str]:
    if job.missing:
        shown = ", ".join(str(rank) for rank in job.missing[:MAX_RANKS_IN_LINE])
        more = len(job.missing) - MAX_RANKS_IN_LINE
        yield f"No recording here of rank {shown}{f' and {more} more' if more > 0 else ''}."
    if not job.same_command:
        yield "The ranks ran different commands: are these recordings of one job?"
    if job.simulated:
        yield "Times are estimates: a shadow GPU does not wait for the other ranks."
    if job.straggler and job.straggler.basis == "arrivals" and job.matched < job.collectives:
        yield (
            f"{job.matched:,} of {quantity(job.collectives, 'collective')} were found on all "
            "ranks; waits for the others are not counted."
        )


def _rank_row(rank: RankFigures) -> tuple[str, ...]:
    step = rank.step
    spread = f" [{duration(step.low)} .. {duration(step.high)}]" if step.count > 1 else ""
    return (
        str(rank.rank),
        device_model(rank.device),
        f"{rank.steps:,}",
        f"{duration(step.median)}{spread}",
        percent(rank.idle_fraction),
        duration(rank.compute_ns),
        duration(rank.collective_ns),
        "–" if rank.waited_ns is None else duration(rank.waited_ns),
        "–" if rank.made_wait_ns is None else duration(rank.made_wait_ns),
        "–" if rank.last is None else f"{rank.last:,}×",
    )


def _site_row(site: JobSite, job: Job) -> JobSiteRow:
    return JobSiteRow(
        location=f"{visible_path(site.file)}:{site.line}" if site.line > 0 else "(no line)",
        function=visible(site.function, 80),
        expression=one_line(site.expression),
        verdict=site.verdict,
        costs=_costs(site, job),
    )


def _costs(site: JobSite, job: Job) -> str:
    by_rank = {cost.rank: cost.savings_ns for cost in site.costs}
    if len(job.ranks) <= MAX_RANKS_IN_LINE:
        each = (
            f"rank {rank.rank}: {duration(by_rank[rank.rank]) if rank.rank in by_rank else '–'}"
            for rank in job.ranks
        )
        return ", ".join(each)
    low, high = (pick(by_rank, key=lambda rank: by_rank[rank]) for pick in (min, max))
    return (
        f"{duration(by_rank[low])} (rank {low}) to {duration(by_rank[high])} (rank {high}), "
        f"on {len(by_rank)} of {quantity(len(job.ranks), 'rank')}"
    )
