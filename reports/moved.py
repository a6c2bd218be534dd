"""The tensors moved most between host and GPU, by the line that moves them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from syncscope.records import Site
from syncscope.reports.figures import Figures
from syncscope.reports.sites import DIRECTIONS, location_of
from syncscope.reports.visible_text import one_line, visible
from syncscope.units import byte_size

MAX_MOVED = 10
SMALL_BYTES = 1_024
"""Per span: numbers read back one by one are waits, not loads."""


@dataclass(frozen=True, slots=True)
class Moved:
    """One line's copies; `bytes_` are per step where there are steps, else in all.

    Of copies that most steps do not have, it says how often they happened instead.
    """

    anchor: str
    location: str
    expression: str
    direction: str
    memory: str
    each: str
    bytes_: str
    share: float
    """Of the most that any line moves, between 0 and 1."""


def moved_most(
    sites: Sequence[Site], figures: Figures, anchors: Mapping[str, str]
) -> tuple[Moved, ...]:
    """Sites by bytes, the largest first; those that move next to nothing are left out."""
    large = [s for s in sites if s.id in anchors and figures.per_span(s.size_bytes) >= SMALL_BYTES]
    large = sorted(large, key=lambda s: -s.size_bytes)[:MAX_MOVED]
    return tuple(
        Moved(
            anchor=anchors[site.id],
            location=location_of(site),
            expression=one_line(site.expression, 100),
            direction=DIRECTIONS.get(site.direction or "", visible(site.direction or "", 40)),
            memory={True: "pageable", False: "pinned", None: ""}[site.pageable],
            each=byte_size(site.size_bytes / max(site.count, 1)),
            bytes_=_amount(site, figures),
            share=site.size_bytes / large[0].size_bytes,
        )
        for site in large
    )


def _amount(site: Site, figures: Figures) -> str:
    if figures.has_steps and site.per_step < 0.5:
        return "once" if site.count == 1 else f"{site.count:,} times in all"
    return byte_size(figures.in_span(site, site.size_bytes))
