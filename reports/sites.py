"""Rows of the sites table: one place in the code each, everything as text to show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from syncscope.analysis.result import Analysis
from syncscope.records import Advice, Site
from syncscope.reports.figures import Figures
from syncscope.reports.launching import sets_the_pace
from syncscope.reports.site_costs import SiteCosts, costs_in_words, count_in_table, site_costs
from syncscope.reports.source_excerpt import SourceLine, excerpt
from syncscope.reports.visible_text import one_line, visible, visible_block, visible_path
from syncscope.units import byte_size, duration, percent

DIRECTIONS = {"h2d": "host → GPU", "d2h": "GPU → host"}
MAX_STACK_LINES = 40
MAX_CODE = 2_000
MAX_SAME_CALL = 12


@dataclass(frozen=True, slots=True)
class StackLine:
    """A frame to show, with the text of its line where the source was kept."""

    location: str
    function: str
    code: str


@dataclass(frozen=True, slots=True)
class SiteLink:
    """Another site of the report: `anchor` is "" where that one is not shown."""

    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class SiteRow:
    """A site in texts that are safe to show. `anchor` names it within the report."""

    anchor: str
    location: str
    function: str
    expression: str
    cause: str
    tags: tuple[str, ...]
    op: str
    per_step: str
    blocked: str
    idle: str
    in_all: bool
    """Whether these are totals although the recording has steps: no steady step has the site."""
    idle_share: float
    """Of all idle time, between 0 and 1."""
    costs: str
    """How often it happens and what that costs, in words."""
    verdict: str
    gain: str
    advice_title: str
    advice_text: str
    rewrite_note: str
    """What to know before one uses `rewrite`; "" where there is nothing to know."""
    rewrite: str
    code: tuple[SourceLine, ...]
    no_code: str
    """Why `code` is empty; "" where it is not."""
    whole_expression: str
    library_line: str
    stack: tuple[StackLine, ...]
    frames_left_out: int
    details: tuple[tuple[str, str], ...]
    gain_time: str
    gain_share: str
    """Of a step; "" where there are no steps or nothing to gain."""
    origin: str
    """Where the host created what the site moves; "" if unknown."""
    reason: str
    sort_keys: tuple[tuple[str, float], ...]
    """Name of a column -> what it is sorted by."""
    filters: tuple[tuple[str, str], ...]
    """owner, verdict, cause and file: what a table of sites can be narrowed down to."""
    moves_to: SiteLink | None = None
    same_call: tuple[SiteLink, ...] = ()
    """The other sites of the same expression: a library may wait at several of its lines."""
    same_cure: SiteLink | None = None
    """The first site with the same advice; None for that itself, and where there is none."""


_SEVERITY = {"unsafe": 4, "fix": 3, "harmless": 2, "allowed": 1}
OWNERS = {"user": "your code", "library": "a library", "torch": "PyTorch"}


def sorted_sites(sites: Iterable[Site]) -> list[Site]:
    """Flagged sites first, among them unsafe ones, then those to fix, then by cost.

    Unsafe sites lead because wrong results matter more than lost time, and they cost none.
    """
    ranks = {"unsafe": 0, "fix": 1}
    return sorted(
        sites,
        key=lambda site: (
            not site.flagged,
            ranks.get(site.verdict, 2),
            -site.savings_ns_per_step,
            -site.exposed_idle_ns,
            -site.count,
            site.file,
            site.line,
            site.id,
        ),
    )


def site_rows(sites: Iterable[Site], figures: Figures, analysis: Analysis) -> tuple[SiteRow, ...]:
    """Shape sites of an analysis in the given order; anchors count from 1 in that order."""
    sites = tuple(sites)
    anchors = {site.id: f"site-{number}" for number, site in enumerate(sites, start=1)}
    calls: dict[tuple[object, ...], list[Site]] = {}
    cures: dict[tuple[object, ...], Site] = {}
    for site in sites:
        calls.setdefault(_place(site), []).append(site)
        cures.setdefault(_cure(site), site)
    return tuple(
        replace(
            _row(anchors[site.id], site, costs, figures, analysis.sources),
            moves_to=_moves_to(site, sites, anchors),
            same_call=_same_call(site, calls[_place(site)], anchors),
            same_cure=_same_cure(site, cures[_cure(site)], anchors),
        )
        for site, costs in zip(sites, site_costs(sites, figures, analysis), strict=True)
    )


def number_of(anchor: str) -> int:
    """The place of a row among those that were shaped together, from 1."""
    return int(anchor.removeprefix("site-"))


def _same_call(
    site: Site, sites: Sequence[Site], anchors: Mapping[str, str]
) -> tuple[SiteLink, ...]:
    """The first MAX_SAME_CALL others among the sites of one expression."""
    if site.line < 1:
        return ()
    others = [other for other in sites[: MAX_SAME_CALL + 1] if other is not site]
    return tuple(
        SiteLink(anchors[other.id], _in_library(other)) for other in others[:MAX_SAME_CALL]
    )


def location_of(site: Site) -> str:
    """file:line, or file:first–last for an expression of several lines."""
    if site.line < 1:
        return visible_path(site.file) or "unknown place"
    last = f"–{site.end_line}" if site.end_line > site.line else ""
    return f"{visible_path(site.file)}:{site.line}{last}"


def gain_of(site: Site, figures: Figures) -> str:
    """What fixing the site gives back; "" where nothing is claimed."""
    if site.verdict != "fix" or site.savings_ns_per_step <= 0:
        return ""
    bound = "about" if figures.replayed else "up to"
    estimated = "est. " if figures.simulated else ""
    return f"{bound} {estimated}{duration(site.savings_ns_per_step)}"


def advice_for(site: Site) -> Advice:
    """The advice for a site; for one that is as it should be, why there is nothing to change."""
    if site.flagged or site.verdict == "allowed" or site.cause == "asynchronous_copy":
        return site.advice
    if site.kind == "allocator":
        text = "The allocator asks for memory while it fills up, as in every run."
    elif site.explicit:
        text = "The program waits here outside the step loop."
    else:
        text = "It happens once, not in the step loop."
    return Advice("Nothing to change", text, "")


def _rewrite_note(site: Site, figures: Figures) -> str:
    if site.verdict != "harmless" or not site.flagged or not figures.has_activity:
        return ""
    if sets_the_pace(figures):
        return (
            "Taking the wait away alone gains nothing measurable: launching sets the pace. A "
            "rewrite that also launches less can gain."
        )
    return "Gains nothing measurable; leave it unless you rewrite the line anyway."


def _cause(site: Site) -> str:
    """Asking for memory at the start is no churn."""
    if site.kind == "allocator" and not site.flagged and not site.explicit:
        return "allocator fills up"
    return visible(site.cause.replace("_", " "), 80)


def _row(
    anchor: str, site: Site, costs: SiteCosts, figures: Figures, sources: Mapping[str, str]
) -> SiteRow:
    stack, advice = _stack(site, sources), advice_for(site)
    code = excerpt(sources.get(site.file, ""), site)
    return SiteRow(
        anchor=anchor,
        location=location_of(site),
        function=visible(site.function, 120),
        expression=one_line(site.expression, 160),
        cause=_cause(site),
        tags=_tags(site),
        op=visible(site.op, 120),
        per_step=count_in_table(site, figures),
        blocked=_time(costs.blocked_ns),
        idle=_time(costs.idle_ns),
        in_all=bool(costs.when),
        idle_share=_idle_share(costs, figures),
        costs=costs_in_words(site, costs, figures),
        verdict=visible(site.verdict, 40),
        gain=gain_of(site, figures),
        advice_title=visible(advice.title, 300),
        advice_text=visible_block(advice.text, 2_000),
        rewrite_note=_rewrite_note(site, figures),
        rewrite=visible_block(advice.rewrite, MAX_CODE),
        code=code,
        no_code="" if code else _why_no_code(site),
        whole_expression=visible_block(site.expression, MAX_CODE),
        library_line=visible_path(site.library_line or "", 300),
        stack=stack,
        frames_left_out=len(site.stack) - len(stack),
        details=tuple(_details(site, costs, figures)),
        gain_time=_time(_gain_ns(site)),
        gain_share=_gain_share(site, figures),
        origin=_origin(site),
        reason=visible(site.reason, 400),
        sort_keys=_sort_keys(site, costs, figures),
        filters=_filters(site),
    )


def _time(time_ns: float) -> str:
    """For a column of times that may be far apart: each in the unit that fits it."""
    return duration(time_ns) if time_ns >= 0.5 else "0"


def _idle_share(costs: SiteCosts, figures: Figures) -> float:
    if costs.when or figures.idle_ns <= 0:
        return 0.0
    return min(costs.idle_ns / figures.idle_ns, 1.0)


def _stack(site: Site, sources: Mapping[str, str]) -> tuple[StackLine, ...]:
    return tuple(
        StackLine(
            f"{visible_path(frame.file)}:{frame.line}",
            visible(frame.function, 120),
            _line_of(sources.get(frame.file, ""), frame.line),
        )
        for frame in site.stack[:MAX_STACK_LINES]
    )


def _sort_keys(site: Site, costs: SiteCosts, figures: Figures) -> tuple[tuple[str, float], ...]:
    return (
        ("count", site.per_step if figures.has_steps else site.count),
        ("blocked", costs.blocked_ns),
        ("idle", costs.idle_ns),
        ("gain", _gain_ns(site)),
        ("verdict", _SEVERITY.get(site.verdict, 0)),
    )


def _filters(site: Site) -> tuple[tuple[str, str], ...]:
    return (
        ("owner", OWNERS.get(site.owner, visible(site.owner, 40))),
        ("verdict", visible(site.verdict, 40)),
        ("cause", _cause(site)),
        ("file", visible_path(site.file) or "unknown"),
    )


def _gain_ns(site: Site) -> int:
    """What a site gives back; an unflagged one has nothing to give."""
    return max(site.savings_ns_per_step, 0) if site.flagged else 0


def _gain_share(site: Site, figures: Figures) -> str:
    gain_ns = _gain_ns(site)
    if not figures.has_steps or gain_ns < 0.5 or not figures.span_ns:
        return ""
    return percent(min(gain_ns / figures.span_ns, 1))


def _cure(site: Site) -> tuple[object, ...]:
    """What is equal where one change serves several sites: how it is shown may differ."""
    advice = site.advice
    return advice.title, advice.text, advice.edits or advice.rewrite


def _same_cure(site: Site, first: Site, anchors: Mapping[str, str]) -> SiteLink | None:
    if first is site or not (site.flagged and site.advice.text):
        return None
    return _link(first, anchors)


def _place(site: Site) -> tuple[object, ...]:
    return site.file, site.line, site.end_line, site.column, site.end_column


def _moves_to(site: Site, sites: Sequence[Site], anchors: Mapping[str, str]) -> SiteLink | None:
    if site.moves_to is None:
        return None
    for other in sites:
        if other.id == site.moves_to:
            return _link(other, anchors)
    return SiteLink("", "a line that is not in this report")


def _link(site: Site, anchors: Mapping[str, str]) -> SiteLink:
    return SiteLink(anchors[site.id], f"{location_of(site)}: {_short(site.expression)}")


def _in_library(site: Site) -> str:
    where = visible_path(site.library_line or "") or "the same line"
    what = _cause(site) or visible(site.kind, 40)
    return f"{what} at {where}"


def _origin(site: Site) -> str:
    if site.origin is None:
        return ""
    return f"{visible_path(site.origin.file)}:{site.origin.line}: {_short(site.origin.expression)}"


def _short(expression: str) -> str:
    return one_line(expression, 100)


def _tags(site: Site) -> tuple[str, ...]:
    """What it was, shortest words that tell sites apart."""
    tags = [visible(site.kind, 40)]
    if site.direction:
        tags.append(DIRECTIONS.get(site.direction, visible(site.direction, 40)))
    if site.size_bytes > 0:
        tags.append(byte_size(site.size_bytes / max(site.count, 1)))
    if site.pageable:
        tags.append("pageable")
    if not site.blocking:
        tags.append("not blocking")
    if site.explicit:
        tags.append("explicit")
    if site.sampled:
        tags.append("sampled")
    return tuple(tags)


def _details(site: Site, costs: SiteCosts, figures: Figures) -> Iterable[tuple[str, str]]:
    if site.op:
        yield "Operator", visible(site.op, 120)
    counted = f" in {figures.steps:,} recorded steps" if figures.has_steps else ""
    yield "Occurrences", f"{site.count:,}{f', {costs.when}' if costs.when else counted}"
    yield "Host blocked in all", duration(site.blocked_ns)
    yield "Exposed idle in all", duration(site.exposed_idle_ns)
    if site.savings_ns_per_step > 0:
        saved = duration(site.savings_ns_per_step) + (" a step" if figures.has_steps else "")
        yield ("Gives back, by replay" if figures.replayed else "Gives back at most"), saved
    if site.size_bytes > 0:
        yield "Moved in all", byte_size(site.size_bytes)
    if site.pageable is not None:
        yield "Host memory", "pageable" if site.pageable else "pinned"
    yield "Asked for", "explicitly" if site.explicit else "by nobody (implicit)"
    yield "Waits in", OWNERS.get(site.owner, visible(site.owner, 40))
    if site.sampled:
        yield "Stack", "sampled while the host waited; no hook saw the call"


def _why_no_code(site: Site) -> str:
    if site.line < 1:
        return "The recording does not say which line this was."
    return "The source was not kept."


def _line_of(source: str, line: int) -> str:
    lines = source.split("\n") if source else []
    return one_line(lines[line - 1], 160) if 1 <= line <= len(lines) else ""
