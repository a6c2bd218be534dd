"""The one sentence that a report opens with, and what must be known to trust it."""

from __future__ import annotations

from dataclasses import dataclass

from syncscope.records import Summary
from syncscope.reports.accuracy import how_sure
from syncscope.reports.figures import Figures
from syncscope.reports.launching import launching_in_words
from syncscope.units import duration, percent, quantity, with_article

GPU_BOUND_IDLE_FRACTION = 0.05
"""Below this a GPU counts as busy: what is left is not worth anybody's afternoon."""

_COPIES_ALONE = (
    "That is more than the idle time because a GPU that only copies counts as busy, and computes "
    "nothing."
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`tone` is gain, fine, unsafe, neutral, or empty: nothing was recorded to judge."""

    tone: str
    sentence: str
    explanation: str
    certainty: str = ""
    """How far the times can be off; "" where nothing is claimed."""


def verdict_of(summary: Summary, figures: Figures) -> Verdict:
    """Say in one sentence whether something is worth fixing. Never promises a bound as a gain."""
    if nothing := _nothing(summary, figures):
        return nothing
    if figures.has_activity:
        tone, clauses, explanation = _measured(summary, figures)
    else:
        tone, clauses, explanation = _unmeasured(figures)
    if figures.unsafe:
        verb = "reads" if len(figures.unsafe) == 1 else "read"
        lines = quantity(len(figures.unsafe), "line")
        clauses.insert(0, f"{lines} {verb} memory that is still being copied")
        tone = "unsafe"
    sentence = "; ".join(clauses)
    sentence = sentence[:1].upper() + sentence[1:] + "."
    return Verdict(tone, sentence, explanation, how_sure(summary, figures))


def _nothing(summary: Summary, figures: Figures) -> Verdict | None:
    """What to say of a recording without any event: of a program that used no GPU, mostly."""
    run = summary.run
    if summary.sites or figures.has_activity or run.imported or run.truncated:
        return None
    if run.device and not run.window_ns and not run.simulated:
        return Verdict(
            "empty",
            "Nothing was recorded: the program ended before the first window.",
            "Record fewer steps after a shorter warm-up: --warmup and --steps count steps, the "
            "ends of which syncscope.step() or an optimizer marks.",
        )
    if run.device and not summary.gpu:
        return None
    return Verdict(
        "empty",
        "The program never used the GPU: there was nothing to wait for.",
        'Move the model and its input to the device with .to("cuda"). Around a part of a program, '
        "syncscope.record() has to begin before they are made, so that they find a shadow GPU.",
    )


def _measured(summary: Summary, figures: Figures) -> tuple[str, list[str], str]:
    if figures.fixable:
        clauses = [_idle(summary, figures), _gain(summary, figures)]
        if figures.harmless:
            clauses.append(_harmless(figures, more=True))
        explanation = ""
        if figures.gain_ns > figures.idle_ns:
            explanation = _COPIES_ALONE
        elif _mostly_not_lines(figures):
            explanation = _other_cause(summary, figures)
        return "gain", clauses, explanation
    if figures.idle_fraction < GPU_BOUND_IDLE_FRACTION:
        tone = "fine"
        clauses = [f"{_busy(summary, figures)}: nothing worth fixing"]
        explanation = "The program is bound by the GPU: only less or faster GPU work shortens it."
    else:
        # Not praise: the GPU idles, only not for a reason that a line could be blamed for.
        tone = "neutral"
        clauses = [f"{_idle(summary, figures)}, {_not_for_waits(figures)}"]
        explanation = _other_cause(summary, figures)
    if figures.harmless and tone == "neutral":
        clauses.append(_no_gain(figures))
    elif figures.harmless:
        clauses.append(_harmless(figures, more=False))
    elif not any(site.flagged for site in summary.sites):
        clauses.append("no wait or copy was flagged")
    return tone, clauses, explanation


def _unmeasured(figures: Figures) -> tuple[str, list[str], str]:
    flagged = (*figures.fixable, *figures.harmless)
    clauses = ["no GPU activity was recorded, so idle time is unknown"]
    if flagged:
        blocked_ns = figures.per_span(sum(site.blocked_ns for site in flagged))
        where = "a step" if figures.has_steps else "in all"
        lines = quantity(len(flagged), "flagged line")
        verb = "blocks" if len(flagged) == 1 else "block"
        clauses.append(f"{lines} {verb} the host for {duration(blocked_ns)} {where}")
    else:
        clauses.append("no wait or copy was flagged")
    explanation = (
        "A line can give back at most the time for which it blocks the host. The report lists the "
        "collectors: what could be recorded, and why not."
    )
    return "neutral", clauses, explanation


def _span(figures: Figures) -> str:
    """What a share is a share of."""
    if figures.has_steps:
        return f"{with_article(duration(figures.span_ns))} step"
    return f"the {duration(figures.span_ns)} recorded"


def _gpus(summary: Summary) -> str:
    gpus = "GPU" if len(summary.gpu) == 1 else f"{len(summary.gpu)} GPUs"
    return f"estimated on a shadow GPU: {gpus}" if summary.run.simulated else gpus


def _idle(summary: Summary, figures: Figures) -> str:
    return f"{_gpus(summary)} idle {percent(figures.idle_fraction)} of {_span(figures)}"


def _busy(summary: Summary, figures: Figures) -> str:
    return f"{_gpus(summary)} busy {percent(1 - figures.idle_fraction)} of {_span(figures)}"


def _gain(summary: Summary, figures: Figures) -> str:
    lines = quantity(len(figures.fixable), "line")
    if figures.gain_ns <= 0:
        verb = "is" if len(figures.fixable) == 1 else "are"
        return f"{lines} {verb} worth fixing"
    estimated = "an estimated " if summary.run.simulated else ""
    bound = "about" if figures.replayed else "up to"
    return f"{lines} can give back {bound} {estimated}{duration(figures.gain_ns)}"


def _harmless(figures: Figures, *, more: bool) -> str:
    """`more` says that other lines were counted before in the same sentence."""
    count = len(figures.harmless)
    only_syncs = all(site.kind == "sync" for site in figures.harmless)
    noun = "sync" if only_syncs else "flagged line"
    counted = quantity(count, f"more {noun}" if more else noun)
    article = "" if more else "the "
    if not more and count == 1:
        counted = noun
    return f"{article}{counted} {'is' if count == 1 else 'are'} harmless"


def _not_for_waits(figures: Figures) -> str:
    if figures.share_of("launch") > 0.5:
        return "mostly because the host launches kernels too slowly"
    return "but not because of a line that is worth fixing"


def _no_gain(figures: Figures) -> str:
    """Of lines that are harmless where the GPU idles for another reason: no promise for them."""
    count = len(figures.harmless)
    waits = "wait of the flagged line" if count == 1 else f"waits of the {count:,} flagged lines"
    return f"taking away the {waits} alone gains nothing measurable"


def _mostly_not_lines(figures: Figures) -> bool:
    """Whether most of the idle time would stay if no line waited or copied."""
    causes = ("sync", "transfer", "allocator")
    return sum(share.fraction for share in figures.idle_shares if share.cause in causes) < 0.5


def _other_cause(summary: Summary, figures: Figures) -> str:
    """Why the GPU idles most, and what helps, where that is not a line that waits."""
    if launching := launching_in_words(summary, figures):
        return launching
    if not figures.idle_shares:
        return ""
    top = figures.idle_shares[0]
    text = f"Most of the idle time ({percent(top.fraction)}): {top.words}."
    hints = {
        "dataloader": " More workers, or less work for each sample, help here.",
        "gc": " gc.freeze() after warm-up, or fewer reference cycles, help here.",
    }
    return text + hints.get(top.cause, "")
