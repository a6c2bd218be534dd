"""One site in the terminal: where, the code with carets under it, why, the cost, the cure."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len

from syncscope.records import Site
from syncscope.reports.figures import Figures
from syncscope.reports.sites import SiteRow, location_of, number_of
from syncscope.reports.source_excerpt import SourceLine, cropped
from syncscope.reports.terminal import Page
from syncscope.reports.visible_text import one_line, visible, visible_path

MAX_CODE_LINES = 3
_STYLES = {"fix": "bold yellow", "unsafe": "bold red"}


def write_site(
    page: Page, site: Site, row: SiteRow, figures: Figures, sites: Mapping[str, Site]
) -> None:
    """Write a site under the number of its row; `sites` holds all by id, for what it refers to."""
    _write_head(page, row, figures)
    _write_code(page, row)
    facts = (row.cause or row.op, *row.tags)
    page.paragraph(" · ".join(fact for fact in facts if fact), indent=4, style="dim")
    page.paragraph(row.costs, indent=4, style="dim")
    for text in _surroundings(site, row, sites):
        page.paragraph(text, indent=4, style="dim")
    _write_cure(page, row)


def _write_cure(page: Page, row: SiteRow) -> None:
    """What to do instead; of a cure that an earlier site has as well, only which."""
    if row.advice_title:
        page.paragraph(row.advice_title, indent=4, style="green", mark="→ ")
    if row.same_cure is not None:
        page.paragraph(f"The same cure as {number_of(row.same_cure.anchor)}.", indent=6)
    elif row.advice_text:
        page.paragraph(row.advice_text, indent=6)
    if row.rewrite_note and (row.advice_text or row.rewrite):
        page.paragraph(row.rewrite_note, indent=6, style="dim")
    if row.rewrite and row.same_cure is None:
        page.code(row.rewrite, indent=8, style="green")


def _write_head(page: Page, row: SiteRow, figures: Figures) -> None:
    number = page.text(f"{number_of(row.anchor):>2}. ", "dim")
    head = number.append_text(page.text(row.location, "bold cyan"))
    function = page.text(f" in {row.function}" if row.function else "", "dim")
    span = " a step" if figures.has_steps else ""
    outcome = f"{row.verdict}, {row.gain}{span}" if row.gain else row.verdict
    style = _STYLES.get(row.verdict, "dim")
    if head.cell_len + function.cell_len + len(outcome) + 2 <= page.width:
        page.line(head.append_text(function).append_text(page.text(f"  {outcome}", style)))
        return
    page.line(head)
    page.paragraph(outcome, indent=4, style=style)


def _surroundings(site: Site, row: SiteRow, sites: Mapping[str, Site]) -> list[str]:
    texts = []
    if row.library_line:
        texts.append(f"inside a library, at {row.library_line}")
    if site.origin is not None:
        made = f"{visible_path(site.origin.file)}:{site.origin.line}"
        texts.append(f"moves what was made at {made}: {one_line(site.origin.expression, 100)}")
    if site.moves_to is not None and site.moves_to in sites:
        texts.append(f"without it, the host waits at {location_of(sites[site.moves_to])} instead")
    if site.reason:
        texts.append(f"allowed: {visible(site.reason, 300)}")
    return texts


def _write_code(page: Page, row: SiteRow) -> None:
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


def _write_code_line(page: Page, line: SourceLine) -> None:
    gutter = page.text(f"{line.number:>8} │ ", "dim")
    before, marked, after = (page.safe(t) for t in (line.before, line.marked, line.after))
    page.line(gutter.append(before).append(marked, "bold").append(after))
    if marked:
        carets = page.text(f"{'':>8} │ ", "dim").append(" " * cell_len(before))
        page.line(carets.append("^" * max(cell_len(marked), 1), "bold yellow"))


def _with_spaces(page: Page, line: SourceLine) -> SourceLine:
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
