"""Rows of the sites table: one place in the code each, everything as text to show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from syncscope.records import Site
from syncscope.reports.figures import Figures
from syncscope.reports.source_excerpt import SourceLine, excerpt
from syncscope.reports.units import byte_size, duration, milliseconds, rate
from syncscope.reports.visible_text import one_line, visible, visible_block, visible_path

DIRECTIONS = {"h2d": "host → GPU", "d2h": "GPU → host"}
MAX_STACK_LINES = 40
MAX_CODE = 2_000


@dataclass(frozen=True, slots=True)
class StackLine:
    """A frame to show, with the text of its line where the source was kept."""

    location: str
    function: str
    code: str


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
    blocked_ms: str
    idle_ms: str
    idle_share: float
    """Of all idle time, between 0 and 1."""
    verdict: str
    gain: str
    advice_title: str
    advice_text: str
    rewrite: str
    code: tuple[SourceLine, ...]
    no_code: str
    """Why `code` is empty; "" where it is not."""
    whole_expression: str
    library_line: str
    stack: tuple[StackLine, ...]
    frames_left_out: int
    details: tuple[tuple[str, str], ...]


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


def site_rows(
    sites: Iterable[Site], figures: Figures, sources: Mapping[str, str]
) -> tuple[SiteRow, ...]:
    """Shape sites in the given order; anchors count from 1 in that order."""
    return tuple(
        _row(f"site-{number}", site, figures, sources) for number, site in enumerate(sites, start=1)
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


def _row(anchor: str, site: Site, figures: Figures, sources: Mapping[str, str]) -> SiteRow:
    idle_ns = figures.per_span(site.exposed_idle_ns)
    stack = tuple(
        StackLine(
            f"{visible_path(frame.file)}:{frame.line}",
            visible(frame.function, 120),
            _line_of(sources.get(frame.file, ""), frame.line),
        )
        for frame in site.stack[:MAX_STACK_LINES]
    )
    code = excerpt(sources.get(site.file, ""), site)
    return SiteRow(
        anchor=anchor,
        location=location_of(site),
        function=visible(site.function, 120),
        expression=one_line(site.expression, 160),
        cause=visible(site.cause.replace("_", " "), 80),
        tags=_tags(site),
        op=visible(site.op, 120),
        per_step=rate(site.per_step) if figures.has_steps else f"{site.count:,}",
        blocked_ms=milliseconds(figures.per_span(site.blocked_ns)),
        idle_ms=milliseconds(idle_ns),
        idle_share=min(idle_ns / figures.idle_ns, 1.0) if figures.idle_ns > 0 else 0.0,
        verdict=visible(site.verdict, 40),
        gain=gain_of(site, figures),
        advice_title=visible(site.advice.title, 300),
        advice_text=visible_block(site.advice.text, 2_000),
        rewrite=visible_block(site.advice.rewrite, MAX_CODE),
        code=code,
        no_code="" if code else _why_no_code(site),
        whole_expression=visible_block(site.expression, MAX_CODE),
        library_line=visible_path(site.library_line or "", 300),
        stack=stack,
        frames_left_out=len(site.stack) - len(stack),
        details=tuple(_details(site, figures)),
    )


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


def _details(site: Site, figures: Figures) -> Iterable[tuple[str, str]]:
    if site.op:
        yield "Operator", visible(site.op, 120)
    yield "Occurrences", f"{site.count:,}"
    yield "Host blocked in all", duration(site.blocked_ns)
    yield "Exposed idle in all", duration(site.exposed_idle_ns)
    if site.savings_ns_per_step > 0:
        saved = duration(site.savings_ns_per_step) + (" a step" if figures.has_steps else "")
        yield ("Gain, replayed" if figures.replayed else "Gain at most"), saved
    if site.size_bytes > 0:
        yield "Moved in all", byte_size(site.size_bytes)
    if site.pageable is not None:
        yield "Host memory", "pageable" if site.pageable else "pinned"
    yield "Asked for", "explicitly" if site.explicit else "by nobody (implicit)"
    yield "Code of", visible(site.owner, 40)
    if site.sampled:
        yield "Stack", "sampled while the host waited; no hook saw the call"


def _why_no_code(site: Site) -> str:
    if site.line < 1:
        return "The recording does not say which line this was."
    return "The source was not kept."


def _line_of(source: str, line: int) -> str:
    lines = source.split("\n") if source else []
    return one_line(lines[line - 1], 160) if 1 <= line <= len(lines) else ""
