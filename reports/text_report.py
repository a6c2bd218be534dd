"""The terminal report. Built from `rich.text.Text` only, so that no name is read as markup."""

from __future__ import annotations

import io

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from syncscope.analysis.result import Analysis
from syncscope.reports.figures import figures_of
from syncscope.reports.sites import SiteRow, gain_of, location_of, sorted_sites
from syncscope.reports.source_excerpt import SourceLine, cropped
from syncscope.reports.units import duration, percent, quantity
from syncscope.reports.verdict import verdict_of
from syncscope.reports.view import ReportView, report_view
from syncscope.reports.visible_text import one_line

DEFAULT_WIDTH = 100
MIN_WIDTH = 40
MAX_CODE_LINES = 3
_LABEL_WIDTH = 37
_ASCII = str.maketrans(
    {"│": "|", "█": "#", "→": "->", "·": "-", "–": "-", "…": "...", "µ": "u", "−": "-"}
)


def print_text(analysis: Analysis, console: Console, *, top: int = 10) -> None:
    """Print the report with at most `top` sites. Uses the console's width and colours."""
    view = report_view(analysis)
    page = _Page(console)
    _write_head(page, view)
    _write_idle(page, view)
    _write_sites(page, view, top)
    _write_coverage(page, view)


def render_text(
    analysis: Analysis, *, width: int | None = None, color: bool = False, top: int = 10
) -> str:
    """The report as text, `width` cells wide; with terminal colours only if asked for."""
    console = _console_into_text(width, color)
    print_text(analysis, console, top=top)
    return _written(console)


def print_short_summary(analysis: Analysis, console: Console) -> None:
    """The verdict and at most three lines of code that deserve attention, for a run's end."""
    page = _Page(console)
    figures = figures_of(analysis.summary)
    page.paragraph(verdict_of(analysis.summary, figures).sentence, style="bold")
    sites = [s for s in sorted_sites(analysis.summary.sites) if s.verdict in ("fix", "unsafe")]
    for site in sites[:3]:
        gain = gain_of(site, figures)
        step = " a step" if gain and figures.has_steps else ""
        line = page.text(f"  {location_of(site)}", "cyan")
        line.append_text(page.text(f"  {one_line(site.expression, 60)}"))
        line.append_text(page.text(f"  {gain or site.verdict}{step}", "dim"))
        page.line(line)


class _Page:
    """Writes lines no wider than the console, in characters that its encoding can hold."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.width = max(console.width, MIN_WIDTH)
        self._encoding = console.encoding
        self._unicode = console.encoding.lower().replace("-", "").startswith("utf")

    def safe(self, text: str) -> str:
        """The text as the console can write it: "·" becomes "-" in ASCII, "é" an escape."""
        if self._unicode:
            return text
        plain = text.translate(_ASCII)
        return plain.encode(self._encoding, "backslashreplace").decode(self._encoding)

    def text(self, text: str, style: str = "") -> Text:
        """Styled text that is not interpreted in any way."""
        return Text(self.safe(text), style=style)

    def line(self, line: Text | None = None) -> None:
        """One line as it is, however wide; an empty one without an argument."""
        shown = line or Text()
        shown.rstrip()
        self._console.print(shown, soft_wrap=True)

    def paragraph(self, text: str, *, indent: int = 0, style: str = "", mark: str = "") -> None:
        """Wrapped text; `mark` stands before its first line, below which the rest lines up."""
        lead = " " * indent + mark
        room = max(self.width - cell_len(lead), 10)
        for block in text.split("\n"):
            for wrapped in self.text(block, style).wrap(self._console, room):
                self.line(self.text(lead).append_text(wrapped))
                lead = " " * cell_len(lead)

    def code(self, text: str, *, indent: int, style: str = "") -> None:
        """Lines of code, not wrapped: they are there to be copied."""
        for line in text.expandtabs(4).split("\n"):
            self.line(Text(" " * indent).append_text(self.text(line, style)))


def _write_head(page: _Page, view: ReportView) -> None:
    page.paragraph(f"{view.program} · {view.subtitle}", style="dim")
    page.line()
    page.paragraph(view.verdict.sentence, style="bold")
    if view.verdict.explanation:
        page.paragraph(view.verdict.explanation)
    for caveat in view.caveats:
        warning = caveat.level == "warning"
        page.paragraph(
            caveat.text,
            mark="! " if warning else "· ",
            style="yellow" if warning else "dim",
        )


def _write_idle(page: _Page, view: ReportView) -> None:
    if not view.idle_shares:
        return
    page.line()
    estimated = ", estimated" if view.simulated else ""
    page.line(page.text(f"GPU idle, {view.idle_total}{estimated}", "bold"))
    bar_width = min(page.width - _LABEL_WIDTH - 24, 40)
    for share in view.idle_shares:
        line = page.text(f"  {share.words:<{_LABEL_WIDTH}}")
        if bar_width >= 8:
            filled = max(round(share.fraction * bar_width), 1)
            line.append_text(page.text("█" * filled + " " * (bar_width - filled), "yellow"))
        line.append_text(page.text(f" {duration(share.time_ns):>8}"))
        line.append_text(page.text(f" {percent(share.fraction):>6}", "dim"))
        page.line(line)


def _write_sites(page: _Page, view: ReportView, top: int) -> None:
    page.line()
    if not view.flagged:
        page.line(page.text("Nothing worth fixing: no line was flagged.", "bold"))
    for number, row in enumerate(view.flagged[:top], start=1):
        _write_site(page, row, number, view.span)
        page.line()
    more = view.flagged_total - len(view.flagged[:top])
    if more > 0:
        page.line(page.text(f"{quantity(more, 'more flagged place')} not shown.", "dim"))
    if view.unflagged_total:
        places = quantity(view.unflagged_total, "more place")
        page.line(page.text(f"Not flagged: {places} recorded.", "dim"))


def _write_site(page: _Page, row: SiteRow, number: int, span: str) -> None:
    head = page.text(f"{number:>2}. ", "dim")
    head.append_text(page.text(row.location, "bold cyan"))
    if row.function:
        head.append_text(page.text(f" in {row.function}", "dim"))
    per = " a step" if span == "step" else ""
    outcome = f"{row.verdict}, {row.gain}{per}" if row.gain else row.verdict
    styles = {"fix": "bold yellow", "unsafe": "bold red"}
    head.append_text(page.text(f"  {outcome}", styles.get(row.verdict, "dim")))
    page.line(head)
    facts = (row.cause or row.op, *row.tags)
    page.paragraph(" · ".join(fact for fact in facts if fact), indent=4, style="dim")
    costs = (
        f"{'per step' if per else 'in all'}: {row.per_step} "
        f"{'time' if row.per_step == '1' else 'times'}, host blocked {row.blocked_ms} ms, "
        f"exposed idle {row.idle_ms} ms"
    )
    page.paragraph(costs, indent=4, style="dim")
    _write_code(page, row)
    if row.library_line:
        page.paragraph(f"inside a library, at {row.library_line}", indent=4, style="dim")
    if row.advice_title:
        page.paragraph(row.advice_title, indent=4, style="green", mark="→ ")
    if row.advice_text:
        page.paragraph(row.advice_text, indent=6)
    if row.rewrite:
        page.code(row.rewrite, indent=8, style="green")


def _write_code(page: _Page, row: SiteRow) -> None:
    """The lines of the expression with carets under it; the bare expression without source."""
    lines = [_with_spaces(page, line) for line in row.code if line.hit]
    if not lines:
        if row.expression:
            page.paragraph(row.expression, indent=8)
        return
    indent = min(_indent(line) for line in lines[:MAX_CODE_LINES])
    for line in lines[:MAX_CODE_LINES]:
        shown = cropped(_without_indent(line, indent), page.width - 12, cell_len)
        _write_code_line(page, shown)
    if len(lines) > MAX_CODE_LINES:
        page.line(page.text(f"{'':>8} │ …", "dim"))


def _write_code_line(page: _Page, line: SourceLine) -> None:
    gutter = page.text(f"{line.number:>8} │ ", "dim")
    before, marked, after = (page.safe(t) for t in (line.before, line.marked, line.after))
    page.line(gutter.append(before).append(marked, "bold").append(after))
    if marked:
        carets = page.text(f"{'':>8} │ ", "dim").append(" " * cell_len(before))
        page.line(carets.append("^" * max(cell_len(marked), 1), "bold yellow"))


def _with_spaces(page: _Page, line: SourceLine) -> SourceLine:
    """Tabs become four spaces: carets have to line up in any terminal."""
    before, marked, after = (
        page.safe(text.replace("\t", "    ")) for text in (line.before, line.marked, line.after)
    )
    return SourceLine(line.number, before, marked, after, line.hit)


def _indent(line: SourceLine) -> int:
    text = line.before or line.marked
    return len(text) - len(text.lstrip(" "))


def _without_indent(line: SourceLine, indent: int) -> SourceLine:
    if not line.before:
        return line
    return SourceLine(line.number, line.before[indent:], line.marked, line.after, line.hit)


def _write_coverage(page: _Page, view: ReportView) -> None:
    page.line()
    tile = view.tiles[-1]
    page.paragraph(f"{tile.label}: {tile.value} ({tile.note})", style="dim")
    silent = [row.name for row in view.recorded.collectors if row.state != "on"]
    if silent:
        page.paragraph(f"Not recorded by: {', '.join(silent)}", style="dim")


def _console_into_text(width: int | None, color: bool) -> Console:
    return Console(
        file=io.StringIO(),
        width=max(width or DEFAULT_WIDTH, MIN_WIDTH),
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
