"""What keeps a GPU waiting for launches: many small kernels, or other work of the host."""

from __future__ import annotations

from collections.abc import Iterator

from syncscope.records import LaunchPace, Summary
from syncscope.reports.figures import HOST_WORK, Figures
from syncscope.units import duration, percent

WORTH_A_SENTENCE = 0.25
"""Of the idle time: a cause with a smaller part is left to the list of causes."""

CUPTI_FACTORS = (1.2, 1.6)
"""What recording did to the steps of the README's launch-bound loop on an H200: the lowest and
the highest of seven runs."""


OFTEN = 10.0
"""From so many waits and copies a step on, their number is told."""


def sets_the_pace(figures: Figures) -> bool:
    """Whether a good part of the idle time is there because the host launches too slowly."""
    return figures.share_of("launch") >= WORTH_A_SENTENCE


def launching_in_words(summary: Summary, figures: Figures) -> str:
    """What the host does instead of launching, and what helps; "" where that is no matter."""
    return " ".join(_sentences(summary, figures))


def kernels_in_words(pace: LaunchPace) -> str:
    """How long kernels are, and how often one begins where the host sets that."""
    each = f"{duration(pace.kernel_ns)} each"
    if pace.interval_ns <= pace.kernel_ns:
        return f"{each} in the mean"
    return f"{each}, one every {duration(pace.interval_ns)}"


def _sentences(summary: Summary, figures: Figures) -> Iterator[str]:
    slow, other = figures.share_of("launch"), figures.share_of(HOST_WORK)
    if other >= WORTH_A_SENTENCE:
        yield (
            f"For {percent(other)} of the idle time the host was busy with other work between "
            "launches (Python, numpy, tensors on the CPU, loading libraries, sleeping): do it "
            "before the loop, in the workers of a DataLoader, or on the GPU."
        )
    if not sets_the_pace(figures):
        return
    pace, kernels = summary.launches, ""
    if pace is not None and figures.has_steps:
        kernels = f": {pace.kernels_per_step:,.0f} a step, {kernels_in_words(pace)}"
    yield (
        f"For {percent(slow)} of the idle time the host launches kernels too slowly{kernels}. "
        "Fewer and larger ones help (torch.compile, CUDA graphs, larger batches, fused optimizers)."
    )
    often = sum(site.per_step for site in (*figures.fixable, *figures.harmless))
    if figures.has_steps and often >= OFTEN:
        yield (
            f"The flagged lines wait or copy {often:,.0f} times a step: a rewrite that does their "
            "work at once launches less too, and can gain more than the waits alone."
        )
    else:
        yield "A rewrite that also launches less can gain more than is said here."
    yield from _cost_of_recording(summary)


def _cost_of_recording(summary: Summary) -> Iterator[str]:
    if summary.run.simulated:
        return
    factor = summary.overhead.get("ratio_full")
    if factor is not None:
        yield f"Recording itself slowed the host by about x{factor:.2f}, as calibrated."
    else:
        low, high = CUPTI_FACTORS
        yield (
            f"Recording itself slows such a loop: by x{low:.1f} to x{high:.1f} on an H200, for "
            "what CUPTI costs with each launch; --calibrate measures it here."
        )
