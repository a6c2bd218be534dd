"""The first half of every report: an `Analysis` shaped into texts and numbers to show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from syncscope.analysis.result import Analysis
from syncscope.records import Summary
from syncscope.reports.caveats import Caveat, caveats_of
from syncscope.reports.figures import Figures, IdleShare, figures_of
from syncscope.reports.recorded import Recorded, coverage_share, device_model, recorded_of
from syncscope.reports.sites import SiteRow, site_rows, sorted_sites
from syncscope.reports.units import duration, percent, quantity, with_article
from syncscope.reports.verdict import Verdict, verdict_of
from syncscope.reports.visible_text import visible, visible_path

MAX_FLAGGED = 400
MAX_UNFLAGGED = 200
"""Rows in a report: it has to open in a browser. summary.json holds all sites."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A number to see at a glance, with a line that says what it is not."""

    label: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class ReportView:
    """Everything that a report shows but the timeline; all texts are safe to show."""

    program: str
    subtitle: str
    simulated: bool
    span: str
    """a step, or all: what times in tables are meant per."""
    verdict: Verdict
    caveats: tuple[Caveat, ...]
    tiles: tuple[Tile, ...]
    idle_shares: tuple[IdleShare, ...]
    idle_total: str
    flagged: tuple[SiteRow, ...]
    flagged_total: int
    """With those beyond the rows that are shown."""
    unflagged: tuple[SiteRow, ...]
    unflagged_total: int
    recorded: Recorded
    site_anchors: dict[str, str]
    """Site id -> anchor, for the sites that are shown."""


def report_view(analysis: Analysis) -> ReportView:
    """Shape an analysis. Pure; costs a pass over the sites, the event tables are not read."""
    summary = analysis.summary
    figures = figures_of(summary)
    ordered = sorted_sites(summary.sites)
    all_flagged = [site for site in ordered if site.flagged]
    all_unflagged = [site for site in ordered if not site.flagged]
    shown = [*all_flagged[:MAX_FLAGGED], *all_unflagged[:MAX_UNFLAGGED]]
    rows = site_rows(shown, figures, analysis.sources)
    flagged = min(len(all_flagged), MAX_FLAGGED)
    return ReportView(
        program=_program(summary),
        subtitle=" · ".join(_subtitle(summary)),
        simulated=summary.run.simulated,
        span="step" if figures.has_steps else "all",
        verdict=verdict_of(summary, figures),
        caveats=caveats_of(analysis),
        tiles=tuple(_tiles(summary, figures)),
        idle_shares=figures.idle_shares,
        idle_total=_idle_total(figures),
        flagged=rows[:flagged],
        flagged_total=len(all_flagged),
        unflagged=rows[flagged:],
        unflagged_total=len(all_unflagged),
        recorded=recorded_of(analysis),
        site_anchors={site.id: row.anchor for site, row in zip(shown, rows, strict=True)},
    )


def _program(summary: Summary) -> str:
    if summary.run.argv:
        return visible_path(summary.run.argv[0], 80) or "program"
    return "imported trace" if summary.run.imported else "program"


def _subtitle(summary: Summary) -> Iterator[str]:
    run = summary.run
    device = device_model(run.device) or "no GPU"
    yield f"shadow GPU, modelled on {device}" if run.simulated else device
    if run.torch:
        yield f"torch {visible(run.torch, 40)}"
    if run.steps > 1:
        yield quantity(run.steps, "step")
    yield f"{duration(run.window_ns)} recorded"
    if run.ranks > 1:
        yield quantity(run.ranks, "rank")


def _idle_total(figures: Figures) -> str:
    if not figures.has_activity:
        return ""
    span = "step" if figures.has_steps else "recording"
    return f"{duration(figures.idle_ns)} of {with_article(duration(figures.span_ns))} {span}"


def _tiles(summary: Summary, figures: Figures) -> Iterator[Tile]:
    estimated = " (estimated)" if summary.run.simulated else ""
    if figures.has_steps:
        note = f"median of {quantity(figures.steps, 'step')}"
        yield Tile(f"Step time{estimated}", duration(figures.span_ns), note)
    else:
        yield Tile(f"Recorded{estimated}", duration(figures.span_ns), "no steps to compare")
    yield _idle_tile(summary, figures, estimated)
    yield _cause_tile(figures, estimated)
    yield _best_case_tile(figures, estimated)
    yield _coverage_tile(summary)


def _idle_tile(summary: Summary, figures: Figures, estimated: str) -> Tile:
    if not figures.has_activity:
        return Tile("GPU idle", "unknown", "no GPU activity was recorded")
    label = f"GPU idle{estimated}"
    if len(summary.gpu) > 1:
        each = ", ".join(
            f"{gpu.device}: {percent(gpu.steady_idle_fraction)}" for gpu in summary.gpu[:8]
        )
        return Tile(label, percent(figures.idle_fraction), f"by device {each}")
    return Tile(label, percent(figures.idle_fraction), _idle_total(figures))


def _cause_tile(figures: Figures, estimated: str) -> Tile:
    label = f"Idle, main cause{estimated}"
    if not figures.idle_shares:
        return Tile(label, "–", "no idle time was found")
    top = figures.idle_shares[0]
    note = f"{percent(top.fraction)} of it: {top.words}"
    return Tile(label, duration(top.time_ns), note)


def _best_case_tile(figures: Figures, estimated: str) -> Tile:
    label = f"Best case{estimated}"
    if not figures.has_activity:
        return Tile(label, "unknown", "needs GPU activity")
    if figures.gain_ns <= 0:
        return Tile(label, duration(figures.span_ns), "no line to gain from")
    share = percent(figures.gain_ns / figures.span_ns) if figures.span_ns else "–"
    best = duration(figures.span_ns - figures.gain_ns)
    if figures.replayed:
        return Tile(label, best, f"replayed: about {share} less")
    return Tile(label, best, f"upper bound: at most {share} less")


def _coverage_tile(summary: Summary) -> Tile:
    coverage = summary.coverage
    note = (
        f"{coverage.attributed:,} of {quantity(coverage.blocking_calls, 'blocking call')}, "
        f"{coverage.lost:,} lost"
    )
    return Tile("Charged to a line", coverage_share(coverage), note)
