"""The few numbers that the verdict, the tiles and the tables agree on."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from syncscope.records import CAUSES_OF_IDLE, Site, Summary
from syncscope.reports.visible_text import visible
from syncscope.units import quantity

HOST_WORK = "host_work"
"""The part of the idle time "launch" in which the host did something else (`LaunchPace`)."""

IDLE_CAUSES_IN_WORDS = {
    "sync": "the host waits for the GPU",
    "transfer": "copies between host and GPU",
    "allocator": "the allocator drains the GPU",
    "dataloader": "waiting for the DataLoader",
    "gc": "Python's garbage collector",
    "launch": "the host launches kernels too slowly",
    "host_work": "the host does other work",
    "device_dependency": "streams wait for each other",
    "unknown": "cause unknown",
}


@dataclass(frozen=True, slots=True)
class IdleShare:
    """Idle time of one cause: per step where there are steps, else in total."""

    cause: str
    """One of IDLE_CAUSES_IN_WORDS; it chooses the colour."""
    words: str
    time_ns: float
    fraction: float
    """Of the idle time, between 0 and 1."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Times are per step where the recording has steps, else over the recorded windows.

    Idle time is the mean over the devices, in a usual one of the steady steps (the median, as in
    a diff). `gain_ns` is what the
    fixable lines can give back together, and `best_case_ns` a step without them: by the replay,
    which cures them all at once, or by the sum of their upper bounds.
    """

    steps: int
    steady: int
    """How many of the steps are not warm-up; 0 where that is not known."""
    span_ns: int
    """A step, or everything recorded."""
    has_steps: bool
    has_activity: bool
    idle_fraction: float
    idle_ns: float
    idle_shares: tuple[IdleShare, ...]
    fixable: tuple[Site, ...]
    harmless: tuple[Site, ...]
    unsafe: tuple[Site, ...]
    allowed: tuple[Site, ...]
    gain_ns: float
    best_case_ns: float
    replayed: bool
    """Whether gains come from a replay; else they are upper bounds."""
    simulated: bool

    @property
    def steps_in_words(self) -> str:
        """The steps that figures are the median of: 11 steady steps (12 recorded)."""
        if not self.steady:
            return quantity(self.steps, "step")
        return f"{quantity(self.steady, 'steady step')} ({self.steps:,} recorded)"

    def share_of(self, cause: str) -> float:
        """The part of the idle time that has a cause, of IDLE_CAUSES_IN_WORDS."""
        return sum(share.fraction for share in self.idle_shares if share.cause == cause)

    def per_span(self, total: float) -> float:
        """A total over the windows as a mean per step; itself where there are no steps."""
        return total / self.steps if self.has_steps else total

    def repeats(self, site: Site) -> bool:
        """Whether a site has figures per step: steady steps have it."""
        return self.has_steps and site.per_step > 0

    def in_span(self, site: Site, total: float) -> float:
        """A site's total as what a steady step has of it; itself where the site does not repeat.

        That is the mean of a call, times the calls in a steady step.
        """
        return total * site.per_step / max(site.count, 1) if self.repeats(site) else total


def figures_of(summary: Summary) -> Figures:
    """Derive the figures from a summary. Pure; costs a pass over the sites."""
    run = summary.run
    has_steps = run.steps > 1
    has_activity = any(gpu.busy_ns for gpu in summary.gpu)
    span_ns = run.step_ns if has_steps else run.window_ns
    idle_ns = _idle_ns(summary, span_ns) if has_activity else 0.0
    shares = _idle_shares(summary, idle_ns) if has_activity else ()
    flagged = [site for site in summary.sites if site.flagged]
    fixable = tuple(site for site in flagged if site.verdict == "fix")
    best_case_ns = _best_case_ns(summary, fixable, span_ns)
    return Figures(
        steps=max(run.steps, 1),
        steady=sum(step.steady for step in summary.steps),
        span_ns=span_ns,
        has_steps=has_steps,
        has_activity=has_activity,
        idle_fraction=idle_ns / span_ns if span_ns else 0.0,
        idle_ns=idle_ns,
        idle_shares=shares,
        fixable=fixable,
        harmless=tuple(site for site in flagged if site.verdict == "harmless"),
        unsafe=tuple(site for site in summary.sites if site.verdict == "unsafe"),
        allowed=tuple(site for site in summary.sites if site.verdict == "allowed"),
        gain_ns=span_ns - best_case_ns,
        best_case_ns=best_case_ns,
        replayed=summary.replay.used,
        simulated=run.simulated,
    )


def _best_case_ns(summary: Summary, fixable: tuple[Site, ...], span_ns: int) -> float:
    replay = summary.replay
    if not fixable:
        return span_ns
    if replay.used and replay.fixed_ns_per_step is not None:
        return min(replay.fixed_ns_per_step, span_ns)
    return max(span_ns - sum(site.savings_ns_per_step for site in fixable), 0)


def _idle_ns(summary: Summary, span_ns: int) -> float:
    """Of a usual steady step; where there are no steps, of everything recorded."""
    steady = [step.idle_ns for step in summary.steps if step.steady]
    if steady and summary.run.steps > 1:
        return median(steady)
    fractions = [gpu.steady_idle_fraction for gpu in summary.gpu]
    return span_ns * sum(fractions) / len(fractions)


def _idle_shares(summary: Summary, idle_ns: float) -> tuple[IdleShare, ...]:
    """Largest first; causes without idle time are left out."""
    totals = dict.fromkeys(CAUSES_OF_IDLE, 0)
    for gpu in summary.gpu:
        for cause, time_ns in gpu.steady_idle_by_cause_ns.items():
            totals[cause] = totals.get(cause, 0) + time_ns
    whole = sum(totals.values())
    fractions = {cause: total / whole for cause, total in totals.items() if total > 0}
    if summary.launches is not None and idle_ns:
        other = summary.launches.other_work_ns_per_step / idle_ns
        fractions[HOST_WORK] = min(other, fractions.get("launch", 0.0))
        fractions["launch"] = fractions.get("launch", 0.0) - fractions[HOST_WORK]
    shares = [
        IdleShare(
            cause=cause if cause in IDLE_CAUSES_IN_WORDS else "unknown",
            words=IDLE_CAUSES_IN_WORDS.get(cause) or visible(cause.replace("_", " "), 60),
            time_ns=idle_ns * fraction,
            fraction=fraction,
        )
        for cause, fraction in fractions.items()
        if fraction > 0
    ]
    return tuple(sorted(shares, key=lambda share: -share.fraction))
