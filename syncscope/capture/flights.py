"""Copies that nobody has waited for yet, and the host touching their memory too early.

A copy between pinned memory and a GPU with `non_blocking=True` returns at once. It is in
flight until the host has waited for something since, and an event recorded after the copy says
that it is over (asking never waits). When the host meanwhile reads what is being written, or
writes what is being read, that is a race, also where the GPU happened to win it.

A wait that no hook sees counts as none; a wait for something else counts once the copy is
over, so such a race is seen only where the GPU loses it. Only the methods of `torch.Tensor`
below are wrapped, and only from the first such copy on; detail steps see every operator.
A copy costs one event, a touch the length of a list.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import BlockingRow

_WRITES = ("fill_", "zero_", "__setitem__", "random_", "normal_", "uniform_")
_READS = (
    "sum", "mean", "max", "min", "any", "all", "clone", "float", "double", "int", "long",
    "__array__", "__bool__", "__float__", "__int__", "__index__", "__repr__", "__format__",
)  # fmt: skip

MOST = 64
"""How many copies are remembered; a program that never waits could have any number."""

_query = torch.cuda.Event.query

_PLAIN = (torch.Tensor, torch.nn.Parameter)
"""Types with memory of their own; torch.compile's stand-ins have none."""


class Flight(NamedTuple):
    """A copy under way: what it does with which bytes of the host."""

    upload: bool
    start: int
    end: int
    memory: StorageWeakRef
    waits: int
    """How many waits the hooks had seen when it departed."""
    arrived: Callable[[], bool]
    """Asks CUDA whether it is over."""


class Flights:
    """Collector of races between the host and copies. `Transfers` tells it of each copy."""

    name = "races"

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._rows = context.writer.rows("blocking")
        self._patches = Patches()
        self._pending: tuple[Flight, ...] = ()
        self._watching = False

    def start(self) -> None:
        """Nothing is wrapped before the first copy."""

    def stop(self) -> None:
        """Unwrap the methods, forget the copies."""
        self._patches.undo()
        self.forget()
        self._watching = False

    def forget(self) -> None:
        """Forget the copies. Before a fork: CUDA's events must not end in the child."""
        self._pending = ()

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
        event = torch.cuda.current_stream(remote.device).record_event()
        self._take_off(host, functools.partial(_query, event), upload=upload)

    def _take_off(self, host: torch.Tensor, arrived: Callable[[], bool], *, upload: bool) -> None:
        memory = StorageWeakRef(host.untyped_storage())
        flight = Flight(upload, *_span(host), memory, self._context.waits, arrived)
        # Another thread may do the same meanwhile: then one of the two flights is lost.
        self._pending = (*(f for f in self._pending if self._in_flight(f)), flight)[-MOST:]

    def _in_flight(self, flight: Flight) -> bool:
        """Whether its memory is still the same, and nobody can know that the copy is over."""
        if flight.memory.expired():
            return False
        return flight.waits == self._context.waits or not flight.arrived()

    def touch(self, tensor: torch.Tensor, op: str, *, writes: bool) -> None:
        """The host is about to read or write a tensor of its own."""
        pending = self._pending
        if not pending or type(tensor) not in _PLAIN or tensor.device.type != "cpu":
            return
        if tensor.layout != torch.strided:
            return
        start, end = _span(tensor)
        for flight in pending:
            apart = end <= flight.start or flight.end <= start
            if not apart and (writes or not flight.upload) and self._in_flight(flight):
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
        for owner in (torch.cuda.Event, torch.cuda.Stream):
            self._wrap_query(owner)

    def _wrap(self, name: str, *, writes: bool) -> None:
        original, op = getattr(torch.Tensor, name), f"Tensor.{name}"
        flights = self

        @functools.wraps(original)
        def touching(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if flights._pending:
                flights.touch(self, op, writes=writes)
            return original(self, *args, **kwargs)

        self._patches.put(torch.Tensor, name, touching)

    def _wrap_query(self, owner: Any) -> None:
        """A program that asks whether its copy is over need not wait for it."""
        original, context = owner.query, self._context

        @functools.wraps(original)
        def query(self: Any) -> bool:
            over = bool(original(self))
            context.waits += over
            return over

        self._patches.put(owner, "query", query)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte and end of the bytes that a strided tensor reaches."""
    if not tensor.numel():
        return 0, 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()
