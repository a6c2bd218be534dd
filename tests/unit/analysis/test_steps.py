"""Which marks make the steps, and which steps count."""

from __future__ import annotations

from typing import Any

from syncscope.analysis.pipeline import analyze

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


def test_a_run_without_marks_is_one_step(builder: Any) -> None:
    builder.window(10, 40)
    analysis = analyze(builder.build())
    assert analysis.steps.to_numpy().tolist() == [[0, 10, 40]]
    assert (analysis.summary.run.steps, analysis.summary.run.step_ns) == (1, 30)
