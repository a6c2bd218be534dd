"""The cause of a gap, and whom it is charged to."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from syncscope.analysis.idle import _Lane
from syncscope.analysis.intervals import union
from syncscope.analysis.pipeline import analyze
from syncscope.records import CAUSES_OF_IDLE

US = 1_000
MAIN, AUTOGRAD, PYTHON = 0, 1, 5


def causes(builder: Any) -> list[tuple[int, int, str]]:
    """(start us, end us, cause) of each gap longer than 20 us."""
    gaps = analyze(builder.build()).gaps
    return [
        (start // US, end // US, cause)
        for _, start, end, cause, _ in gaps.itertuples(index=False)
        if end - start > 20 * US
    ]


def between_kernels(builder: Any, launch: int = 900, thread: int = MAIN) -> None:
    """A device that is idle from 200 to 1000 us; the second kernel is launched at `launch`."""
    builder.window(0, 1100 * US)
    builder.kernel(10 * US, 15 * US, 200 * US)
    builder.kernel(launch * US, 1000 * US, 1100 * US, thread=thread)


def after_a_long_kernel(builder: Any, thread: int = MAIN) -> None:
    """Idle from 2000 to 2800 us, after a kernel that a `.item()` waits 1950 us for."""
    builder.window(0, 3000 * US)
    builder.kernel(10 * US, 15 * US, 2000 * US)
    builder.copy_call(60 * US, (1999 * US, 2000 * US), 2010 * US)
    builder.warning(2015 * US, builder.line("loss.item()"))
    builder.kernel(2790 * US, 2800 * US, 3000 * US, thread=thread)


def test_a_wait_that_drained_the_queue_owns_the_time_to_refill_it(builder: Any) -> None:
    after_a_long_kernel(builder)
    analysis = analyze(builder.build())
    gap = analysis.gaps.iloc[-1]
    assert (gap["cause"], gap["site_id"]) == ("sync", analysis.summary.sites[0].id)
    assert analysis.summary.sites[0].exposed_idle_ns == 800 * US


def test_a_wait_owns_no_more_than_it_kept_the_host(builder: Any) -> None:
    between_kernels(builder)
    builder.copy_call(150 * US, (199 * US, 200 * US), 210 * US)
    builder.warning(215 * US, builder.line("loss.item()"))
    analysis = analyze(builder.build())
    assert analysis.gaps["cause"].tolist()[-1] == "launch"
    assert analysis.summary.sites[0].exposed_idle_ns == 0


def test_a_data_loader_that_takes_longer_than_the_wait_is_the_cause(builder: Any) -> None:
    after_a_long_kernel(builder)
    builder.host(2030 * US, 2650 * US, "dataloader")
    assert causes(builder) == [(2000, 2800, "dataloader")]


def test_a_collection_on_any_thread_holds_the_launching_thread_up(builder: Any) -> None:
    between_kernels(builder)
    builder.host(250 * US, 880 * US, "gc", thread=PYTHON)
    assert causes(builder) == [(200, 1000, "gc")]


def test_a_data_loader_on_another_thread_is_not_the_cause(builder: Any) -> None:
    between_kernels(builder)
    builder.host(250 * US, 880 * US, "dataloader", thread=PYTHON)
    assert causes(builder) == [(200, 1000, "launch")]


def test_an_allocator_call_is_the_cause_when_it_fills_the_gap(builder: Any) -> None:
    between_kernels(builder)
    builder.runtime("cudaMalloc", "malloc", 220 * US, 800 * US)
    assert causes(builder) == [(200, 1000, "allocator")]


def test_a_host_that_just_works_is_launching(builder: Any) -> None:
    between_kernels(builder)
    assert causes(builder) == [(200, 1000, "launch")]


def test_a_kernel_launched_long_before_the_gap_waited_for_something_on_the_device(
    builder: Any,
) -> None:
    between_kernels(builder, launch=100)
    assert causes(builder) == [(200, 1000, "device_dependency")]


def test_a_launch_shortly_before_the_gap_was_late_all_the_same(builder: Any) -> None:
    builder.window(0, 300 * US)
    for start in range(0, 300, 10):  # a launch every 10 us for kernels of 3 us
        builder.kernel(start * US, (start + 7) * US, (start + 10) * US - 1)
    analysis = analyze(builder.build())
    assert set(analysis.gaps["cause"]) == {"launch"}


def test_a_gap_without_a_launch_is_unknown_unless_the_host_explains_it(builder: Any) -> None:
    builder.window(0, 3000 * US)
    builder.kernel(10 * US, 15 * US, 200 * US)
    builder.kernel(0, 1000 * US, 1100 * US, launched=False)
    builder.kernel(0, 2000 * US, 3000 * US, launched=False)
    builder.host(1150 * US, 1950 * US, "dataloader")
    assert causes(builder) == [(200, 1000, "unknown"), (1100, 2000, "dataloader")]


def test_the_time_after_the_last_activity_has_the_cause_of_what_the_host_did(
    builder: Any,
) -> None:
    builder.window(0, 2000 * US)
    builder.kernel(10 * US, 15 * US, 200 * US)
    builder.host(300 * US, 1900 * US, "dataloader")
    assert causes(builder) == [(200, 2000, "dataloader")]


def test_a_wait_on_the_main_thread_explains_a_launch_by_autograd(builder: Any) -> None:
    after_a_long_kernel(builder, thread=AUTOGRAD)
    assert causes(builder) == [(2000, 2800, "sync")]


def test_a_wait_on_an_unrelated_thread_explains_nothing(builder: Any) -> None:
    between_kernels(builder)
    builder.sync(50 * US, 890 * US, thread=PYTHON)
    assert causes(builder) == [(200, 1000, "launch")]


def test_an_upload_keeps_the_device_waiting_while_the_driver_stages_it(builder: Any) -> None:
    builder.window(0, 1100 * US)
    builder.kernel(10 * US, 15 * US, 200 * US)
    stack = builder.line("x.to(device)")
    builder.transfer(190 * US, 1050 * US, stack)
    builder.copy_call(210 * US, (1000 * US, 1040 * US), 1045 * US, direction="h2d", size=1024)
    analysis = analyze(builder.build())
    assert analysis.gaps["cause"].tolist()[1] == "transfer"
    assert analysis.summary.sites[0].exposed_idle_ns == 800 * US


def test_devices_have_gaps_of_their_own(builder: Any) -> None:
    builder.window(0, 1000 * US)
    builder.kernel(10 * US, 15 * US, 900 * US)
    builder.kernel(20 * US, 30 * US, 100 * US, device=1)
    first, second = analyze(builder.build()).summary.gpu
    assert (first.device, first.busy_ns, second.device, second.busy_ns) == (0, 885 * US, 1, 70 * US)
    assert second.idle_ns == 930 * US


def test_of_two_kernels_that_end_a_gap_the_one_whose_launch_is_known_tells_why(
    builder: Any,
) -> None:
    between_kernels(builder)
    builder.kernel(0, 1000 * US, 1100 * US, launched=False)
    builder.rows["activity"].reverse()
    assert causes(builder) == [(200, 1000, "launch")]


gap_bounds = st.lists(st.tuples(st.integers(0, 60), st.integers(-20, 20)), max_size=12)


@given(gap_bounds, st.lists(st.tuples(st.integers(0, 60), st.integers(1, 9)), max_size=5))
def test_gaps_that_a_segment_touches_are_found_however_they_lie(
    gaps: list[tuple[int, int]], segments: list[tuple[int, int]]
) -> None:
    low, high = np.array([(at, at + length) for at, length in gaps], np.int64).reshape(-1, 2).T * US
    starts, ends = union(
        *(np.array([(at, at + n) for at, n in segments], np.int64).reshape(-1, 2).T * US)
    )
    none = np.full(len(starts), -1)
    first, last = (lane := _Lane(starts, ends, none, none, none)).near(low, high)
    assert lane.touched(low, high).tolist() == np.flatnonzero(first < last).tolist()


moment = st.integers(0, 400)


@st.composite
def scene(draw: st.DrawFn) -> list[tuple[str, int, int, int]]:
    """Kernels, waits, pauses: (what, start us, length us, thread)."""
    what = st.sampled_from(["kernel", "lost", "wait", "dataloader", "gc", "malloc"])
    event = st.tuples(what, moment, st.integers(0, 60), st.sampled_from([MAIN, AUTOGRAD, PYTHON]))
    return draw(st.lists(event, max_size=14))


@given(scene(), st.lists(st.tuples(moment, st.integers(1, 200)), min_size=1, max_size=3))
@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_every_gap_has_one_cause_and_all_sums_are_exact(
    builders: Any, events: list[tuple[str, int, int, int]], windows: list[tuple[int, int]]
) -> None:
    builder = builders()
    for start, length in windows:
        builder.window(start * US, (start + length) * US)
    stack = builder.line("x.item()")
    for what, start, length, thread in events:
        low, high = start * US, (start + length) * US
        if what in ("kernel", "lost"):
            device = int(thread == PYTHON)
            builder.kernel(
                low - 5 * US, low, high, thread=thread, launched=what == "kernel", device=device
            )
        elif what == "wait":
            builder.sync(low, high, thread=thread)
            builder.warning(high + US, stack, thread)
        elif what == "malloc":
            builder.runtime("cudaMalloc", "malloc", low, high, thread)
        else:
            builder.host(low, high, what, thread)
    analysis = analyze(builder.build())
    assert set(analysis.gaps["cause"]) <= set(CAUSES_OF_IDLE)
    for gpu in analysis.summary.gpu:
        assert gpu.busy_ns + gpu.idle_ns == analysis.summary.run.window_ns
        assert sum(gpu.idle_by_cause_ns.values()) == gpu.idle_ns
        own = analysis.activity[analysis.activity["device"] == gpu.device]
        busy = np.zeros(700 * US, dtype=np.bool_)
        for start, end in zip(own["start_ns"], own["end_ns"], strict=True):
            busy[start:end] = True
        assert gpu.busy_ns == int(busy.sum())
    charged = analysis.gaps[analysis.gaps["site_id"] != ""]
    assert set(charged["cause"]) <= {"sync", "transfer", "allocator"}
    coverage = analysis.summary.coverage
    assert coverage.blocking_calls == coverage.attributed + coverage.unattributed
