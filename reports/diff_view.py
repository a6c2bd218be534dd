"""The first half of the diff reports: a `Diff` shaped into texts to show."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from syncscope.analysis.diff import HOST_DRIFT, MODEL_ERROR, CodeChange, CodeCost, Diff, DiffSide
from syncscope.analysis.spread import Change, Spread
from syncscope.analysis.steps import MIN_STEPS
from syncscope.reports.recorded import device_model
from syncscope.reports.visible_text import one_line, visible, visible_path
from syncscope.units import byte_size, duration, percent, quantity, rate

MAX_ROWS = 200
"""Lines of code in a group of a report; the JSON holds all."""

_NOTES = {
    "simulated_and_real": (
        "One side ran on a GPU and the other on a shadow GPU, whose times are estimates: lines "
        "and counts can be compared, times cannot."
    ),
    "devices": "The GPUs differ: times compare the machines as well as the programs.",
    "estimates": (
        "Times are estimates: lines and counts can be trusted more. Steps that are estimated to be "
        f"longer count as worse from {percent(MODEL_ERROR)} on."
    ),
    "two_runs": (
        "Two runs of the same program differ by more than their steps do, because host time "
        f"drifts: {percent(HOST_DRIFT)} of the time in which the GPU is idle counts as noise. "
        "Repeat both in turn to see smaller changes."
    ),
    "torch": "The versions of torch differ.",
    "ranks": "The number of ranks differs; figures are per step of a rank.",
    "steps": "The number of steps differs; figures are per step.",
    "one_without_steps": (
        "One side has fewer than two steps: its figures are those of the whole recording."
    ),
    "truncated": "A recording was cut short, or is still being made.",
    "no_activity": "On a side no activity of the GPU was recorded: idle time is unknown.",
}
_OUTCOMES = {"better": "less", "worse": "more", "noise": "within noise", "unknown": "unknown"}
_TONES = {"better": "fine", "worse": "unsafe"}
_GROUPS = (("new", "New"), ("grown", "Grown"), ("gone", "Gone"), ("shrunk", "Shrunk"))


@dataclass(frozen=True, slots=True)
class FigureRow:
    """A figure before and after, and what to make of it."""

    label: str
    old: str
    new: str
    change: str
    outcome: str
    """better, worse, noise or unknown; it chooses the colour."""


@dataclass(frozen=True, slots=True)
class CodeRow:
    """A piece of code before and after."""

    location: str
    function: str
    expression: str
    old: str
    new: str
    worse: bool


@dataclass(frozen=True, slots=True)
class CodeGroup:
    """Flagged code with the same fate."""

    title: str
    rows: tuple[CodeRow, ...]
    total: int


@dataclass(frozen=True, slots=True)
class DiffView:
    """Everything that a diff shows; all texts are safe to show."""

    old: str
    new: str
    old_facts: str
    new_facts: str
    sentence: str
    tone: str
    """gain, unsafe or neutral, as in `Verdict`."""
    notes: tuple[str, ...]
    span: str
    """What the figures are of: "per step", "in all", or both."""
    figures: tuple[FigureRow, ...]
    groups: tuple[CodeGroup, ...]
    rest: str
    """How much else there is: lines that stayed, and those that are not flagged."""


def diff_view(diff: Diff) -> DiffView:
    """Shape a diff. Pure; costs a pass over its code."""
    compared = not _without_gpu(diff)
    return DiffView(
        old=visible_path(diff.old.name, 80),
        new=visible_path(diff.new.name, 80),
        old_facts=_facts(diff.old),
        new_facts=_facts(diff.new),
        sentence=_sentence(diff),
        tone=_TONES.get(diff.step.outcome, "neutral") if compared else "neutral",
        notes=tuple(_notes(diff)) if compared else (),
        span=_span(diff),
        figures=tuple(_figures(diff)) if compared else (),
        groups=tuple(_groups(diff)) if compared else (),
        rest=_rest(diff) if compared else "",
    )


def _without_gpu(diff: Diff) -> list[str]:
    """The sides on which the program used no GPU: there is nothing to compare then."""
    sides = (("old", diff.old, [code.old for code in diff.code]),
             ("new", diff.new, [code.new for code in diff.code]))  # fmt: skip
    return [
        name
        for name, side, code in sides
        if not side.has_activity and not any(code) and (side.simulated or not side.device)
    ]


def _has_steps(diff: Diff) -> tuple[bool, bool]:
    """Of either side, whether its figures are per step."""
    return diff.old.steps > 1, diff.new.steps > 1


def _span(diff: Diff) -> str:
    old, new = _has_steps(diff)
    if old == new:
        return "per step" if old else "in all"
    return "in all, and per step" if new else "per step, and in all"


def _notes(diff: Diff) -> Iterator[str]:
    old, new = _has_steps(diff)
    for note in diff.notes:
        yield _NOTES["one_without_steps" if note == "steps" and old != new else note]


def _facts(side: DiffSide) -> str:
    steps = f"{quantity(side.steady, 'steady step')} ({side.steps * side.ranks:,} recorded)"
    device = device_model(side.device) or "no GPU"
    facts = [
        visible_path(" ".join(side.argv), 60),
        f"shadow GPU, modelled on {device}" if side.simulated else device,
        f"torch {visible(side.torch, 40)}" if side.torch else "",
        quantity(side.ranks, "rank") if side.ranks > 1 else "",
        steps if side.steps > 1 else "no steps",
    ]
    return " · ".join(fact for fact in facts if fact)


def _sentence(diff: Diff) -> str:
    if unused := _without_gpu(diff):
        who = f"the {unused[0]} run" if len(unused) == 1 else "both runs"
        return f"Nothing to compare: {who} used no GPU."
    flagged = [change.status for change in diff.code if change.flagged]
    counts = [(words, flagged.count(status)) for status, words in _GROUPS]
    fates = [f"{number:,} {words.lower()}" for words, number in counts if number]
    lines = f"flagged lines: {', '.join(fates)}" if fates else "the flagged lines are the same"
    return f"{_step_clause(diff)}; {lines}."


def _step_clause(diff: Diff) -> str:
    step = diff.step
    old, new = duration(step.old.median), duration(step.new.median)
    estimated = "Estimated steps" if diff.old.simulated and diff.new.simulated else "Steps"
    if not any(_has_steps(diff)):
        return "Times cannot be compared (no steps were recorded)"
    if step.outcome == "unknown":
        few = min(step.old.count, step.new.count) < MIN_STEPS
        reason = f"fewer than {MIN_STEPS} steady steps on a side" if few else "only one is real"
        return f"Step times cannot be compared ({reason})"
    if step.outcome == "noise":
        return f"{estimated} take as long as before, within noise ({old}, now {new})"
    word = "longer" if step.outcome == "worse" else "shorter"
    return f"{estimated} are {_share(step)} {word} ({old}, now {new})"


def _share(change: Change) -> str:
    if not change.old.median:
        return "much"
    return percent(abs(change.new.median - change.old.median) / change.old.median)


def _figures(diff: Diff) -> Iterator[FigureRow]:
    yield _figure("Step time" if any(_has_steps(diff)) else "Time recorded", diff.step)
    if diff.idle:
        yield _figure("GPU idle", diff.idle)
    yield _figure("Host blocked", diff.blocked)


def _figure(label: str, change: Change) -> FigureRow:
    delta = change.new.median - change.old.median
    text = f"{'+' if delta > 0 else '−'}{duration(abs(delta))}" if delta else "±0"
    if change.outcome != "unknown":
        text = f"{text}, {_OUTCOMES[change.outcome]}"
    return FigureRow(label, _spread(change.old), _spread(change.new), text, change.outcome)


def _spread(spread: Spread) -> str:
    if spread.count < 2:
        return duration(spread.median)
    return f"{duration(spread.median)} [{duration(spread.low)} .. {duration(spread.high)}]"


def _groups(diff: Diff) -> Iterator[CodeGroup]:
    for status, title in _GROUPS:
        changes = [c for c in diff.code if c.flagged and c.status == status]
        if changes:
            rows = tuple(_row(change) for change in changes[:MAX_ROWS])
            yield CodeGroup(title, rows, len(changes))


def _row(change: CodeChange) -> CodeRow:
    side = change.new or change.old
    assert side is not None, "a change has a side"
    return CodeRow(
        location=f"{visible_path(side.file)}:{side.line}" if side.line > 0 else "(no line)",
        function=visible(change.function, 80),
        expression=one_line(change.expression),
        old=_cost(change.old),
        new=_cost(change.new),
        worse=change.worse,
    )


def _cost(side: CodeCost | None) -> str:
    if side is None:
        return "–"
    times = f"{rate(side.count)}×" if side.count else "not in steady steps"
    parts = [
        side.verdict if side.flagged else "not flagged",
        times,
        byte_size(side.size_bytes) if side.size_bytes >= 1024 else "",
        f"gives back {duration(side.savings_ns)}" if side.savings_ns >= 1_000 else "",
        f"in {side.places} lines" if side.places > 1 else "",
    ]
    return ", ".join(part for part in parts if part)


def _rest(diff: Diff) -> str:
    same = sum(change.flagged and change.status == "same" for change in diff.code)
    quiet = [change.status for change in diff.code if not change.flagged]
    fates = [
        f"{quiet.count(status)} {words}"
        for status, words in (*_GROUPS, ("same", "the same"))
        if quiet.count(status)
    ]
    parts = [
        f"{quantity(same, 'flagged line')} as before." if same else "",
        f"Not flagged: {', '.join(fates).lower()}." if fates else "",
    ]
    return " ".join(part for part in parts if part)
