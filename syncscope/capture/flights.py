"""Copies that nobody has waited for yet, and the host touching their memory too early.

A copy between pinned memory and a GPU with `non_blocking=True` returns at once. For each an
event is recorded; when the host reads what is being written, or writes what is being read,
the event is asked (which never waits) whether the copy is over. So what is reported did
happen in this run; a race that the GPU happened to win is not seen.

Nothing but a few methods of `torch.Tensor` is wrapped, and those only from the first such
copy on. A copy then costs one event, a touch the length of a list.
"""

from __future__ import annotations

import functools
from collections import deque
from typing import Any, NamedTuple

import torch

from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import BlockingRow

_WRITES = ("fill_", "zero_", "__setitem__", "random_", "normal_", "uniform_")
_READS = (
    "sum", "mean", "max", "min", "any", "all", "clone", "float", "double", "int", "long",
    "__array__", "__bool__", "__float__", "__int__", "__index__", "__repr__", "__format__",
)  # fmt: skip

_PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types with memory of their own; torch.compile's stand-ins have none."""


class Flight(NamedTuple):
    """A copy under way: what it does with which bytes of the host."""

    upload: bool
    start: int
    end: int
    event: Any


class Flights:
    """Collector of races between the host and copies. `Transfers` tells it of each copy."""

    name = "races"

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._rows = context.writer.rows("blocking")
        self._patches = Patches()
        self._pending: deque[Flight] = deque()
        self._watching = False

    def start(self) -> None:
        """Nothing is wrapped before the first copy."""

    def stop(self) -> None:
        """Unwrap the methods, forget the copies."""
        self._patches.undo()
        self._pending.clear()
        self._watching = False

    def depart(self, source: torch.Tensor, target: torch.Tensor) -> None:
        """An asynchronous copy between pinned memory and a device was enqueued."""
        upload = source.device.type == "cpu"
        host, remote = (source, target) if upload else (target, source)
        if source.dtype != target.dtype or not host.is_contiguous():
            return  # it goes through a temporary, which nobody else can touch
        if torch.cuda.is_current_stream_capturing():
            return
        if not self._watching:
            self._watch()
        while self._pending and self._pending[0].event.query():
            self._pending.popleft()
        event = torch.cuda.current_stream(remote.device).record_event()
        self._pending.append(Flight(upload, *_span(host), event))

    def touch(self, tensor: torch.Tensor, op: str, *, writes: bool) -> None:
        """The host is about to read or write a tensor of its own."""
        if not self._pending or type(tensor) not in _PLAIN or tensor.device.type != "cpu":
            return
        if tensor.layout != torch.strided:
            return
        start, end = _span(tensor)
        for flight in self._pending:
            apart = end <= flight.start or flight.end <= start
            if not apart and (writes or not flight.upload) and not flight.event.query():
                self._report(op)
                return

    def _report(self, op: str) -> None:
        context = self._context
        now_ns = context.now()
        self._rows.append(
            BlockingRow(
                context.threads.current(), now_ns, now_ns, context.stacks.capture(skip=3),
                "flight", op, "race", False, "unsafe_readback",
            )
        )  # fmt: skip

    def _watch(self) -> None:
        self._watching = True
        for name in _WRITES:
            self._wrap(name, writes=True)
        for name in _READS:
            self._wrap(name, writes=False)

    def _wrap(self, name: str, *, writes: bool) -> None:
        original, op = getattr(torch.Tensor, name), f"Tensor.{name}"
        pending, touch = self._pending, self.touch

        @functools.wraps(original)
        def touching(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if pending:
                touch(self, op, writes=writes)
            return original(self, *args, **kwargs)

        self._patches.put(torch.Tensor, name, touching)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and end of the bytes that a strided tensor reaches."""
    if not tensor.numel():
        return 0, 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()
