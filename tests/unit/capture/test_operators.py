"""Detail steps: which operators are noted, where host tensors were made, the forward line.

The device that is not the host is played by torch's meta device.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from syncscope.capture import operators
from syncscope.capture.flights import Flights
from syncscope.capture.operators import DetailSteps
from syncscope.capture.sync_warnings import SyncWarnings
from syncscope.context import CaptureContext
from syncscope.recording.tables import BlockingRow, FrameRow, OpRow, StackRow


@pytest.fixture
def warned(context: CaptureContext) -> SyncWarnings:
    return SyncWarnings(context)


@pytest.fixture
def detail(context: CaptureContext, warned: SyncWarnings) -> Iterator[DetailSteps]:
    detail = DetailSteps(context, warned, Flights(context))
    assert detail.begin()
    yield detail
    detail.end()


def noted(context: CaptureContext) -> list[OpRow]:
    return [row for row in context.writer.rows("ops") if isinstance(row, OpRow)]


def expressions(context: CaptureContext) -> dict[int, str]:
    """Innermost expression of each stack; "" for one without frames."""
    rows = list(context.stacks.resolve())
    frames = {row.frame_id: row.expression for row in rows if isinstance(row, FrameRow)}
    stacks = [row for row in rows if isinstance(row, StackRow)]
    return {s.stack_id: frames[s.frame_ids[0]] if s.frame_ids else "" for s in stacks}


def test_a_copy_is_noted_with_its_tensors_and_where_the_host_tensor_was_made(
    detail: DetailSteps, context: CaptureContext
) -> None:
    host = torch.rand(4, 3)
    view = host.t()
    view.to("meta")
    (row,) = noted(context)
    assert (row.op, row.direction, row.blocking) == ("aten::_to_copy.default", "h2d", False)
    assert (row.shapes, row.dtypes, row.devices) == ("3x4", "float32", "cpu")
    found = expressions(context)
    assert found[row.stack_id] == 'view.to("meta")'
    assert found[row.origin_stack_id] == "torch.rand(4, 3)"


def test_arithmetic_is_not_noted_and_host_scalars_are_no_copies(
    detail: DetailSteps, context: CaptureContext
) -> None:
    (torch.ones(3) * 2).sum()
    torch.ones(3, device="meta") * torch.tensor(2.0)
    assert noted(context) == []


def test_an_operator_that_torch_warns_of_is_noted_as_blocking(
    detail: DetailSteps, context: CaptureContext, warned: SyncWarnings
) -> None:
    library = torch.library.Library("syncscope_test", "FRAGMENT")
    try:
        library.define("waits(Tensor x) -> Tensor")

        def waits(x: torch.Tensor) -> torch.Tensor:
            for listener in warned.listeners:
                listener()
            return x.clone()

        library.impl("waits", waits, "CPU")
        torch.ops.syncscope_test.waits(torch.ones(2))
    finally:
        library._destroy()
    (row,) = noted(context)
    assert (row.op, row.blocking, row.direction) == ("syncscope_test::waits.default", True, "")
    (wait,) = (row for row in context.writer.rows("blocking") if isinstance(row, BlockingRow))
    assert (wait.source, wait.stack_id) == ("warning", row.stack_id)


def test_a_warning_reaches_us_while_its_operator_runs_and_not_after_the_programs_call(
    detail: DetailSteps, warned: SyncWarnings, context: CaptureContext, monkeypatch: Any
) -> None:
    def shown(message: warnings.WarningMessage) -> None:
        assert "was resized" in str(message.message)
        assert warned.listeners[0]()

    monkeypatch.setattr(warnings, "_showwarnmsg", shown)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        torch.add(torch.ones(4), 1, out=torch.empty(3))  # torch warns from inside of it
    assert [(row.op, row.blocking) for row in noted(context)] == [("aten::add.out", True)]
    assert not warned.listeners[0]()


def test_what_autograds_own_threads_wait_for_is_left_to_the_backward_call(
    detail: DetailSteps, warned: SyncWarnings, context: CaptureContext, monkeypatch: Any
) -> None:
    monkeypatch.setattr(operators, "_program_frame", lambda: None)
    library = torch.library.Library("syncscope_test", "FRAGMENT")
    try:
        library.define("waits(Tensor x) -> Tensor")
        library.impl("waits", lambda x: x.clone() if warned.listeners[0]() else x, "CPU")
        torch.ops.syncscope_test.waits(torch.ones(2))
    finally:
        library._destroy()
    (row,) = noted(context)
    assert row.blocking
    assert expressions(context)[row.stack_id] == ""
    assert context.writer.rows("blocking") == []


def test_a_backward_operator_names_the_line_of_its_forward(
    detail: DetailSteps, context: CaptureContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "_direction", lambda *_: "h2d")  # so that all are noted
    weight = torch.ones(3, requires_grad=True)
    doubled = weight * 2
    loss = doubled.exp().sum()
    loss.backward()
    found = expressions(context)
    lines = {
        (row.op, found[row.forward_stack_id]) for row in noted(context) if row.forward_stack_id >= 0
    }
    assert ("aten::expand.default", "doubled.exp().sum()") in lines
    assert ("aten::mul.Tensor", "doubled.exp()") in lines
    assert ("aten::mul.Tensor", "weight * 2") in lines


def test_a_program_with_a_mode_of_its_own_gets_no_second_one(context: CaptureContext) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    detail = DetailSteps(context, SyncWarnings(context), Flights(context))
    with FlopCounterMode(display=False):
        assert not detail.begin()
    detail.end()


def test_the_mode_is_off_the_stack_also_below_one_of_the_program(context: CaptureContext) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    detail = DetailSteps(context, SyncWarnings(context), Flights(context))
    assert detail.begin()
    with FlopCounterMode(display=False):
        detail.end()
        assert torch._C._len_torch_dispatch_stack() == 1
    assert torch._C._len_torch_dispatch_stack() == 0


def test_stopped_from_another_thread_it_goes_quiet(context: CaptureContext) -> None:
    detail = DetailSteps(context, SyncWarnings(context), Flights(context))
    assert detail.begin()
    mode = detail._mode
    assert mode is not None
    thread = threading.Thread(target=detail.end)
    thread.start()
    thread.join()
    torch.ones(2).to("meta")
    assert noted(context) == []
    mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
