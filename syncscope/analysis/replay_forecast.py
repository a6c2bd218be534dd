"""What each flagged site costs, by replay; what those worth fixing cost together."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from syncscope.analysis.replay_cures import Cure, WhatIf
from syncscope.records import Replay

TRUSTED_ERROR = 0.1
"""A replay that is off by more than this part of the time is not used."""

FIX_FRACTION = 0.01
"""A site is worth fixing if it costs more than this part of a step."""

ERROR_MARGIN = 3.0
"""And more than this many times what the replay is off by."""

BUDGET = 2_000_000
"""Steps of Python that the replays of single sites together may take: one to two seconds."""

MOST = 0.9
"""Part of what all sites gain together that the few must gain which are named for it."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Savings in ns per steady step. Sites that are not in `savings_ns` were not replayed.

    `error` is that of the replay without a change, None where there was nothing to replay.
    `best_fraction` is what all cures together would gain of a step, `fix_fraction` what those
    of `fix` would: the sites worth fixing. `left_out` counts the sites for which there was
    no time.
    """

    error: float | None = None
    best_fraction: float | None = None
    savings_ns: Mapping[str, int] = field(default_factory=dict)
    moves_to: Mapping[str, str | None] = field(default_factory=dict)
    left_out: int = 0
    fix: frozenset[str] = frozenset()
    fix_fraction: float | None = None

    @property
    def trusted(self) -> bool:
        """Whether savings come from the replay."""
        return self.error is not None and abs(self.error) <= TRUSTED_ERROR

    @property
    def least_fraction(self) -> float:
        """Savings up to this part of a step are not worth a change, or lost in the error."""
        return _least_fraction(self.error if self.trusted else None)

    def record(self, step_ns: int) -> Replay:
        """As the summary has it, for steps of a usual length of `step_ns`."""

        def left(gained: float | None) -> int | None:
            return None if gained is None else round(step_ns * (1.0 - gained))

        best, fixed = left(self.best_fraction), left(self.fix_fraction)
        return Replay(self.error, best, self.trusted, self.left_out, fixed)


def forecast(what_if: WhatIf | None, cures: Sequence[Cure], bounds: Mapping[str, int]) -> Forecast:
    """Replay without each cured site, those with the largest upper bound first.

    Costs a replay per site that waits or copies, up to BUDGET, and again as many at most
    where sites gain together what none of them gains alone.
    """
    if what_if is None:
        return Forecast()
    error = what_if.baseline_error
    if abs(error) > TRUSTED_ERROR:
        return Forecast(error)
    savings: dict[str, int] = {}
    moves: dict[str, str | None] = {}
    budget, left_out = BUDGET, 0
    for cure in sorted(cures, key=lambda cure: -bounds.get(cure.site, 0)):
        cost = what_if.cost(cure)
        budget -= cost
        if not cost:
            savings[cure.site] = 0
        elif budget < 0 and savings:
            left_out += 1
        else:
            gain = what_if.without([cure])
            savings[cure.site], moves[cure.site] = max(gain.ns_per_step, 0), gain.moves_to
    costs = {cure.site: savings.get(cure.site, bounds.get(cure.site, 0)) for cure in cures}
    fix = _worth_fixing(what_if, cures, costs, _least_fraction(error))
    return Forecast(
        error=error,
        best_fraction=_gained(what_if, cures),
        savings_ns=savings,
        moves_to=moves,
        left_out=left_out,
        fix=frozenset(cure.site for cure in fix),
        fix_fraction=_gained(what_if, fix),
    )


def _least_fraction(error: float | None) -> float:
    return max(FIX_FRACTION, ERROR_MARGIN * abs(error or 0.0))


def _gained(what_if: WhatIf, cures: Collection[Cure]) -> float:
    return max(what_if.without(cures).fraction, 0.0) if cures else 0.0


def _worth_fixing(
    what_if: WhatIf, cures: Sequence[Cure], costs: Mapping[str, int], least: float
) -> Sequence[Cure]:
    """The sites that gain more than `least` of a step each: alone, or on average together.

    Where the wait of each site only moves to the next one, none gains anything alone. Then
    the fewest sites are sought that gain most of what all gain together: first as many of
    the dear ones as it needs, of which those are left out that the others can do without.
    """
    dear = [cure for cure in cures if costs[cure.site] > least * what_if.step_ns]
    others = [cure for cure in cures if cure not in dear and what_if.cost(cure)]
    others.sort(key=lambda cure: -costs[cure.site])
    alone, whole = _gained(what_if, dear), _gained(what_if, cures)
    if not others or whole - alone <= least:
        return dear
    enough = alone + MOST * (whole - alone)
    needed = bisect_left(
        range(len(others)), enough, key=lambda count: _gained(what_if, dear + others[:count])
    )
    few = others[:needed]
    for cure in reversed(others[: min(needed, BUDGET // max(what_if.cost(others[0]), 1))]):
        fewer = [other for other in few if other is not cure]
        if _gained(what_if, [*dear, *fewer]) >= enough:
            few = fewer
    together = _gained(what_if, [*dear, *few])
    return [*dear, *few] if together - alone > least * len(few) else dear
