"""Which marks make the steps, and which steps count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.analysis.pipeline import analyze
from syncscope.analysis.steps import warm_up_length

MS = 1_000_000


def step_ends(builder: Any) -> list[int]:
    return [int(time) for time in analyze(builder.build()).steps["end_ns"]]


def test_marks_of_the_api_come_before_those_of_an_optimizer(builder: Any) -> None:
    builder.window(0, 100)
    for time in (10, 20, 30):
        builder.mark(time, "optimizer", "Adam#1")
    builder.mark(25)
    builder.mark(50)
    assert step_ends(builder) == [25, 50]


def test_the_optimizer_that_steps_most_often_makes_the_steps(builder: Any) -> None:
    builder.window(0, 100)
    for time in (10, 20, 30):
        builder.mark(time, "optimizer", "Adam#1")
        builder.mark(time + 1, "optimizer", "SGD#2")
    builder.mark(40, "optimizer", "SGD#2")
    assert step_ends(builder) == [11, 21, 31, 40]


def test_of_optimizers_that_tie_the_first_counts(builder: Any) -> None:
    builder.window(0, 100)
    for time in (10, 20):
        builder.mark(time, "optimizer", "SGD#9")
        builder.mark(time + 1, "optimizer", "Adam#1")
    assert step_ends(builder) == [10, 20]


def test_only_marks_of_the_most_frequent_thread_count(builder: Any) -> None:
    builder.window(0, 100)
    for time in (30, 10, 20):
        builder.mark(time)
    builder.mark(15, thread=4)
    assert step_ends(builder) == [10, 20, 30]


def test_marks_at_the_same_moment_end_one_step(builder: Any) -> None:
    builder.window(0, 100)
    for time in (10, 10, 20):
        builder.mark(time, "profiler")
    assert step_ends(builder) == [10, 20]


def test_the_first_step_holds_the_start_up_and_is_no_measure(builder: Any) -> None:
    builder.window(0, 100 * MS)
    for time in (50, 60, 70, 80):
        builder.mark(time * MS)
    analysis = analyze(builder.build())
    assert analysis.steps["start_ns"].tolist() == [0, 50 * MS, 60 * MS, 70 * MS]
    assert (analysis.summary.run.steps, analysis.summary.run.step_ns) == (4, 10 * MS)


def test_a_step_over_the_edge_of_a_window_is_cut_and_no_measure(builder: Any) -> None:
    builder.window(0, 25)
    builder.window(50, 100)
    for time in (10, 20, 30, 60, 65):
        builder.mark(time)
    analysis = analyze(builder.build())
    assert analysis.steps["start_ns"].tolist() == [0, 10, 50, 60]
    assert analysis.steps["end_ns"].tolist() == [10, 20, 60, 65]
    assert analysis.summary.run.step_ns == 7


def test_a_mark_that_opens_a_window_ends_no_step_in_it(builder: Any) -> None:
    """As `--every` leaves them: each window has marks at its start and at its end."""
    builder.window(0, 20)
    builder.window(60, 80)
    builder.window(120, 140)
    for time in (10, 20, 60, 70, 80, 120, 130, 140):
        builder.mark(time)
    analysis = analyze(builder.build())
    assert analysis.steps["start_ns"].tolist() == [0, 10, 60, 70, 120, 130]
    assert analysis.steps["end_ns"].tolist() == [10, 20, 70, 80, 130, 140]
    assert [step.steady for step in analysis.summary.steps] == [False, True, True, True, True, True]
    assert (analysis.summary.run.steps, analysis.summary.run.step_ns) == (6, 10)


def test_a_run_without_marks_is_one_step(builder: Any) -> None:
    builder.window(10, 40)
    analysis = analyze(builder.build())
    assert analysis.steps.to_numpy().tolist() == [[0, 10, 40, 30]]
    assert (analysis.summary.run.steps, analysis.summary.run.step_ns) == (1, 30)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([10, 10, 10, 10, 10, 10], 0),
        ([90, 10, 10, 11, 10, 10], 1),
        ([90, 40, 10, 11, 10, 10, 9, 10], 2),
        ([13, 10, 10, 11, 10, 10], 1),
        ([11, 10, 10, 11, 10, 10], 0),
        # the launches of the first steps only fill the queue
        ([1, 2, 10, 10, 11, 10, 10, 9], 2),
        # one slow step later on is an outlier, not warm-up
        ([10, 10, 80, 10, 10, 10, 10, 10], 0),
        ([90, 10, 80, 10, 10, 10, 10, 10], 1),
        # noisy from the start
        ([14, 9, 15, 10, 8, 15, 11, 9], 0),
        # too few to tell
        ([90, 10, 10], 0),
        # never more than half
        ([90, 80, 70, 60, 10, 10], 3),
        ([], 0),
    ],
)
def test_warm_up_ends_with_the_first_usual_step(lengths: list[int], expected: int) -> None:
    assert warm_up_length(np.array(lengths, dtype=np.int64)) == expected


@given(st.lists(st.integers(0, 10**12), max_size=40), st.integers(1, 1000))
def test_warm_up_is_at_most_half_and_does_not_depend_on_the_unit(
    lengths: list[int], factor: int
) -> None:
    values = np.array(lengths, dtype=np.int64)
    found = warm_up_length(values)
    assert 0 <= found <= len(lengths) // 2
    assert found == warm_up_length(values * 1024)
    assert not warm_up_length(np.full(len(lengths), factor, dtype=np.int64))


def test_warm_up_does_not_count_in_any_figure(builder: Any) -> None:
    builder.window(0, 200 * MS)
    ends = (50, 90, 100, 110, 120, 130, 140)
    for time in ends:
        builder.mark(time * MS)
    readback = builder.line("loss.item()")
    for end in ends:  # each wait drains the queue for 1 ms
        builder.kernel((end - 9) * MS, (end - 8) * MS, (end - 6) * MS)
        builder.copy_call((end - 7) * MS, ((end - 6) * MS, (end - 5) * MS), (end - 4) * MS)
        builder.warning((end - 4) * MS + 1, readback)
    analysis = analyze(builder.build())
    summary = analysis.summary
    assert [step.steady for step in summary.steps] == [False, False, *[True] * 5]
    assert summary.run.step_ns == 10 * MS
    (gpu,) = summary.gpu
    assert gpu.steady_idle_fraction == pytest.approx(0.7)
    assert sum(gpu.steady_idle_by_cause_ns.values()) == 5 * 7 * MS
    assert all(step.idle_ns == 7 * MS for step in summary.steps[2:])
    assert all(step.blocked_ns == 3 * MS for step in summary.steps)
    assert all(step.d2h_bytes == 4 and not step.h2d_bytes for step in summary.steps)
    assert not any(step.outlier for step in summary.steps)


def run_ahead(builder: Any, *, busy: int, own: int, steps: int) -> None:
    """A host that launches a kernel of `busy` each `own`, and waits for nothing."""
    free = 0
    for number in range(steps):
        now = number * own
        start = max(free, now + 5)
        free = start + busy
        builder.kernel(now, start, free)
        builder.mark(now + own)
    builder.window(0, free)


def test_a_host_that_runs_ahead_does_not_make_steps_look_short(builder: Any) -> None:
    run_ahead(builder, busy=7 * MS, own=MS, steps=8)
    analysis = analyze(builder.build())
    assert analysis.summary.run.step_ns == 7 * MS
    assert [step.length_ns for step in analysis.summary.steps[1:]] == [7 * MS] * 7
    assert [step.end_ns - step.start_ns for step in analysis.summary.steps] == [MS] * 8


def test_a_gpu_that_keeps_up_leaves_the_length_of_steps_to_the_host(builder: Any) -> None:
    run_ahead(builder, busy=MS // 2, own=MS, steps=8)
    assert analyze(builder.build()).summary.run.step_ns == MS
