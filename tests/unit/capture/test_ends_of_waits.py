"""Every hook that sees the host wait tells when the wait is over."""

from __future__ import annotations

import types

import pytest
import torch

from syncscope.capture.explicit_waits import ExplicitWaits
from syncscope.capture.flights import Flights
from syncscope.capture.readbacks import Readbacks
from syncscope.capture.sync_warnings import SyncWarnings
from syncscope.context import CaptureContext


@pytest.fixture
def heard(context: CaptureContext) -> list[int]:
    """The times that were told."""
    times: list[int] = []
    context.after_wait = times.append
    return times


def test_a_warning_tells(context: CaptureContext, heard: list[int]) -> None:
    SyncWarnings(context).tell(0)
    assert len(heard) == 1


def test_a_readback_tells(context: CaptureContext, heard: list[int]) -> None:
    read = Readbacks(context, Flights(context))._readback("Tensor.item", lambda tensor: 1.0)
    read(types.SimpleNamespace(is_cuda=True, nbytes=4, get_device=lambda: 0))
    assert len(heard) == 1


def test_a_wait_that_was_asked_for_tells_and_a_backward_pass_does_not(
    context: CaptureContext, heard: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: None, raising=False)
    waits = ExplicitWaits(context)
    waits.start()
    try:
        torch.ones(2, requires_grad=True).sum().backward()
        assert heard == []
        torch._C._cuda_synchronize()
        assert len(heard) == 1
    finally:
        waits.stop()


def test_nobody_need_listen(context: CaptureContext) -> None:
    context.waited(5)
    assert context.after_wait is None
