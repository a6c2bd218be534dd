"""Which step of a run belongs to what: warm-up, detail, calibration, windows. Plain numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from syncscope.options import RecordOptions

DETAIL_STEPS = 2
"""How many of the last steps of the warm-up are detail steps; the first never is."""

CALIBRATION_ROUNDS = 3
CALIBRATION_BLOCK = 4
"""Steps of one block of a calibration; the first is not timed."""

_BLOCKS = (
    *("bare", "free") * CALIBRATION_ROUNDS,
    *("bare", "full") * CALIBRATION_ROUNDS,
    "bare",
)
CALIBRATION_STEPS = CALIBRATION_BLOCK * len(_BLOCKS)


@dataclass(frozen=True, slots=True)
class Phase:
    """What is done between two step marks. Outside windows only free collectors run."""

    window: bool = False
    detail: bool = False
    calibration: str = ""
    """bare, free or full."""
    block: int = -1
    """Number of the calibration block."""


class Schedule:
    """The phase of each step, counted from 0; step n follows n step marks."""

    def __init__(self, options: RecordOptions) -> None:
        self._options = options
        self._calibrating = CALIBRATION_STEPS if options.calibrate else 0

    @property
    def first(self) -> int:
        """The first step of the first window."""
        return self._options.warmup + self._calibrating

    def at(self, step: int) -> Phase:
        """The phase of a step."""
        options = self._options
        calibrated = step - options.warmup
        if 0 <= calibrated < self._calibrating:
            block = calibrated // CALIBRATION_BLOCK
            return Phase(calibration=_BLOCKS[block], block=block)
        return Phase(window=self._in_window(step - self.first), detail=self._is_detail(step))

    def _in_window(self, step: int) -> bool:
        if step < 0:
            return False
        steps, every = self._options.steps, self._options.every
        return steps is None or (step if every is None else step % every) < steps

    def _is_detail(self, step: int) -> bool:
        if self._options.detail == "ops":
            return True
        warmup = self._options.warmup
        return self._options.detail == "auto" and max(1, warmup - DETAIL_STEPS) <= step < warmup


_API = ("api", "")


class StepCounter:
    """Counts steps by the kind of mark by which analysis will count them.

    One step may leave marks of several kinds: `syncscope.step()` goes first, else the kind
    that comes most often.
    """

    def __init__(self) -> None:
        self._marks: Counter[tuple[str, str]] = Counter()
        self._chosen: tuple[str, str] | None = None

    def counts(self, source: str, name: str) -> bool:
        """Whether this mark ends a step that no other mark has ended yet."""
        mark, marks, before = (source, name), self._marks, self._chosen
        marks[mark] += 1
        if mark == _API or before is None or (before != _API and marks[mark] > marks[before]):
            self._chosen = mark
        # When the kind changes, the step was counted by its mark of the former kind.
        return mark == self._chosen and before in (None, mark)
