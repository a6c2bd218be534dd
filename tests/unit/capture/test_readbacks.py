"""A readback is noted by its wrapper, which needs no warning of torch's for it."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import pytest
import torch

from syncscope import forbidding
from syncscope.capture.flights import Flights
from syncscope.capture.readbacks import Readbacks
from syncscope.context import CaptureContext
from syncscope.errors import ImplicitSyncError
from syncscope.recording.tables import FrameRow, StackRow, TransferRow


class OnDevice:
    """Plays a tensor of one element on GPU 3."""

    is_cuda, nbytes = True, 4

    def get_device(self) -> int:
        return 3


class Muting:
    """What happened to torch's warnings and to the readback, in its order."""

    def __init__(self, context: CaptureContext, *, possible: bool) -> None:
        self.events: list[str] = []
        context.can_mute = lambda: possible
        context.mute = lambda: self.events.append("mute")
        context.unmute = lambda: self.events.append("unmute")

    def read(self, tensor: OnDevice) -> float:
        self.events.append("read")
        return 1.5

    def fail(self, tensor: OnDevice) -> float:
        raise RuntimeError("device-side assert")


@pytest.fixture
def readbacks(context: CaptureContext) -> Readbacks:
    return Readbacks(context, Flights(context))


def wrapper(readbacks: Readbacks, original: Any) -> Any:
    return readbacks._readback("Tensor.item", original)


@pytest.mark.parametrize("possible", [True, False])
def test_torch_warns_of_nothing_meanwhile_where_that_is_possible(
    readbacks: Readbacks, context: CaptureContext, possible: bool
) -> None:
    muting = Muting(context, possible=possible)
    assert wrapper(readbacks, muting.read)(OnDevice()) == 1.5
    assert muting.events == (["mute", "read", "unmute"] if possible else ["read"])
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
    readbacks: Readbacks, context: CaptureContext
) -> None:
    muting = Muting(context, possible=True)
    with pytest.raises(RuntimeError, match="assert"):
        wrapper(readbacks, muting.fail)(OnDevice())
    assert muting.events == ["mute", "unmute"]
    assert context.writer.rows("transfers") == []


def test_a_tensor_of_the_host_is_read_without_ado(
    readbacks: Readbacks, context: CaptureContext
) -> None:
    muting = Muting(context, possible=True)
    assert wrapper(readbacks, torch.Tensor.item)(torch.tensor(2)) == 2
    assert muting.events == []


@contextlib.contextmanager
def forbidden() -> Iterator[None]:
    before = forbidding.exchange(True)
    try:
        yield
    finally:
        forbidding.exchange(before)


def test_a_forbidden_one_is_told_of_at_its_line(
    readbacks: Readbacks, context: CaptureContext
) -> None:
    muting = Muting(context, possible=True)
    read = wrapper(readbacks, muting.read)
    with forbidden(), pytest.raises(ImplicitSyncError, match=r"test_readbacks.py:\d+: read\("):
        read(OnDevice())
    assert muting.events[-1] == "unmute"


def lines_of(context: CaptureContext) -> list[list[str]]:
    """The functions on the stack of each row, innermost first."""
    resolved = list(context.stacks.resolve())
    names = {row.frame_id: row.function for row in resolved if isinstance(row, FrameRow)}
    stacks = {row.stack_id: row for row in resolved if isinstance(row, StackRow)}
    rows = context.writer.rows("transfers")
    return [[names[i] for i in stacks[row.stack_id].frame_ids] for row in rows]


def test_each_readback_of_a_print_has_its_whole_stack(
    readbacks: Readbacks, context: CaptureContext
) -> None:
    read = wrapper(readbacks, lambda tensor: 1.0)

    def element() -> None:
        read(OnDevice())

    def first() -> None:
        element()
        element()
        element()

    def second() -> None:
        element()

    def formatting() -> None:
        first()
        second()
        first()

    prints = readbacks._print(formatting)
    prints()
    prints()
    functions = [[name.rpartition(".")[2] for name in names[:3]] for names in lines_of(context)]
    expected = [["element", caller, "formatting"] for caller in ("first", "second", "first")]
    once = [expected[0]] * 3 + [expected[1]] + [expected[2]] * 3
    assert functions == once * 2
    ids = [row.stack_id for row in context.writer.rows("transfers")]
    assert len(set(ids)) == len(set(ids[:7])) * 2 == 14, "two lines print"
    assert ids[:3] != ids[4:7], "two lines of formatting call it"


@pytest.fixture
def on_device(readbacks: Readbacks, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tensors of the host pass for tensors of the device; their readbacks are noted."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", True, raising=False)
    readbacks.start()
    yield
    readbacks.stop()


NUMBERS = torch.arange(0.5, 40)
PRINTED = repr(NUMBERS)


@pytest.mark.usefixtures("on_device")
def test_a_print_of_torch_is_seen_as_one(
    context: CaptureContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_looks: list[int] = []
    id_of = context.stacks.id_of

    def counted(frame: FrameType) -> int:
        whole_looks.append(id_of(frame))
        return whole_looks[-1]

    monkeypatch.setattr(context.stacks, "id_of", counted)
    assert repr(NUMBERS) == PRINTED
    rows = len(context.writer.rows("transfers"))
    assert rows > len(NUMBERS), "each is read to measure it"
    assert len(whole_looks) < 5
    for functions in lines_of(context):
        assert "test_a_print_of_torch_is_seen_as_one" in functions


@pytest.mark.usefixtures("on_device")
@pytest.mark.parametrize("possible", [True, False])
def test_what_torch_asks_for_each_number_of_a_print_is_noted_where_it_will_not_warn(
    context: CaptureContext, possible: bool
) -> None:
    """Where torch does warn, that is heard and would be noted twice."""
    muting = Muting(context, possible=possible)
    assert repr(NUMBERS) == PRINTED
    rows = context.writer.rows("transfers")
    asked = [row for row in rows if isinstance(row, TransferRow) and row.op == "Tensor.__bool__"]
    assert len(asked) == (len(NUMBERS) if possible else 0)
    assert [row.size_bytes for row in asked] == [1] * len(asked), "a truth value"
    assert muting.events == ["mute", "unmute"] * (len(rows) if possible else 0)


@pytest.mark.usefixtures("on_device", "uncollected")
def test_a_print_leaves_the_dispatcher_of_torch_as_it_was(context: CaptureContext) -> None:
    """While it prints, a variable of torch's keeps off the transforms of torch.func."""
    Muting(context, possible=True)
    front = torch._C.DispatchKey.FuncTorchDynamicLayerFrontMode
    assert repr(NUMBERS) == PRINTED
    assert context.writer.rows("transfers") != []
    assert not torch._C._dispatch_tls_is_dispatch_key_excluded(front)


@pytest.mark.usefixtures("on_device")
def test_only_a_print_asks_for_each_number(context: CaptureContext) -> None:
    Muting(context, possible=True)
    formatter = torch._tensor_str._Formatter(NUMBERS)
    context.writer.rows("transfers").clear()
    assert formatter.format(2.5) == " 2.5000"
    assert context.writer.rows("transfers") == []


def test_a_print_within_a_print_has_frames_of_its_own(readbacks: Readbacks) -> None:
    seen: list[object] = []

    def look(inner: Any = None) -> None:
        seen.append(readbacks._printing.now)
        if inner is not None:
            inner()
            seen.append(readbacks._printing.now)

    prints = readbacks._print(look)
    prints(prints)
    before, inner, after = seen
    assert before is after
    assert before is not inner
    assert readbacks._printing.now is None


def test_a_print_keeps_no_variable_of_the_program(readbacks: Readbacks) -> None:
    read = wrapper(readbacks, lambda tensor: 1.0)
    kept: list[weakref.ref[OnDevice]] = []

    def formatting() -> None:
        tensor = OnDevice()
        kept.append(weakref.ref(tensor))
        read(tensor)
        raise KeyError("in the print")

    with pytest.raises(KeyError):
        readbacks._print(formatting)()
    assert [ref() for ref in kept] == [None]
