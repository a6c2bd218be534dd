"""What each flagged site costs, by replay; what all of them cost together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from syncscope.analysis.replay_cures import Cure, WhatIf
from syncscope.records import Replay

TRUSTED_ERROR = 0.1
"""A replay that is off by more than this part of the time is not used."""

BUDGET = 2_000_000
"""Steps of Python that the replays of single sites together may take: one to two seconds."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Savings in ns per steady step. Sites that are not in `savings_ns` were not replayed.

    `error` is that of the replay without a change, None where there was nothing to replay.
    `best_fraction` is what all cures together would gain of a step. `left_out` counts the
    sites for which there was no time.
    """

    error: float | None = None
    best_fraction: float | None = None
    savings_ns: Mapping[str, int] = field(default_factory=dict)
    moves_to: Mapping[str, str | None] = field(default_factory=dict)
    left_out: int = 0

    @property
    def trusted(self) -> bool:
        """Whether savings come from the replay."""
        return self.error is not None and abs(self.error) <= TRUSTED_ERROR

    def record(self, step_ns: int) -> Replay:
        """As the summary has it, for steps of a usual length of `step_ns`."""
        best = None if self.best_fraction is None else round(step_ns * (1.0 - self.best_fraction))
        return Replay(self.error, best, self.trusted, self.left_out)


def forecast(what_if: WhatIf | None, cures: Sequence[Cure], bounds: Mapping[str, int]) -> Forecast:
    """Replay without each cured site, those with the largest upper bound first.

    Costs a replay per site that waits or copies, up to BUDGET.
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
    best = what_if.without(cures).fraction if cures else 0.0
    return Forecast(error, max(best, 0.0), savings, moves, left_out)
