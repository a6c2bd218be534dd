"""The first half of every report: an `Analysis` shaped into texts and numbers to show."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from syncscope.analysis.result import Analysis
from syncscope.records import Regime, Summary
from syncscope.reports.caveats import Caveat, caveats_of
from syncscope.reports.figures import HOST_WORK, Figures, IdleShare, figures_of
from syncscope.reports.glossary import GLOSSARY
from syncscope.reports.launching import kernels_in_words
from syncscope.reports.moved import Moved, moved_most
from syncscope.reports.recorded import Recorded, coverage_share, device_model, recorded_of
from syncscope.reports.sites import SiteRow, site_rows, sorted_sites
from syncscope.reports.step_chart import StepChart, step_chart
from syncscope.reports.verdict import Verdict, verdict_of
from syncscope.reports.visible_text import visible, visible_path
from syncscope.units import duration, percent, quantity, with_article

MAX_COMMAND = 400
MAX_FLAGGED = 400
MAX_UNFLAGGED = 200
"""Rows in a report: it has to open in a browser. summary.json holds all sites."""

REGIMES = {
    "sync": ("waits", "of a step is idle because the host waits"),
    "transfer": ("copies", "of a step goes to copies that are waited for"),
    "gpu": ("the GPU", "of a step it computes"),
    "input": ("the input", "of a step is idle because of the DataLoader"),
}
"""Kind of `records.Regime` -> its name, and what its fraction is of; `launch` has other words."""


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
    command: str
    """The program with its arguments, as a shell takes them."""
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
    first: SiteRow | None
    """The line to start with: the one that leads the table, if it is worth changing."""
    filters: tuple[tuple[str, tuple[str, ...]], ...]
    """What the table can be narrowed down to: only what tells its rows apart."""
    steps: StepChart | None
    moved: tuple[Moved, ...]
    recorded: Recorded
    glossary: tuple[tuple[str, str], ...]
    site_anchors: dict[str, str]
    """Site id -> anchor, for the sites that are shown."""


def report_view(analysis: Analysis) -> ReportView:
    """Shape an analysis. Pure; costs a pass over the sites, and one over the calls at most."""
    summary = analysis.summary
    figures = figures_of(summary)
    ordered = sorted_sites(summary.sites)
    all_flagged = [site for site in ordered if site.flagged]
    all_unflagged = [site for site in ordered if not site.flagged]
    shown = [*all_flagged[:MAX_FLAGGED], *all_unflagged[:MAX_UNFLAGGED]]
    rows = site_rows(shown, figures, analysis)
    flagged = min(len(all_flagged), MAX_FLAGGED)
    anchors = {site.id: row.anchor for site, row in zip(shown, rows, strict=True)}
    return ReportView(
        program=_program(summary),
        command=_command(summary),
        subtitle=" · ".join(_subtitle(summary, figures)),
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
        first=next((row for row in rows[:1] if row.verdict in ("fix", "unsafe")), None),
        filters=_filters(rows),
        steps=step_chart(summary),
        moved=moved_most(shown, figures, anchors),
        recorded=recorded_of(analysis),
        glossary=GLOSSARY,
        site_anchors=anchors,
    )


def _filters(rows: tuple[SiteRow, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    values: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.filters:
            values.setdefault(name, set()).add(value)
    return tuple((name, tuple(sorted(found))) for name, found in values.items() if len(found) > 1)


def _program(summary: Summary) -> str:
    argv = summary.run.argv
    if argv[:1] == ("-m",) and len(argv) > 1:
        return visible_path(f"-m {argv[1]}", 80)
    if argv:
        return visible_path(argv[0], 80) or "program"
    return "imported trace" if summary.run.imported else "program"


def _command(summary: Summary) -> str:
    return visible(shlex.join(summary.run.argv), MAX_COMMAND) or _program(summary)


def _subtitle(summary: Summary, figures: Figures) -> Iterator[str]:
    run = summary.run
    device = device_model(run.device)
    if run.simulated:
        yield f"simulated on a shadow GPU, modelled on {device or 'an unnamed GPU'}"
    else:
        yield f"recorded on {device}" if device else "no GPU"
    if run.torch:
        yield f"torch {visible(run.torch, 40)}"
    if run.steps > 1:
        yield figures.steps_in_words
    warm = ", warm-up included" if figures.steady not in (0, run.steps) else ""
    yield f"{duration(run.window_ns)} recorded{warm}"
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
        note = f"median of {figures.steps_in_words}"
        yield Tile(f"Step time{estimated}", duration(figures.span_ns), note)
    else:
        yield Tile(f"Recorded{estimated}", duration(figures.span_ns), "no steps to compare")
    yield _idle_tile(summary, figures, estimated)
    pace = summary.launches
    if pace is not None and figures.has_steps:
        label = f"Kernels a step{estimated}"
        yield Tile(label, f"{pace.kernels_per_step:,.0f}", kernels_in_words(pace))
    if summary.regime is not None and figures.has_activity:
        yield _regime_tile(summary.regime, figures, estimated)
    yield _best_case_tile(figures, estimated)
    yield _coverage_tile(summary)


def _idle_tile(summary: Summary, figures: Figures, estimated: str) -> Tile:
    if not figures.has_activity:
        note = "the program never used it" if summary.gpu else "no GPU activity was recorded"
        return Tile("GPU idle", "–" if summary.gpu else "unknown", note)
    label = f"GPU idle{estimated}"
    if len(summary.gpu) > 1:
        each = ", ".join(
            f"{gpu.device}: {percent(gpu.steady_idle_fraction)}" for gpu in summary.gpu[:8]
        )
        return Tile(label, percent(figures.idle_fraction), f"by device {each}")
    return Tile(label, percent(figures.idle_fraction), _idle_total(figures))


def _regime_tile(regime: Regime, figures: Figures, estimated: str) -> Tile:
    label = f"Bound by{estimated}"
    if regime.kind == "launch":
        if figures.share_of(HOST_WORK) > figures.share_of("launch"):
            return Tile(label, "the host", "it does other work between launches")
        return Tile(label, "the host", "it launches too slowly")
    words, of = REGIMES.get(regime.kind, (visible(regime.kind, 40), "of a step"))
    return Tile(label, words, f"{percent(regime.fraction)} {of}")


def _best_case_tile(figures: Figures, estimated: str) -> Tile:
    label = f"Best case{estimated}"
    if not figures.has_activity:
        return Tile(label, "unknown", "needs GPU activity")
    if figures.gain_ns <= 0:
        return Tile(label, duration(figures.span_ns), "no line gives back anything")
    share = percent(figures.gain_ns / figures.span_ns) if figures.span_ns else "–"
    best = duration(figures.best_case_ns)
    if figures.replayed:
        return Tile(label, best, f"replayed without the waits: {share} less")
    return Tile(label, best, f"upper bound: at most {share} less")


def _coverage_tile(summary: Summary) -> Tile:
    coverage = summary.coverage
    note = (
        f"{coverage.attributed:,} of {quantity(coverage.blocking_calls, 'blocking call')}, "
        f"{coverage.lost:,} lost"
    )
    return Tile("Charged to a line", coverage_share(coverage), note)
