"""The lines of `run --live`: steps, waits, and the worst lines of what a flush has written."""

from __future__ import annotations

from syncscope.cli.live import Live
from syncscope.recording.tables import (
    BlockingRow,
    FrameRow,
    Row,
    StackRow,
    StepMark,
    TransferRow,
)


def frame(number: int, file: str, line: int, text: str, owner: str = "user") -> FrameRow:
    return FrameRow(number, file, "main", line, line, 1, 1 + len(text), text, owner)


def wait(stack: int, source: str = "warning", kind: str = "sync") -> BlockingRow:
    return BlockingRow(0, 5, 5, stack, source, "", kind, False, "")


def copy(stack: int, *, non_blocking: bool = False) -> TransferRow:
    return TransferRow(0, 1, 5, stack, "Tensor.to", "h2d", 4, "pinned", non_blocking, 0, -1, "")


def shown(*flushes: dict[str, list[Row]]) -> list[str]:
    said: list[str] = []
    live = Live(said.append)
    for written in flushes:
        live.show(written)
    return said


FRAMES: dict[str, list[Row]] = {
    "frames": [
        frame(0, "torch/_tensor.py", 9, "inner()", "torch"),
        frame(1, "train.py", 4, "loss.item()"),
        frame(2, "train.py", 7, "x.to(\n  device)"),
    ],
    "stacks": [StackRow(0, (0, 1)), StackRow(1, (2,)), StackRow(2, (2,))],
}


def test_waits_are_counted_a_step_and_the_worst_line_comes_first() -> None:
    marks: list[Row] = [StepMark(i, 0, "api", "") for i in range(4)]
    marks += [StepMark(i, 0, "optimizer", "SGD") for i in range(8)]
    rows: list[Row] = [wait(0)] * 8
    (line,) = shown({**FRAMES, "steps": marks, "blocking": rows, "transfers": [copy(1)] * 4})
    assert line.startswith("4 steps, ")
    assert line.endswith("3 waits a step: train.py:4 loss.item() 2, train.py:7 x.to( device) 1")


def test_one_is_not_told_in_the_plural_and_many_not_as_a_power_of_ten() -> None:
    mark: dict[str, list[Row]] = {"steps": [StepMark(0, 0, "api", "")]}
    one, many = shown(
        {**FRAMES, **mark, "blocking": [wait(0)]}, {**mark, "blocking": [wait(0)] * 4321}
    )
    assert one.startswith("1 step, ")
    assert one.endswith("1 wait a step: train.py:4 loss.item() 1")
    assert many.endswith("4,321 waits a step: train.py:4 loss.item() 4,321")


def test_what_two_hooks_saw_counts_once_and_what_does_not_wait_never() -> None:
    blocking = [wait(1), wait(0, "scope"), wait(0, kind="race")]
    (line,) = shown(
        {**FRAMES, "blocking": blocking, "transfers": [copy(2), copy(0, non_blocking=True)]}
    )
    assert "loss.item()" not in line
    assert "waits a second: train.py:7" in line


def test_a_wait_whose_line_is_not_known_yet_is_told_with_the_next_flush() -> None:
    assert shown({"blocking": [wait(0)]}) == []
    (line,) = shown({"blocking": [wait(0)]}, FRAMES)
    assert "train.py:4 loss.item()" in line


def test_where_nothing_happened_nothing_is_said() -> None:
    assert shown({}, FRAMES, {}) == []
