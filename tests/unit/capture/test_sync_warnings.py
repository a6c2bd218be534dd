"""The sync-warning hook sees every warning and the program sees none of it.

torch's C++ side is played by `warnings.warn` with torch's own message; what a real GPU does
is shown in tests/gpu.
"""

from __future__ import annotations

import _thread
import functools
import pickle
import threading
import time
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from syncscope.capture import sync_filter, transfers
from syncscope.capture.sync_warnings import SyncWarnings
from syncscope.context import CaptureContext
from syncscope.recording.tables import BlockingRow, Row

MESSAGE = "called a synchronizing CUDA operation (Triggered internally at Copy.cu:1.)"


class Mode:
    """Plays torch's sync debug mode."""

    def __init__(self) -> None:
        self.value = 0

    def set(self, value: int) -> None:
        self.value = value

    def get(self) -> int:
        return self.value


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> Mode:
    mode = Mode()
    monkeypatch.setattr(torch._C, "_cuda_set_sync_debug_mode", mode.set, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_get_sync_debug_mode", mode.get, raising=False)
    return mode


@pytest.fixture
def rows(mode: Mode, context: CaptureContext) -> Iterator[list[Row]]:
    collector = SyncWarnings(context)
    collector.start()
    yield context.writer.rows("blocking")
    collector.stop()


def synchronize() -> None:
    warnings.warn(MESSAGE, UserWarning, stacklevel=2)


def test_every_warning_is_recorded_also_of_the_same_line(rows: list[Row]) -> None:
    for _ in range(3):
        synchronize()
    assert len(rows) == 3
    assert all(isinstance(row, BlockingRow) and row.source == "warning" for row in rows)
    assert len({row.stack_id for row in rows if isinstance(row, BlockingRow)}) == 1


def test_a_warning_of_a_torch_for_amd_gpus_is_one_too(rows: list[Row]) -> None:
    warnings.warn(MESSAGE.replace("CUDA", "HIP"), UserWarning, stacklevel=1)
    assert len(rows) == 1


@pytest.mark.parametrize("action", ["error", "ignore", "default"])
def test_the_programs_filters_neither_hide_nor_raise_them(rows: list[Row], action: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter(action)  # type: ignore[arg-type]
        synchronize()
        warnings.resetwarnings()
        synchronize()
    synchronize()
    assert len(rows) == 3


def test_a_program_that_collects_warnings_does_not_get_ours(rows: list[Row]) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        synchronize()
        warnings.warn("its own", stacklevel=1)
    assert [str(entry.message) for entry in seen] == ["its own"]
    assert len(rows) == 1


def test_a_program_that_switched_warnings_on_gets_them(mode: Mode, rows: list[Row]) -> None:
    torch._C._cuda_set_sync_debug_mode(1)
    assert torch._C._cuda_get_sync_debug_mode() == 1
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        synchronize()
    assert [str(entry.message) for entry in seen] == [MESSAGE]
    assert len(rows) == 1


def test_the_programs_default_filter_shows_a_place_once_and_we_count_each(
    mode: Mode, rows: list[Row]
) -> None:
    torch._C._cuda_set_sync_debug_mode(1)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        for _ in range(3):
            synchronize()
    assert len(seen) == 1
    assert len(rows) == 3


def test_an_error_that_the_program_makes_of_its_warnings_reaches_it(
    mode: Mode, rows: list[Row]
) -> None:
    torch._C._cuda_set_sync_debug_mode(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="synchronizing"):
            synchronize()
    assert len(rows) == 1


def test_the_filters_can_be_sent_to_another_process(rows: list[Row]) -> None:
    (action, pattern, *_) = pickle.loads(pickle.dumps(list(warnings.filters)))[0]
    assert action == "ignore"
    assert pattern.match(MESSAGE)
    assert rows == []


def test_a_wait_right_under_a_wrapper_that_tells_of_it_has_no_row(
    mode: Mode, context: CaptureContext
) -> None:
    collector = SyncWarnings(context, synchronize.__code__)
    collector.start()
    warnings.warn(MESSAGE, UserWarning, stacklevel=1)
    synchronize()
    collector.stop()
    assert len(context.writer.rows("blocking")) == 1
    assert context.waits == 2


def test_error_mode_reaches_torch_and_default_keeps_us_watching(
    mode: Mode, rows: list[Row]
) -> None:
    assert mode.value == 1
    torch._C._cuda_set_sync_debug_mode(2)
    assert mode.value == 2
    torch._C._cuda_set_sync_debug_mode(0)
    assert mode.value == 1
    assert torch._C._cuda_get_sync_debug_mode() == 0


def test_stopping_leaves_the_filters_as_they_were(mode: Mode, context: CaptureContext) -> None:
    before = list(warnings.filters)
    collector = SyncWarnings(context)
    collector.start()
    assert list(warnings.filters) != before
    collector.stop()
    assert list(warnings.filters) == before


def test_stopping_gives_the_program_its_own_mode(mode: Mode, context: CaptureContext) -> None:
    mode.value = 2
    collector = SyncWarnings(context)
    collector.start()
    assert mode.value == 2
    torch._C._cuda_set_sync_debug_mode(0)
    collector.stop()
    assert mode.value == 0


def test_filters_that_the_program_puts_back_later_hold_nothing_of_us_that_acts(
    mode: Mode, context: CaptureContext
) -> None:
    collector = SyncWarnings(context)
    before = list(warnings.filters)
    collector.start()
    with warnings.catch_warnings():
        collector.stop()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        synchronize()
    assert len(seen) == 1
    assert context.writer.rows("blocking") == []
    warnings.filters[:] = before  # type: ignore[index]


def test_a_line_whose_warning_the_program_has_shown_before_is_heard_and_not_shown_again(
    mode: Mode, context: CaptureContext
) -> None:
    def line() -> None:
        warnings.warn(MESSAGE, UserWarning, stacklevel=1)

    mode.value = 1
    collector = SyncWarnings(context)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        line()
        collector.start()
        line()
        line()
        collector.stop()
        line()
    assert len(seen) == 1
    assert len(context.writer.rows("blocking")) == 2


def test_what_else_the_program_has_shown_once_is_not_shown_again(
    mode: Mode, context: CaptureContext
) -> None:
    def own() -> None:
        warnings.warn("its own", UserWarning, stacklevel=1)

    collector = SyncWarnings(context)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        own()
        collector.start()
        own()
        collector.stop()
        own()
    assert len(seen) == 1


def test_a_warning_that_came_through_a_wrapper_of_ours_is_shown_at_the_programs_line(
    mode: Mode, rows: list[Row]
) -> None:
    torch._C._cuda_set_sync_debug_mode(1)
    wrapper: dict[str, Any] = {"warn": functools.partial(warnings.warn, MESSAGE, UserWarning, 1)}
    exec(compile("def item(): warn()", transfers.__file__, "exec"), wrapper)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        wrapper["item"]()
    assert [entry.filename for entry in seen] == [__file__]


def test_one_of_a_thread_without_frames_is_shown_as_python_shows_it(
    mode: Mode, context: CaptureContext
) -> None:
    def shown() -> list[tuple[str, int]]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            _thread.start_new_thread(warnings.warn, (MESSAGE, UserWarning))
            deadline = time.monotonic() + 60
            while not seen and time.monotonic() < deadline:
                time.sleep(0.001)
        return [(entry.filename, entry.lineno) for entry in seen]

    mode.value = 1
    by_python = shown()
    collector = SyncWarnings(context)
    collector.start()
    with_us = shown()
    collector.stop()
    assert with_us == by_python
    assert context.waits == len(by_python) == 1


def test_blocks_of_many_threads_that_end_in_any_order_do_not_lose_us(rows: list[Row]) -> None:
    gate = threading.Barrier(4)

    def block(number: int) -> None:
        with warnings.catch_warnings():
            gate.wait()
            warnings.simplefilter("error")
            gate.wait()
            synchronize()
            time.sleep(0.01 * (number % 3))
        synchronize()

    threads = [threading.Thread(target=block, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rows) == 8


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The runner of the tests may have threads."""
    monkeypatch.setattr(sync_filter, "program_has_one", lambda: True)


def test_nothing_is_heard_between_mute_and_unmute(
    mode: Mode, alone: None, rows: list[Row], context: CaptureContext
) -> None:
    assert context.can_mute()
    context.mute()
    assert mode.value == 0
    assert torch._C._cuda_get_sync_debug_mode() == 0
    context.unmute()
    assert mode.value == 1


def test_other_threads_are_not_muted(mode: Mode, rows: list[Row], context: CaptureContext) -> None:
    done, muted = threading.Event(), list[bool]()
    thread = threading.Thread(target=lambda: (muted.append(context.can_mute()), done.wait()))
    thread.start()
    muted.append(context.can_mute())
    done.set()
    thread.join()
    assert muted == [False, False]
    assert mode.value == 1


@pytest.mark.parametrize("wanted", [1, 2])
def test_a_program_that_asked_for_warnings_or_errors_is_not_muted(
    mode: Mode, alone: None, rows: list[Row], context: CaptureContext, wanted: int
) -> None:
    torch._C._cuda_set_sync_debug_mode(wanted)
    assert not context.can_mute()
    assert mode.value == wanted


def test_a_program_that_wants_each_warning_again_is_not_told_of_the_mode(
    mode: Mode, alone: None, rows: list[Row], context: CaptureContext
) -> None:
    torch.set_warn_always(True)
    try:
        assert not context.can_mute()
    finally:
        torch.set_warn_always(False)
    assert context.can_mute()


def test_a_listener_hears_of_each_wait(mode: Mode, alone: None, context: CaptureContext) -> None:
    collector = SyncWarnings(context)
    collector.start()
    collector.listeners.append(lambda: True)
    assert not context.can_mute()
    collector.listeners.clear()
    assert context.can_mute()
    context.mute()
    collector.stop()
    context.unmute()
    assert mode.value == 0
    assert not context.can_mute()
