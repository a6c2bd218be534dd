"""Steps that took long, and what they have that others do not."""

from __future__ import annotations

from typing import Any

import pytest

from syncscope.analysis.pipeline import analyze
from syncscope.records import StepRecord

MS = 1_000_000
LONG = 5
"""The step that takes 30 ms; all others take 10."""


def upload_for(builder: Any, start: int, length: int) -> None:
    """An upload at a line of its own; a byte takes a nanosecond."""
    line = builder.line("batch.to(device)", 3)
    ran = (start + 1, start + 1 + length)
    builder.copy_call(start, ran, ran[1] + 1, direction="h2d", size=length)
    builder.warning(ran[1] + 2, line)


def run_with(builder: Any, add: Any, upload: int = 0) -> tuple[StepRecord, ...]:
    """Eight steps with a kernel and a readback each; `add(start)` fills the long one.

    `upload`: how long each step but that one copies to the device, in ns.
    """
    builder.window(0, 100 * MS)
    readback = builder.line("loss.item()", 7)
    start = 0
    for step in range(8):
        end = start + (30 if step == LONG else 10) * MS
        if step == LONG:
            add(start)
        if upload and step != LONG:
            upload_for(builder, start, upload)
        builder.kernel(end - 9 * MS, end - 8 * MS, end - 6 * MS)
        builder.copy_call(end - 7 * MS, (end - 6 * MS, end - 5 * MS), end - 4 * MS)
        builder.warning(end - 4 * MS + 1, readback)
        builder.mark(end)
        start = end
    steps = analyze(builder.build()).summary.steps
    assert [bool(step.outlier) for step in steps] == [step == LONG for step in range(8)]
    assert steps[LONG].steady
    return steps


def test_a_collection_explains_a_long_step(builder: Any) -> None:
    steps = run_with(builder, lambda t: builder.host(t, t + 19 * MS, "gc"))
    assert steps[LONG].outlier == (
        "20.0 ms longer than usual: garbage collection took 19.0 ms more"
    )


def test_a_loader_that_is_late_explains_a_long_step(builder: Any) -> None:
    steps = run_with(builder, lambda t: builder.host(t, t + 18 * MS, "dataloader"))
    assert steps[LONG].outlier.endswith("the DataLoader took 18.0 ms more")


def test_more_work_on_the_gpu_comes_before_the_wait_for_it(builder: Any) -> None:
    def compute(t: int) -> None:
        builder.kernel(t, t + MS, t + 20 * MS)
        builder.copy_call(t + 2 * MS, (t + 20 * MS, t + 20 * MS + 1), t + 20 * MS + 2)
        builder.warning(t + 20 * MS + 3, 0)

    steps = run_with(builder, compute)
    assert steps[LONG].outlier.endswith("the GPU computed for 19.0 ms more")
    assert steps[LONG].blocked_ns > 18 * MS


def test_more_bytes_show_as_longer_copies(builder: Any) -> None:
    steps = run_with(builder, lambda t: upload_for(builder, t, 19 * MS), upload=MS // 2)
    assert steps[LONG].outlier == (
        "20.0 ms longer than usual: copies between host and GPU took 18.5 ms more"
    )
    assert [step.h2d_bytes for step in steps[LONG - 1 : LONG + 1]] == [MS // 2, 19 * MS]


def test_lines_that_only_an_evaluation_reaches_are_named(builder: Any) -> None:
    def evaluate(t: int) -> None:
        for number, expression in ((30, "scores.cpu()"), (31, "print(scores)")):
            line = builder.line(expression, number, function="evaluate")
            begin = t + (number - 30) * 10 * MS
            builder.sync(begin + 1, begin + 9 * MS + number)
            builder.warning(begin + 9 * MS + number + 1, line)

    steps = run_with(builder, evaluate)
    assert steps[LONG].outlier == (
        "20.0 ms longer than usual: `print(scores)` in train.py:31 and 1 more, "
        "which most steps do not reach, took 18.0 ms"
    )


def test_a_host_that_does_something_else_leaves_the_gpu_without_work(builder: Any) -> None:
    steps = run_with(builder, lambda t: builder.host(t, t + 2 * MS, "gc"))
    assert steps[LONG].outlier.endswith("the host left the GPU without work for 22.0 ms more")


def test_without_gpu_activity_a_pause_of_the_host_stays_unexplained(builder: Any) -> None:
    builder.window(0, 100 * MS)
    for time in (10, 20, 30, 40, 70, 80):
        builder.mark(time * MS)
    records = analyze(builder.build(collectors=())).summary.steps
    assert records[4].outlier == (
        "20.0 ms longer than usual: nothing that was recorded explains it"
    )


def test_waits_at_the_same_time_on_two_threads_count_once(builder: Any) -> None:
    builder.window(0, 20 * MS)
    for thread in (0, 4):
        builder.sync(2 * MS, 6 * MS, thread=thread)
    builder.mark(10 * MS)
    builder.mark(20 * MS)
    assert [s.blocked_ns for s in analyze(builder.build()).summary.steps] == [4 * MS, 0]


def test_a_wait_over_the_end_of_a_step_is_shared(builder: Any) -> None:
    builder.window(0, 20 * MS)
    builder.sync(8 * MS, 13 * MS)
    builder.mark(10 * MS)
    builder.mark(20 * MS)
    blocked = [step.blocked_ns for step in analyze(builder.build()).summary.steps]
    assert blocked == [2 * MS, 3 * MS]


def test_idle_time_is_the_mean_over_the_devices(builder: Any) -> None:
    builder.window(0, 10 * MS)
    builder.kernel(0, 2 * MS, 4 * MS, device=0)
    builder.kernel(0, 2 * MS, 8 * MS, device=1)
    builder.mark(10 * MS)
    (step,) = analyze(builder.build()).summary.steps
    assert step.idle_ns == (8 * MS + 4 * MS) // 2


@pytest.mark.parametrize("windows", [(), ((5, 5),)])
def test_an_empty_recording_has_no_odd_steps(builder: Any, windows: Any) -> None:
    for start, end in windows:
        builder.window(start, end)
    assert all(not step.outlier for step in analyze(builder.build()).summary.steps)
