"""How much slower recording makes this program: step times of blocks that alternate."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator


class Calibration:
    """Gathers the step times of blocks; `ratios` says what they come to.

    The first step of a block is left out, because it starts with what the block before left.
    """

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[str, list[float]]] = {}
        self._began = 0.0

    def step_ended(self, kind: str, block: int) -> None:
        """A step of block number `block`, which is bare, free or full, ends now."""
        seconds = time.perf_counter() - self._began
        self._blocks.setdefault(block, (kind, []))[1].append(seconds)

    def step_begins(self) -> None:
        """The program goes on: what the recorder did between two steps is not counted."""
        self._began = time.perf_counter()

    def ratios(self) -> dict[str, float]:
        """Step times as ratios to the bare blocks on both sides: median, lowest, highest.

        `ratio_free`, `ratio_full` and, for bare blocks after CUPTI was torn down against
        those before it came, `ratio_recovered`, each also with `_low` and `_high`. Empty
        for what has no whole blocks.
        """
        medians = [
            (kind, statistics.median(times[1:]))
            for _, (kind, times) in sorted(self._blocks.items())
            if len(times) > 1
        ]
        found: dict[str, float] = {}
        for name, ratios in (
            ("ratio_free", list(_against_neighbours(medians, "free"))),
            ("ratio_full", list(_against_neighbours(medians, "full"))),
            ("ratio_recovered", list(_recovered(medians))),
        ):
            if ratios:
                found[name] = statistics.median(ratios)
                found[f"{name}_low"], found[f"{name}_high"] = min(ratios), max(ratios)
        return found


def _against_neighbours(medians: list[tuple[str, float]], wanted: str) -> Iterator[float]:
    for index, (kind, seconds) in enumerate(medians):
        around = medians[max(0, index - 1) : index + 2]
        bare = [time for neighbour, time in around if neighbour == "bare"]
        if kind == wanted and len(bare) == 2:
            yield 2 * seconds / sum(bare)


def _recovered(medians: list[tuple[str, float]]) -> Iterator[float]:
    kinds = [kind for kind, _ in medians]
    if "full" not in kinds:
        return
    first = kinds.index("full")
    before = [seconds for kind, seconds in medians[:first] if kind == "bare"]
    if before:
        reference = statistics.median(before)
        yield from (seconds / reference for kind, seconds in medians[first:] if kind == "bare")
