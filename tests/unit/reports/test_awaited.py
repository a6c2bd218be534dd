"""What a wait waited for."""

from __future__ import annotations

from syncscope.reports.awaited import awaited


def found(analyses, call, *activity):
    """`call` is (start, end, direction, blocking); activities (start, end, direction)."""
    start, end, direction, blocking = call
    analysis = analyses.make_analysis(
        calls=[(0, start, end, "s1", "call", "sync", direction, -1, blocking, False)],
        activity=[
            (0, 7, a, b, "memcpy" if way else "kernel", "x", way, "", -1, 1)
            for a, b, way in activity
        ],
    )
    [row] = awaited(analysis.calls, analysis.activity).tolist()
    return row


def test_a_wait_is_for_what_ended_last_before_it_was_over(analyses):
    assert found(analyses, (10, 30, "", True), (0, 12, ""), (12, 29, ""), (29, 40, "")) == 1
    assert found(analyses, (10, 30, "", True), (0, 30, ""), (5, 20, "")) == 0


def test_what_had_ended_before_the_wait_began_was_not_waited_for(analyses):
    assert found(analyses, (10, 30, "", True), (0, 10, "")) == -1
    assert found(analyses, (10, 30, "", True)) == -1


def test_a_transfer_waits_for_a_copy_of_its_direction_if_there_is_one(analyses):
    activity = ((0, 20, "d2h"), (0, 25, "h2d"), (0, 29, ""))
    assert found(analyses, (10, 30, "d2h", True), *activity) == 0
    assert found(analyses, (10, 30, "h2d", True), *activity) == 1
    assert found(analyses, (10, 30, "", True), *activity) == 2
    assert found(analyses, (10, 30, "d2h", True), (0, 29, "")) == 0


def test_a_call_that_does_not_block_waits_for_nothing(analyses):
    assert found(analyses, (10, 30, "h2d", False), (0, 20, "h2d")) == -1
