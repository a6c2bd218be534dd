"""What counts as a change between two recordings, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.analysis.diff import CodeChange, Diff, diff_of
from syncscope.analysis.pipeline import analyze
from syncscope.analysis.result import Analysis
from syncscope.analysis.spread import change_of, spread_of
from syncscope.recording.manifest import Device
from syncscope.recording.reader import Recording

MS = 1_000_000
H200 = Path(__file__).resolve().parents[2] / "data" / "h200"


def run_of(
    builder: Any, lengths: list[int], waits: dict[str, int] | None = None, *, line: int = 10,
    file: str = "train.py", **changes: Any,
) -> Analysis:  # fmt: skip
    """Steps of these lengths (ms), with a kernel of 2 ms and for each expression a wait (ms)."""
    builder.window(0, sum(lengths) * MS)
    stacks = {
        text: builder.line(text, line + number, file=file)
        for number, text in enumerate(waits or {})
    }
    start = 0
    for length in lengths:
        builder.kernel(start, start + 1_000, start + 2 * MS)
        time = start + 3 * MS
        for text, wait in (waits or {}).items():
            builder.sync(time, time + wait * MS)
            builder.warning(time + wait * MS + 1, stacks[text])
            time += wait * MS + 1_000
        start += length * MS
        builder.mark(start)
    return analyze(builder.build(**changes))


@pytest.fixture
def compare(builders: Callable[[], Any]) -> Callable[..., Diff]:
    def run(old: dict[str, Any], new: dict[str, Any]) -> Diff:
        sides = ([run_of(builders(), **side)] for side in (old, new))
        return diff_of(*sides)

    return run


TEN = [10, 10, 11, 10, 10, 9, 10, 10]


def code(diff: Diff) -> dict[str, CodeChange]:
    return {change.expression: change for change in diff.code}


def test_a_run_against_itself_has_not_changed(compare: Callable[..., Diff]) -> None:
    side = {"lengths": TEN, "waits": {"loss.item()": 3}}
    diff = compare(side, side)
    assert (diff.step.outcome, diff.blocked.outcome) == ("noise", "noise")
    assert diff.idle is not None
    assert diff.idle.outcome == "noise"
    assert [change.status for change in diff.code] == ["same"]
    assert not diff.worse


def test_longer_steps_are_worse_and_shorter_ones_better(compare: Callable[..., Diff]) -> None:
    slow = [2 * length for length in TEN]
    diff = compare({"lengths": TEN}, {"lengths": slow})
    assert (diff.step.outcome, diff.worse) == ("worse", True)
    assert (diff.step.old.median, diff.step.new.median) == (10 * MS, 20 * MS)
    back = compare({"lengths": slow}, {"lengths": TEN})
    assert (back.step.outcome, back.worse) == ("better", False)


def test_what_the_host_drifts_by_between_runs_is_noise(compare: Callable[..., Diff]) -> None:
    # The GPU is idle for 98 of 100 ms or more: a fifth of that, and 2 %, is noise.
    outcomes = [
        compare({"lengths": [100] * 8}, {"lengths": [length] * 8}).step.outcome
        for length in (85, 115, 130)
    ]
    assert outcomes == ["noise", "noise", "worse"]


@pytest.fixture
def busy(builders: Callable[[], Any]) -> Callable[..., list[Analysis]]:
    """Makes runs of 8 steps of a length in ms in which the GPU is never idle."""

    def analyses(length: int, **changes: Any) -> list[Analysis]:
        builder = builders()
        builder.window(0, 8 * length * MS)
        for step in range(8):
            begin = step * length * MS
            builder.kernel(begin, begin + 1_000, begin + length * MS)
            builder.mark(begin + length * MS)
        return [analyze(builder.build(**changes))]

    return analyses


def test_steps_of_a_busy_gpu_and_of_a_shadow_gpu_do_not_drift(
    busy: Callable[..., list[Analysis]],
) -> None:
    assert diff_of(busy(100), busy(105)).step.outcome == "worse"
    assert diff_of(busy(100), busy(101)).step.outcome == "noise"
    simulated = {"simulated": True}
    assert diff_of(busy(100, **simulated), busy(102, **simulated)).step.outcome == "worse"


def test_longer_estimates_count_only_beyond_what_estimates_are_good_for(
    busy: Callable[..., list[Analysis]],
) -> None:
    before = busy(100, simulated=True)
    found = [diff_of(before, busy(length, simulated=True)) for length in (124, 126)]
    assert [diff.step.outcome for diff in found] == ["worse", "worse"]
    assert [diff.worse for diff in found] == [False, True]
    assert [diff.notes for diff in found] == [("estimates",)] * 2


def test_steps_that_scatter_as_much_as_they_changed_are_noise(
    compare: Callable[..., Diff],
) -> None:
    diff = compare(
        {"lengths": [10, 14, 9, 13, 10, 15, 9, 12]}, {"lengths": [12, 16, 10, 15, 13, 17, 11, 14]}
    )
    assert diff.step.outcome == "noise"


def test_three_steps_say_nothing(compare: Callable[..., Diff]) -> None:
    diff = compare({"lengths": [10, 10, 10, 10]}, {"lengths": [90, 90, 90, 90]})
    assert diff.step.outcome == "unknown"
    assert not diff.worse


def test_lines_may_move_and_be_formatted(compare: Callable[..., Diff]) -> None:
    diff = compare(
        {"lengths": TEN, "waits": {"f(loss.item())": 3}},
        {"lengths": TEN, "waits": {"f( loss.item() )": 3}, "line": 400},
    )
    assert [change.status for change in diff.code] == ["same"]
    assert diff.code[0].old is not None
    assert diff.code[0].new is not None
    assert (diff.code[0].old.line, diff.code[0].new.line) == (10, 400)


def test_lines_come_and_go(compare: Callable[..., Diff]) -> None:
    diff = compare(
        {"lengths": TEN, "waits": {"a.item()": 3}}, {"lengths": TEN, "waits": {"b.item()": 3}}
    )
    assert {e: c.status for e, c in code(diff).items()} == {"a.item()": "gone", "b.item()": "new"}
    assert code(diff)["b.item()"].worse
    assert diff.worse


def test_a_line_that_is_reached_more_often_has_grown(
    compare: Callable[..., Diff], builders: Callable[[], Any]
) -> None:
    def twice(times: int) -> Analysis:
        builder = builders()
        builder.window(0, 80 * MS)
        stack = builder.line("loss.item()", 3)
        for step in range(8):
            builder.kernel(step * 10 * MS, step * 10 * MS + 1_000, step * 10 * MS + 2 * MS)
            for time in range(times):
                at = step * 10 * MS + (3 + time) * MS
                builder.sync(at, at + 1_000)
                builder.warning(at + 1_001, stack)
            builder.mark((step + 1) * 10 * MS)
        return analyze(builder.build())

    (change,) = diff_of([twice(1)], [twice(3)]).code
    assert change.status == "grown"
    assert change.new is not None
    assert change.new.count == 3
    (change,) = diff_of([twice(3)], [twice(1)]).code
    assert (change.status, change.worse) == ("shrunk", False)


def test_the_same_code_in_two_places_is_one_entry(compare: Callable[..., Diff]) -> None:
    diff = compare(
        {"lengths": TEN, "waits": {"x.item()": 1, "x .item()": 1}},
        {"lengths": TEN, "waits": {"x.item()": 1}},
    )
    (change,) = diff.code
    assert change.old is not None
    assert change.new is not None
    assert (change.old.places, change.new.places) == (2, 1)
    assert (change.old.count, change.new.count, change.status) == (2, 1, "shrunk")


@pytest.mark.parametrize(
    ("old", "new", "note"),
    [
        ({"simulated": True}, {}, "simulated_and_real"),
        ({"devices": (Device(0, "A100"),)}, {}, "devices"),
        ({"versions": {"torch": "2.6.0"}}, {}, "torch"),
        ({"state": "recording"}, {}, "truncated"),
        ({}, {}, "two_runs"),
    ],
)
def test_what_makes_runs_differ_is_said(
    compare: Callable[..., Diff], old: dict[str, Any], new: dict[str, Any], note: str
) -> None:
    diff = compare({"lengths": TEN, **old}, {"lengths": [2 * each for each in TEN], **new})
    assert note in diff.notes
    assert diff.step.outcome == ("unknown" if note == "simulated_and_real" else "worse")


def test_other_numbers_of_steps_are_said_and_do_not_matter(compare: Callable[..., Diff]) -> None:
    diff = compare(
        {"lengths": TEN, "waits": {"a.item()": 3}}, {"lengths": 5 * TEN, "waits": {"a.item()": 3}}
    )
    assert "steps" in diff.notes
    assert (diff.step.outcome, diff.code[0].status) == ("noise", "same")


def test_more_idle_time_in_steps_of_the_same_length_is_not_worse(
    builders: Callable[[], Any],
) -> None:
    def computing(length: int) -> list[Analysis]:
        builder = builders()
        builder.window(0, 80 * MS)
        for step in range(8):
            builder.kernel(step * 10 * MS, step * 10 * MS + 1, (step * 10 + length) * MS)
            builder.mark((step + 1) * 10 * MS)
        return [analyze(builder.build())]

    diff = diff_of(computing(9), computing(3))
    assert diff.idle is not None
    assert (diff.step.outcome, diff.idle.outcome, diff.worse) == ("noise", "worse", False)


def test_runs_without_activity_have_no_idle_time(builders: Callable[[], Any]) -> None:
    def silent() -> Analysis:
        builder = builders()
        builder.window(0, 60 * MS)
        for step in range(6):
            builder.mark((step + 1) * 10 * MS)
        return analyze(builder.build(collectors=()))

    diff = diff_of([silent()], [silent()])
    assert diff.idle is None
    assert "no_activity" in diff.notes
    assert not diff.worse


def test_ranks_count_alike(builders: Callable[[], Any]) -> None:
    waits = {"a.item()": 3}
    job = [run_of(builders(), TEN, waits), run_of(builders(), TEN, {})]
    (change,) = diff_of(job, [run_of(builders(), TEN, waits)]).code
    assert change.old is not None
    assert change.new is not None
    assert (change.old.count, change.new.count) == (0.5, 1)
    assert change.new.savings_ns == 2 * change.old.savings_ns


@pytest.mark.parametrize("name", ["train_gpt", "upload_bound", "classify_digits"])
def test_an_example_and_its_repaired_twin(name: str) -> None:
    old, new = (analyze(Recording(H200 / each)) for each in (name, f"{name}_fixed"))
    diff = diff_of([old], [new])
    flagged = {site.id for site in old.summary.sites if site.flagged}
    gone = [change for change in diff.code if change.flagged]
    assert {change.status for change in gone} <= {"gone", "shrunk"}
    assert sum(change.old.places for change in gone if change.old) == len(flagged)
    assert not any(change.worse for change in diff.code)
    # Launch-bound: the GPU is idle for 94 % of these steps, and the runs were minutes apart.
    expected = "noise" if name == "classify_digits" else "better"
    assert diff.step.outcome == expected
    assert diff_of([old], [old]).step.outcome == "noise"
    assert diff == diff_of([old], [new])


spreads = st.lists(st.integers(1, 10**9), min_size=1, max_size=30).map(
    lambda values: spread_of(np.array(values, dtype=np.int64))
)


@given(spreads, spreads, st.floats(0, 1e9))
def test_a_change_is_the_opposite_of_the_way_back(old: Any, new: Any, floor: float) -> None:
    there, back = change_of(old, new, floor).outcome, change_of(new, old, floor).outcome
    opposite = {"better": "worse", "worse": "better"}
    assert back == opposite.get(there, there)
    assert change_of(old, old, floor).outcome in ("noise", "unknown")
