"""The terminal report: what `syncscope show` prints, and the few lines at the end of a run."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence

from rich.console import Console

from syncscope.analysis.result import Analysis
from syncscope.records import Site
from syncscope.reports.caveats import Caveat, recorders_caveats
from syncscope.reports.figures import Figures, figures_of
from syncscope.reports.plain_text import DEFAULT_WIDTH, MIN_WIDTH
from syncscope.reports.site_filter import SiteFilter
from syncscope.reports.sites import gain_of, location_of, site_rows, sorted_sites
from syncscope.reports.terminal import Page
from syncscope.reports.terminal_site import write_site
from syncscope.reports.verdict import Verdict, verdict_of
from syncscope.reports.view import ReportView, report_view
from syncscope.reports.visible_text import one_line, visible
from syncscope.units import duration, percent, quantity

DEFAULT_TOP = 10
DEFAULT_SITES = SiteFilter(top=DEFAULT_TOP, flagged_only=True)
SHORT_TOP = 3
_LABEL_WIDTH = 37
_NUMBERS_WIDTH = 16
_SHORTEST_BAR = 8
_LONGEST_BAR = 40


def print_text(
    analysis: Analysis,
    console: Console,
    only: SiteFilter = DEFAULT_SITES,
) -> None:
    """Print the report in the console's width and colours.

    `only` chooses the sites that are listed; the verdict is about all of them.
    """
    view, figures = report_view(analysis), figures_of(analysis.summary)
    page = Page(console)
    _write_head(page, view)
    if view.verdict.tone == "empty":
        return
    _write_idle(page, view)
    page.line()
    _write_sites(page, analysis, figures, only)
    _write_coverage(page, view, analysis)


def render_text(
    analysis: Analysis,
    only: SiteFilter = DEFAULT_SITES,
    *,
    width: int = DEFAULT_WIDTH,
    color: bool = False,
) -> str:
    """The report as text, `width` cells wide; with terminal colours only if asked for."""
    console = _console_into_text(width, color=color)
    print_text(analysis, console, only)
    return _written(console)


def short_summary(analysis: Analysis, width: int = DEFAULT_WIDTH) -> str:
    """What `print_short_summary` prints, as plain text."""
    console = _console_into_text(width, color=False)
    print_short_summary(analysis, console)
    return _written(console)


def print_short_summary(analysis: Analysis, console: Console) -> None:
    """The verdict and at most three lines of code that deserve attention, for a run's end."""
    page = Page(console)
    figures = figures_of(analysis.summary)
    verdict = verdict_of(analysis.summary, figures)
    page.paragraph(verdict.sentence, style="bold")
    if verdict.tone != "fine" and verdict.explanation:
        page.paragraph(verdict.explanation)
    for caveat in recorders_caveats(analysis.manifest):
        if caveat.level == "note" or not figures.has_activity:
            _write_caveat(page, caveat)
    for site in worth_attention(analysis)[:SHORT_TOP]:
        gain = gain_of(site, figures)
        step = " a step" if gain and figures.has_steps else ""
        line = page.text(f"  {location_of(site)}", "cyan")
        line.append_text(page.text(f"  {one_line(site.expression, 60)}"))
        line.append_text(page.text(f"  {gain or site.verdict}{step}", "dim"))
        page.line(line)


def worth_attention(analysis: Analysis) -> list[Site]:
    """The sites to fix and the unsafe ones, the most important first."""
    return [s for s in sorted_sites(analysis.summary.sites) if s.verdict in ("fix", "unsafe")]


def _write_head(page: Page, view: ReportView) -> None:
    page.paragraph(f"{view.command} · {view.subtitle}", style="dim")
    page.line()
    _write_verdict(page, view.verdict)
    for caveat in view.caveats:
        _write_caveat(page, caveat)


def _write_caveat(page: Page, caveat: Caveat) -> None:
    warning = caveat.level == "warning"
    mark, style = ("! ", "yellow") if warning else ("· ", "dim")
    page.paragraph(caveat.text, mark=mark, style=style)


def _write_verdict(page: Page, verdict: Verdict) -> None:
    page.paragraph(verdict.sentence, style="bold")
    for text in (verdict.explanation, verdict.certainty):
        if text:
            page.paragraph(text)


def _write_idle(page: Page, view: ReportView) -> None:
    """A line for each cause; on a narrow page its name stands on a line of its own."""
    if not view.idle_shares:
        return
    page.line()
    estimated = ", estimated" if view.simulated else ""
    page.paragraph(f"GPU idle, {view.idle_total}{estimated}", style="bold")
    room = page.width - _LABEL_WIDTH - _NUMBERS_WIDTH - 4
    narrow = room < _SHORTEST_BAR
    bar_width = min(page.width - _NUMBERS_WIDTH - 4 if narrow else room, _LONGEST_BAR)
    for share in view.idle_shares:
        line = page.text(f"  {share.words:<{_LABEL_WIDTH}}")
        if narrow:
            page.line(line)
            line = page.text("  ")
        filled = max(round(share.fraction * bar_width), 1)
        line.append_text(page.text("█" * filled + " " * (bar_width - filled), "yellow"))
        line.append_text(page.text(f" {duration(share.time_ns):>8}"))
        line.append_text(page.text(f" {percent(share.fraction):>6}", "dim"))
        page.line(line)


def _write_sites(page: Page, analysis: Analysis, figures: Figures, only: SiteFilter) -> None:
    every = sorted_sites(analysis.summary.sites)
    shown = only.chosen(every)
    if not shown:
        page.paragraph(_why_none(every, only), style="bold")
        page.line()
    by_id = {site.id: site for site in every}
    for site, row in zip(shown, site_rows(shown, figures, analysis), strict=True):
        write_site(page, site, row, figures, by_id)
        page.line()
    left_out = list(_left_out(only.matching(every), shown, only))
    for text in left_out:
        page.paragraph(text, style="dim")
    if left_out:
        page.line()


def _why_none(every: Sequence[Site], only: SiteFilter) -> str:
    if only.words and any(site.flagged for site in every):
        return f"No flagged line for {visible(only.words, 200)}."
    return "No line was flagged."


def _left_out(matching: Sequence[Site], shown: Sequence[Site], only: SiteFilter) -> Iterator[str]:
    flagged = sum(site.flagged for site in matching)
    listed = flagged if only.flagged_only else len(matching)
    if listed > len(shown):
        kind = "more flagged line" if only.flagged_only else "more line"
        yield f"{quantity(listed - len(shown), kind)} not shown: --top N shows N of them."
    if len(matching) > listed:
        lines = quantity(len(matching) - listed, "more line")
        yield f"Not flagged: {lines} recorded; --all shows them."


def _write_coverage(page: Page, view: ReportView, analysis: Analysis) -> None:
    """How much of what blocked has a line, and which collectors did not run, and why."""
    if analysis.summary.coverage.blocking_calls:
        tile = view.tiles[-1]
        page.paragraph(f"{tile.label}: {tile.value} ({tile.note})", style="dim")
    if view.simulated:
        return  # a shadow GPU stands for all collectors
    for row in view.recorded.collectors:
        if row.state != "on":
            reason = f": {row.reason}" if row.reason else ""
            page.paragraph(f"Not recorded by {row.name}{reason}", style="dim")


def _console_into_text(width: int, *, color: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=max(width, MIN_WIDTH),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        legacy_windows=False,
        _environ={},
    )


def _written(console: Console) -> str:
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return text
