"""Which steps belong to the warm-up, to detail steps, to a calibration and to windows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncscope.calibration import Calibration
from syncscope.errors import UsageError
from syncscope.options import RecordOptions
from syncscope.schedule import CALIBRATION_BLOCK, CALIBRATION_STEPS, Schedule, StepCounter


def phases(count: int, **options: object) -> str:
    """One letter a step: w window, d detail, c calibration, else a dot."""
    schedule = Schedule(RecordOptions(**options))  # type: ignore[arg-type]
    letters = []
    for step in range(count):
        phase = schedule.at(step)
        window, detail = "w" if phase.window else "", "d" if phase.detail else ""
        letters.append("c" if phase.calibration else (window or detail or "."))
    return "".join(letters)


def test_without_options_everything_is_one_window() -> None:
    assert phases(5) == "wwwww"


def test_warmup_steps_and_every_make_windows() -> None:
    assert phases(12, warmup=1, steps=2) == ".ww........."
    assert phases(12, warmup=1, steps=2, every=5) == ".ww...ww...w"


def test_the_last_steps_of_the_warmup_are_detail_steps_but_never_the_first() -> None:
    assert phases(6, warmup=4) == "..ddww"
    assert phases(4, warmup=2) == ".dww"
    assert phases(3, warmup=1) == ".ww"
    assert phases(6, warmup=4, detail="lines") == "....ww"


def test_with_ops_every_step_is_a_detail_step() -> None:
    schedule = Schedule(RecordOptions(detail="ops", warmup=1))
    assert all(schedule.at(step).detail for step in range(4))
    assert schedule.at(1).window


def test_a_calibration_comes_between_warmup_and_window() -> None:
    expected = ".d" + "c" * CALIBRATION_STEPS + "ww"
    assert phases(4 + CALIBRATION_STEPS, warmup=2, calibrate=True) == expected


@settings(deadline=None)  # the machine may be busy
@given(
    warmup=st.integers(0, 20),
    steps=st.integers(1, 10),
    gap=st.integers(1, 10),
    calibrate=st.booleans(),
)
def test_windows_have_the_length_and_the_distance_asked_for(
    warmup: int, steps: int, gap: int, calibrate: bool
) -> None:
    every = steps + gap
    letters = phases(
        300, warmup=warmup, steps=steps, every=every, calibrate=calibrate, detail="lines"
    )
    first = warmup + (CALIBRATION_STEPS if calibrate else 0)
    inside = {step for step, letter in enumerate(letters) if letter == "w"}
    assert inside == {s for s in range(first, 300) if (s - first) % every < steps}


@pytest.mark.parametrize(
    "wrong",
    [
        {"warmup": -1},
        {"steps": 0},
        {"every": 5},
        {"every": 5, "steps": 5},
        {"start_after_s": -1.0},
        {"start_after_s": float("nan")},
        {"detail": "all"},
        {"device": "tpu"},
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        RecordOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"steps": 0}, "steps is 1 or more, not 0"),
        ({"warmup": -1}, "warmup is 0 or more, not -1"),
        ({"shadow_gpus": 0}, "shadow_gpus is 1 or more, not 0"),
        ({"every": 1, "steps": 1}, "every is 2 or more, not 1"),
        ({"seconds": 0}, "seconds is a number above 0, or inf, not 0"),
        ({"steps": "a"}, "steps is a whole number, not 'a'"),
        ({"steps": 2.0}, "steps is a whole number, not 2.0"),
        ({"warmup": True}, "warmup is a whole number, not True"),
        ({"warmup": None}, "warmup is a whole number, not None"),
        ({"seconds": "a"}, "seconds is a number, not 'a'"),
        ({"start_after_s": "a"}, "start_after is a number, not 'a'"),
        ({"calibrate": "no"}, "calibrate is True or False, not 'no'"),
        ({"shadow_gpu": 3}, "shadow_gpu is a text, not 3"),
        ({"every": 10}, "--every 10 needs --steps, .*: --every 10 --steps 2, or record"),
        ({"every": 2, "steps": 2}, "less than --every, as in --every 2 --steps 1, or record"),
    ],
)
def test_a_wrong_value_is_named_with_what_is_right(wrong: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        RecordOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [3, np.int64(3)])
def test_numbers_of_numpy_are_numbers(number: int) -> None:
    RecordOptions(steps=number, every=2 * number, start_after_s=np.float32(0.5))
    RecordOptions(seconds=number)


def test_a_step_with_several_kinds_of_marks_counts_once() -> None:
    counter = StepCounter()
    marks = [("optimizer", "SGD#1"), ("api", "")] * 4
    assert sum(counter.counts(*mark) for mark in marks) == 4


def test_of_two_optimizers_the_one_that_steps_most_counts() -> None:
    counter = StepCounter()
    marks = [("optimizer", "D"), ("optimizer", "G"), ("optimizer", "G")] * 5
    assert sum(counter.counts(*mark) for mark in marks) == pytest.approx(10, abs=1)


def test_a_calibration_takes_ratios_against_the_bare_blocks_around() -> None:
    clock = {"bare": 10.0, "free": 11.0, "full": 15.0}
    calibration = Calibration()
    for block, kind in enumerate(("bare", "free", "bare", "full", "bare")):
        for _ in range(CALIBRATION_BLOCK):
            calibration._began = -clock[kind]
            calibration._blocks.setdefault(block, (kind, []))[1].append(clock[kind])
    ratios = calibration.ratios()
    assert ratios["ratio_free"] == pytest.approx(1.1)
    assert ratios["ratio_full"] == pytest.approx(1.5)
    assert ratios["ratio_recovered"] == pytest.approx(1.0)
    assert Calibration().ratios() == {}
