"""A window ends by itself after enough time and enough steps or waits, and not before."""

from __future__ import annotations

import math

import pytest

from syncscope.window_limit import WindowLimit

S = 10**9


def over_after(seconds_asked: float | None, *events: tuple[str, float]) -> list[bool]:
    """Whether the window is over after each event: what happens, and when, in seconds."""
    limit, found = WindowLimit(seconds_asked, 100 * S), []
    for what, seconds in events:
        tell = limit.step_ended if what == "step" else limit.waited
        tell(100 * S + int(seconds * S))
        found.append(limit.over)
    return found


def test_short_steps_end_it_after_ten_seconds() -> None:
    steps = [("step", second) for second in range(1, 12)]
    assert over_after(None, *steps) == [False] * 9 + [True] * 2


def test_long_steps_end_it_after_ten_of_them() -> None:
    steps = [("step", 30.0 * number) for number in range(1, 12)]
    assert over_after(None, *steps) == [False] * 9 + [True] * 2


def test_waits_end_it_only_where_steps_do_not_come() -> None:
    waits = [("wait", 61.0)] * 999
    assert not any(over_after(None, *waits))
    assert over_after(None, *waits, ("wait", 61.0))[-1]
    assert not over_after(None, *waits, ("step", 61.5), ("wait", 62.0))[-1]
    assert not any(over_after(None, *[("wait", 59.0)] * 2000))


@pytest.mark.parametrize("what", ["step", "wait"])
def test_seconds_that_were_asked_for_are_all_that_counts(what: str) -> None:
    events = [(what, 1.0), (what, 1.9), (what, 2.0)]
    assert over_after(2.0, *events) == [False, False, True]
    assert not any(over_after(math.inf, *events))


def test_a_step_is_waited_for_where_steps_come() -> None:
    events = [("step", 1.5), ("wait", 2.5), ("step", 2.6)]
    assert over_after(2.0, *events) == [False, False, True]
