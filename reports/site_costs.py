"""What a line costs: in a step, or in all and when, where no steady step has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from syncscope.analysis.result import Analysis
from syncscope.records import Site
from syncscope.reports.figures import Figures
from syncscope.units import duration, quantity, rate

_AT_THE_START = "before the first step ended"
_AT_THE_END = "after the last step"
_ELSEWHERE = "outside the steady steps"


@dataclass(frozen=True, slots=True)
class SiteCosts:
    """Times of a site, each the mean in a steady step, or the total (`Figures.repeats`)."""

    blocked_ns: float
    idle_ns: float
    when: str
    """Of a total in a recording with steps: when that was, in words; else ""."""


def site_costs(sites: Iterable[Site], figures: Figures, analysis: Analysis) -> list[SiteCosts]:
    """The costs of each site. Reads the table of calls where some are in no steady step."""
    sites = list(sites)
    single = {site.id for site in sites if figures.has_steps and not figures.repeats(site)}
    when = _moments(single, analysis) if single else {}
    return [
        SiteCosts(
            blocked_ns=figures.in_span(site, site.blocked_ns),
            idle_ns=figures.in_span(site, site.exposed_idle_ns),
            when=when.get(site.id, ""),
        )
        for site in sites
    ]


def _moments(ids: set[str], analysis: Analysis) -> dict[str, str]:
    """By site when its calls began, in words."""
    calls, steps = analysis.calls, analysis.steps
    if not len(steps):
        return dict.fromkeys(ids, _ELSEWHERE)
    first_end, last_end = steps["end_ns"].min(), steps["end_ns"].max()
    begun = calls.loc[calls["site_id"].isin(ids)].groupby("site_id")["start_ns"]
    last, first = begun.max(), begun.min()
    found = dict.fromkeys(ids, _ELSEWHERE)
    found |= dict.fromkeys(first.index[first >= last_end], _AT_THE_END)
    return found | dict.fromkeys(last.index[last <= first_end], _AT_THE_START)


def costs_in_words(site: Site, costs: SiteCosts, figures: Figures) -> str:
    """How often, and what the host and the GPU lose: a sentence without a full stop."""
    often = _often(site, costs, figures)
    if not site.blocked_ns:
        return often
    total = "in all " if costs.when and site.count > 1 else ""
    span = "per step " if figures.repeats(site) else total
    text = f"{often}; {span}the host waits {duration(costs.blocked_ns)}"
    if not figures.has_activity:
        return text
    idles = f"idles {duration(costs.idle_ns)} for it" if costs.idle_ns else "does not idle"
    return f"{text}, the GPU {idles}"


def _often(site: Site, costs: SiteCosts, figures: Figures) -> str:
    """A number per step only where a step is what repeats it."""
    waits = site.blocking and site.kind in ("sync", "transfer")
    noun = "wait" if waits else "time"
    if figures.has_steps and site.per_step >= 0.995:
        often = rate(site.per_step)
        mean = " on average" if "." in often else ""
        return "once a step" if often == "1" else f"{often} {noun}s a step{mean}"
    where = f", {costs.when}" if costs.when else " in all"
    return f"{'once' if site.count == 1 else quantity(site.count, noun)}{where}"


def count_in_table(site: Site, figures: Figures) -> str:
    """How often: per step as a whole number where only the edges of the recording blur it.

    A recording begins and ends within a step, so that 38 calls in 40 steps are one a step.
    What most steps do not have is counted in all.
    """
    if not figures.has_steps:
        return f"{site.count:,}"
    whole = round(site.per_step)
    if whole and abs(site.count - whole * figures.steps) <= 2 * whole:
        return f"{whole:,}"
    return rate(site.per_step) if site.per_step >= 0.5 else f"{site.count:,} in all"
