"""How far predictions were off where they could be checked. The README has the tables."""

from __future__ import annotations

from syncscope.records import Summary
from syncscope.reports.figures import Figures

SHADOW_STEPS = (0.70, 1.25)
"""Predicted step times of the examples as ratios to an H200's: the lowest and the highest."""

WHAT_IF_PAIRS = 16
WHAT_IF_ERRORS = (0.036, 0.099)
"""By how much of a step predicted gains were off: the median and the largest of the pairs."""


def how_sure(summary: Summary, figures: Figures) -> str:
    """What is known of the accuracy of this report's times; "" where it has none to doubt."""
    if not figures.has_activity:
        return ""
    texts = []
    if summary.run.simulated:
        low, high = SHADOW_STEPS
        texts.append(
            f"Estimated: step times of the examples were within x{low:.2f} to x{high:.2f} of an "
            "H200's."
        )
    if not figures.fixable:
        return " ".join(texts)
    if not figures.replayed:
        texts.append(
            "Gains are upper bounds: the idle time charged to a line, and the time in which its "
            "copies ran alone. What the GPU does next may still have to wait for something else."
        )
    elif not summary.run.simulated:
        usual, most = WHAT_IF_ERRORS
        texts.append(
            "Gains come from replaying the recording without the lines; what-if predictions were "
            f"off by {usual:.1%} of a step in the median, {most:.1%} at most ({WHAT_IF_PAIRS} "
            "pairs on an H200)."
        )
    return " ".join(texts).replace("%", " %")
