"""What changed between two recordings: step time, idle time, and the lines that wait or copy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from syncscope.analysis.code_match import CodeKey, code_key, common_files
from syncscope.analysis.intervals import Ints
from syncscope.analysis.replay_forecast import FIX_FRACTION
from syncscope.analysis.result import Analysis
from syncscope.analysis.spread import Change, Spread, change_of, spread_of
from syncscope.analysis.windows import int64
from syncscope.records import Site

DIFF_SCHEMA = 1

HOST_DRIFT = 0.2
"""Between two runs on a real machine host time may differ by this part with nothing changed.

So much was seen within a minute on the machines on which syncscope was measured, while the steps
of either run differed by far less.
"""

GPU_DRIFT = 0.02
"""The same for the time in which the GPU is busy: its clock changes with its temperature."""

SIMULATED_NOISE = 0.01
"""Simulated clocks do not drift; a change below this part of a step is not worth a word."""

MODEL_ERROR = 0.25
"""So far may two programs' estimated steps be off against each other, as part of a step.

Of the five examples and their twins in the README, what an H200 makes of the change from the one
to the other is missed by x1.06 to x1.25 in four, and by x1.65 in one, which got shorter in both.
"""


@dataclass(frozen=True, slots=True)
class DiffSide:
    """One of the two recordings. `steady` counts the steps that are compared, of all ranks."""

    name: str
    argv: tuple[str, ...]
    device: str
    simulated: bool
    torch: str
    ranks: int
    steps: int
    steady: int
    truncated: bool
    has_activity: bool


@dataclass(frozen=True, slots=True)
class CodeCost:
    """What one piece of code costs on one side, per steady step of a rank.

    Line numbers are those of its first place; the same code may stand in several.
    """

    file: str
    line: int
    places: int
    count: float
    savings_ns: float
    blocked: Spread
    size_bytes: float
    flagged: bool
    verdict: str


@dataclass(frozen=True, slots=True)
class CodeChange:
    """The same code on both sides. `status` is new, gone, grown, shrunk or same."""

    status: str
    function: str
    expression: str
    kind: str
    cause: str
    flagged: bool
    """Whether it is a problem on one side at least."""
    worse: bool
    """Whether it is new or costs more, and worth fixing."""
    old: CodeCost | None
    new: CodeCost | None


@dataclass(frozen=True, slots=True)
class Diff:
    """Everything that changed; times are ns per steady step. Written by `diff --format json`."""

    old: DiffSide
    new: DiffSide
    notes: tuple[str, ...]
    """What the reader must know before comparing; codes of reports.diff_view."""
    step: Change
    idle: Change | None
    """None where a side did not record the activity of the GPU."""
    blocked: Change
    code: tuple[CodeChange, ...]
    worse: bool
    """Whether steps or a line got worse by more than noise, estimated steps by MODEL_ERROR.

    More idle time alone is not worse: where steps are not longer, the GPU has less to do.
    """
    schema: int = field(default=DIFF_SCHEMA)


def diff_of(
    old: Sequence[Analysis], new: Sequence[Analysis], names: tuple[str, str] = ("old", "new")
) -> Diff:
    """Compare two runs, each given by the analyses of its ranks (one or more).

    Steps of all ranks count alike. Code is matched by file, function and expression
    (`code_match`), never by line. Deterministic; costs a pass over the calls of both sides.
    """
    sides = [_side(ranks, name) for ranks, name in zip((old, new), names, strict=True)]
    comparable = sides[0].simulated == sides[1].simulated
    step, idle, blocked = (
        (spread_of(_steady(old, column)), spread_of(_steady(new, column)))
        for column in ("length_ns", "idle_ns", "blocked_ns")
    )
    measured = all(side.has_activity for side in sides)
    rule = _rule(sides[0], step[0], idle if measured else step, comparable=comparable)
    step_change = rule.change(*step)
    code = _code(old, new, rule)
    return Diff(
        old=sides[0],
        new=sides[1],
        notes=tuple(_notes(*sides)),
        step=step_change,
        idle=rule.change(*idle) if measured else None,
        blocked=rule.host_change(*blocked),
        code=code,
        worse=_longer(step_change, *sides) or any(change.worse for change in code),
    )


def _longer(step: Change, *sides: DiffSide) -> bool:
    """Whether steps got longer by more than noise, and by more than estimates are good for."""
    estimated = any(side.simulated for side in sides)
    least = (1 + MODEL_ERROR) * step.old.median if estimated else 0
    return step.outcome == "worse" and step.new.median > least


@dataclass(frozen=True, slots=True)
class _Rule:
    """What counts as a change: of a step, of a time of the host, of what a site costs."""

    noise_ns: float
    drift: float
    least_ns: float
    comparable: bool

    def change(self, old: Spread, new: Spread) -> Change:
        return change_of(old, new, self.noise_ns, comparable=self.comparable)

    def host_change(self, old: Spread, new: Spread) -> Change:
        return change_of(old, new, self.drift * old.median, comparable=self.comparable)

    def status(self, old: CodeCost, new: CodeCost, counts: tuple[Spread, Spread]) -> str:
        """Of code that is on both sides: whether it is a problem, what it costs, how often."""
        if old.flagged != new.flagged:
            return "grown" if new.flagged else "shrunk"
        waits = self.host_change(old.blocked, new.blocked).outcome
        saved = new.savings_ns - old.savings_ns
        if waits == "worse" and saved > self.least_ns:
            return "grown"
        if waits == "better" and -saved > self.least_ns:
            return "shrunk"
        if counts[0].high < counts[1].low:
            return "grown"
        return "shrunk" if counts[1].high < counts[0].low else "same"


def _rule(side: DiffSide, step: Spread, idle: tuple[Spread, Spread], *, comparable: bool) -> _Rule:
    """The host sets the pace while the GPU is idle: that part of a step drifts with host time."""
    least_ns = FIX_FRACTION * step.median
    if side.simulated:
        return _Rule(SIMULATED_NOISE * step.median, SIMULATED_NOISE, least_ns, comparable)
    host_ns = max(spread.median for spread in idle)
    noise_ns = HOST_DRIFT * host_ns + GPU_DRIFT * step.median
    return _Rule(noise_ns, HOST_DRIFT, least_ns, comparable)


def _side(ranks: Sequence[Analysis], name: str) -> DiffSide:
    run = ranks[0].summary.run
    return DiffSide(
        name=name,
        argv=run.argv,
        device=run.device,
        simulated=run.simulated,
        torch=run.torch,
        ranks=len(ranks),
        steps=run.steps,
        steady=sum(step.steady for rank in ranks for step in rank.summary.steps),
        truncated=any(rank.summary.run.truncated for rank in ranks),
        has_activity=all(any(gpu.busy_ns for gpu in rank.summary.gpu) for rank in ranks),
    )


def _notes(old: DiffSide, new: DiffSide) -> Iterator[str]:
    if old.simulated != new.simulated:
        yield "simulated_and_real"
    elif old.device != new.device:
        yield "devices"
    elif old.simulated:
        yield "estimates"
    else:
        yield "two_runs"
    if old.torch != new.torch:
        yield "torch"
    if old.ranks != new.ranks:
        yield "ranks"
    if min(old.steady, new.steady) and old.steady != new.steady:
        yield "steps"
    if old.truncated or new.truncated:
        yield "truncated"
    if not (old.has_activity and new.has_activity):
        yield "no_activity"


def _steady(ranks: Sequence[Analysis], column: str) -> Ints:
    """A column of all steady steps."""
    steps = (step for rank in ranks for step in rank.summary.steps if step.steady)
    return np.array([getattr(step, column) for step in steps], dtype=np.int64)


def _code(old: Sequence[Analysis], new: Sequence[Analysis], rule: _Rule) -> tuple[CodeChange, ...]:
    files = common_files(
        *({site.file for rank in ranks for site in rank.summary.sites} for ranks in (old, new)),
        *(ranks[0].summary.run.argv for ranks in (old, new)),
    )
    before, after = (_by_code(ranks, names) for ranks, names in zip((old, new), files, strict=True))
    keys = dict.fromkeys((*after, *before))
    changes = [_change(key, before.get(key), after.get(key), rule) for key in keys]
    return tuple(sorted(changes, key=_order))


def _order(change: CodeChange) -> tuple[object, ...]:
    """What got worse first, then what got better, each by what it costs."""
    status = ("new", "grown", "gone", "shrunk", "same").index(change.status)
    sides = [side for side in (change.new, change.old) if side]
    cost = max(side.savings_ns for side in sides)
    return (not change.worse, not change.flagged, status, -cost, sides[0].file, sides[0].line)


@dataclass
class _Code:
    """One piece of code on one side: its sites, and what it does in each steady step."""

    sites: list[Site]
    places: set[tuple[str, int, int]]
    savings_ns: float
    blocked_ns: Ints
    counts: Ints
    sizes: Ints


def _by_code(ranks: Sequence[Analysis], files: Mapping[str, str]) -> dict[CodeKey, _Code]:
    """The code of all ranks; steps of a rank that does not reach it count as zeros."""
    found: dict[CodeKey, _Code] = {}
    total = sum(step.steady for rank in ranks for step in rank.summary.steps)
    begin = 0
    for rank in ranks:
        sums = _sums_by_site(rank)
        steady = sum(step.steady for step in rank.summary.steps)
        for site in rank.summary.sites:
            blocked, counts, sizes = sums.get(site.id, (0, 0, 0))
            key = code_key(site, files)
            code = found.setdefault(
                key, _Code([], set(), 0.0, *(np.zeros(total, np.int64) for _ in range(3)))
            )
            code.sites.append(site)
            code.places.add((site.file, site.line, site.column))
            code.savings_ns += site.savings_ns_per_step / len(ranks)
            own = slice(begin, begin + steady)
            code.blocked_ns[own] += blocked
            code.counts[own] += counts
            code.sizes[own] += sizes
        begin += steady
    return found


def _sums_by_site(analysis: Analysis) -> dict[str, tuple[Ints, Ints, Ints]]:
    """By site id: time blocked, calls and bytes in each steady step."""
    steps = [step for step in analysis.summary.steps if step.steady]
    starts = np.array([step.start_ns for step in steps], dtype=np.int64)
    ends = np.array([step.end_ns for step in steps], dtype=np.int64)
    times = int64(analysis.calls, "start_ns")
    row = np.searchsorted(starts, times, side="right") - 1
    inside = (row >= 0) & (times < np.append(ends, 0)[row])
    calls = analysis.calls[inside].assign(step=row[inside])
    waits = (int64(calls, "end_ns") - int64(calls, "start_ns")) * calls["blocking"].to_numpy()
    calls = calls.assign(waits=waits, size_bytes=calls["size_bytes"].clip(lower=0))
    return {str(site): _by_step(own, len(steps)) for site, own in calls.groupby("site_id")}


def _by_step(calls: pd.DataFrame, steps: int) -> tuple[Ints, Ints, Ints]:
    row = int64(calls, "step")
    sums = np.zeros((3, steps), dtype=np.int64)
    for total, values in zip(
        sums, (int64(calls, "waits"), np.ones(len(row), np.int64), int64(calls, "size_bytes")),
        strict=True,
    ):  # fmt: skip
        np.add.at(total, row, values)
    return sums[0], sums[1], sums[2]


def _change(key: CodeKey, old: _Code | None, new: _Code | None, rule: _Rule) -> CodeChange:
    before, after = (_cost(code) if code else None for code in (old, new))
    status = "new" if old is None else "gone"
    if old and new and before and after:
        status = rule.status(before, after, (spread_of(old.counts), spread_of(new.counts)))
    site = next(code.sites[0] for code in (new, old) if code)
    worth_fixing = after is not None and after.verdict in ("fix", "unsafe")
    return CodeChange(
        status=status,
        function=key.function,
        expression=site.expression,
        kind=key.kind,
        cause=site.cause,
        flagged=any(side.flagged for side in (before, after) if side),
        worse=worth_fixing and status in ("new", "grown"),
        old=before,
        new=after,
    )


def _cost(code: _Code) -> CodeCost:
    first = min(code.sites, key=lambda site: (site.line, site.column))
    order = ("unsafe", "fix", "allowed", "harmless")
    verdicts = {site.verdict for site in code.sites}
    return CodeCost(
        file=first.file,
        line=first.line,
        places=len(code.places),
        count=float(code.counts.mean()) if len(code.counts) else 0.0,
        savings_ns=code.savings_ns,
        blocked=spread_of(code.blocked_ns),
        size_bytes=float(code.sizes.mean()) if len(code.sizes) else 0.0,
        flagged=any(site.flagged for site in code.sites),
        verdict=next((verdict for verdict in order if verdict in verdicts), "harmless"),
    )
