"""A readback is noted by its wrapper, which needs no warning of torch's for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from syncscope import forbidding
from syncscope.capture.flights import Flights
from syncscope.capture.transfers import Transfers
from syncscope.context import CaptureContext
from syncscope.errors import ImplicitSyncError
from syncscope.recording.tables import TransferRow


class OnDevice:
    """Plays a tensor of one element on GPU 3."""

    is_cuda, nbytes = True, 4

    def get_device(self) -> int:
        return 3


class Muting:
    """What happened to torch's warnings and to the readback, in its order."""

    def __init__(self, context: CaptureContext, *, possible: bool) -> None:
        self.events: list[str] = []
        self.possible = possible
        context.mute, context.unmute = self.mute, lambda: self.events.append("unmute")

    def mute(self) -> bool:
        self.events.append("mute")
        return self.possible

    def read(self, tensor: OnDevice) -> float:
        self.events.append("read")
        return 1.5

    def fail(self, tensor: OnDevice) -> float:
        raise RuntimeError("device-side assert")


@pytest.fixture
def transfers(context: CaptureContext) -> Transfers:
    return Transfers(context, Flights(context))


def wrapper(transfers: Transfers, original: Any) -> Any:
    return transfers._readback("item", original)


@pytest.mark.parametrize("possible", [True, False])
def test_torch_warns_of_nothing_meanwhile_where_that_is_possible(
    transfers: Transfers, context: CaptureContext, possible: bool
) -> None:
    muting = Muting(context, possible=possible)
    assert wrapper(transfers, muting.read)(OnDevice()) == 1.5
    assert muting.events == ["mute", "read", *(["unmute"] if possible else [])]
    (row,) = context.writer.rows("transfers")
    assert isinstance(row, TransferRow)
    assert (row.op, row.direction, row.size_bytes, row.memory) == (
        "Tensor.item",
        "d2h",
        4,
        "pageable",
    )
    assert (row.device, row.non_blocking) == (3, False)
    assert 0 < row.start_ns <= row.end_ns
    assert context.waits == 1


def test_torch_warns_again_after_one_that_failed(
    transfers: Transfers, context: CaptureContext
) -> None:
    muting = Muting(context, possible=True)
    with pytest.raises(RuntimeError, match="assert"):
        wrapper(transfers, muting.fail)(OnDevice())
    assert muting.events == ["mute", "unmute"]
    assert context.writer.rows("transfers") == []


def test_a_tensor_of_the_host_is_read_without_ado(
    transfers: Transfers, context: CaptureContext
) -> None:
    muting = Muting(context, possible=True)
    assert wrapper(transfers, torch.Tensor.item)(torch.tensor(2)) == 2
    assert muting.events == []


@contextlib.contextmanager
def forbidden() -> Iterator[None]:
    before = forbidding.exchange(True)
    try:
        yield
    finally:
        forbidding.exchange(before)


def test_a_forbidden_one_is_told_of_at_its_line(
    transfers: Transfers, context: CaptureContext
) -> None:
    muting = Muting(context, possible=True)
    read = wrapper(transfers, muting.read)
    with forbidden(), pytest.raises(ImplicitSyncError, match=r"test_readbacks.py:\d+: read\("):
        read(OnDevice())
    assert muting.events[-1] == "unmute"
