"""`syncscope run --live`: every other second a line on stderr that says how the program fares."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from syncscope.recording.tables import BlockingRow, FrameRow, Row, StackRow, StepMark, TransferRow
from syncscope.reports.visible_text import one_line, visible_path
from syncscope.units import quantity, rate

WORST = 3
"""How many lines of the program are named."""

_Line = tuple[str, int, str]
_UNKNOWN: _Line = ("(unknown)", -1, "")


class Live:
    """Tells of the rows that a flush has written. What two hooks tell of a line counts once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._frames: dict[int, FrameRow] = {}
        self._lines: dict[int, _Line] = {}
        self._marks: Counter[tuple[str, str]] = Counter()
        self._told: Counter[int] = Counter()
        self._copied: Counter[int] = Counter()
        self._steps = 0
        self._began = time.monotonic()

    def show(self, written: Mapping[str, Sequence[Row]]) -> None:
        """Say what has happened since the last flush; nothing if nothing did."""
        for rows in written.values():
            for row in rows:
                self._count(row)
        now = time.monotonic()
        seconds, self._began = now - self._began, now
        steps, waits = self._new_steps(), self._new_waits()
        if not steps and not waits:
            return
        unit, per = ("a step", steps) if steps else ("a second", seconds)
        worst = ", ".join(
            f"{visible_path(file, 40)}:{line} {one_line(text, 40)} {rate(count / per)}"
            for (file, line, text), count in waits.most_common(WORST)
        )
        many = rate(waits.total() / per)
        pace = f"{quantity(self._steps, 'step')}, {rate(steps / seconds)} a second; "
        found = f"{many} wait{'' if many == '1' else 's'} {unit}" + (f": {worst}" if worst else "")
        self._say((pace if steps else "") + found)

    def _count(self, row: Row) -> None:
        if isinstance(row, FrameRow):
            self._frames[row.frame_id] = row
        elif isinstance(row, StackRow):
            self._lines[row.stack_id] = self._line(row)
        elif isinstance(row, StepMark):
            self._marks[row.source, row.name] += 1
        elif isinstance(row, BlockingRow):
            self._told[row.stack_id] += row.kind != "race" and row.source != "scope"
        elif isinstance(row, TransferRow):
            self._copied[row.stack_id] += not row.non_blocking

    def _new_steps(self) -> int:
        marks = self._marks
        total = marks["api", ""] or max(marks.values(), default=0)
        before, self._steps = self._steps, total
        return total - before

    def _new_waits(self) -> Counter[_Line]:
        return +(self._by_line(self._told) | self._by_line(self._copied))

    def _by_line(self, stacks: Counter[int]) -> Counter[_Line]:
        """Takes out what has a line by now; the rest waits for the next flush."""
        found: Counter[_Line] = Counter()
        for stack in [stack for stack in stacks if stack in self._lines]:
            found[self._lines[stack]] += stacks.pop(stack)
        return found

    def _line(self, stack: StackRow) -> _Line:
        frames = [self._frames[frame] for frame in stack.frame_ids if frame in self._frames]
        own = [frame for frame in frames if frame.owner == "user"]
        for frame in own or frames:
            return frame.file, frame.line, frame.expression
        return _UNKNOWN
