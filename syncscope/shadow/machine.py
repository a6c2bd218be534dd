"""The simulated machine: memory of its GPUs, waits of its host, and their rows.

Everything that an operator, a copy or an API call does to the device goes through here,
so that capture of CUDA graphs and out-of-memory errors are decided in one place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import torch

from syncscope.context import CaptureContext
from syncscope.forbidding import check
from syncscope.recording.tables import BlockingRow, TransferRow, UnmodelledRow
from syncscope.shadow.allocator import Allocator, OutOfMemoryError, Stall
from syncscope.shadow.effects import Effect
from syncscope.shadow.gpus import GpuModel
from syncscope.shadow.marks import (
    ATTRIBUTE,
    NO_STORAGE,
    PLAIN,
    GpuMark,
    Mark,
    span_of,
    storage_of,
)
from syncscope.shadow.random_state import RandomState
from syncscope.shadow.streams import DEFAULT_STREAM, StreamState
from syncscope.shadow.timeline import Timeline

CAPTURE_ERROR = (
    "CUDA error: operation not permitted when stream is capturing\n"
    "Search for `cudaErrorStreamCaptureUnsupported' in the CUDA Runtime API documentation for "
    "more information.\n"
)
FORK_ERROR = (
    "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, "
    "you must use the 'spawn' start method"
)
_GIB = 1 << 30


class Machine:
    """GPUs of one model, and the recording that they write to."""

    def __init__(self, context: CaptureContext, model: GpuModel, count: int) -> None:
        self.context = context
        self.model = model
        self.count = count
        self.timeline = Timeline(context, model, count)
        self.thread = self.timeline.thread
        self.devices = [torch.device("cuda", index) for index in range(count)]
        self.allocators = [Allocator(model.memory_bytes) for _ in range(count)]
        self.blocking: list[Any] = context.writer.rows("blocking")
        self.transfers: list[Any] = context.writer.rows("transfers")
        self.unmodelled: dict[tuple[str, str], int] = {}
        self.has_sparse = False
        self.forked = False
        self.random = RandomState()
        self.nccl = False
        """Whether the program has initialized torch.distributed with NCCL."""

    def place(self, tensor: torch.Tensor, device: int) -> int:
        """Give a tensor without a mark memory on a GPU; returns the size of its storage.

        May stall, and may raise torch.OutOfMemoryError.
        """
        if type(tensor) not in PLAIN:
            with torch._C.DisableTorchFunctionSubclass():
                return self.place(tensor.as_subclass(torch.Tensor), device)
        try:
            storage = storage_of(tensor)
        except NO_STORAGE:
            self.has_sparse = True
            tensor.__dict__[ATTRIBUTE] = GpuMark(device, None)
            return 0
        mark = storage._syncscope_mark  # type: ignore[attr-defined]
        size: int = storage.nbytes()
        if mark is not None and mark.gpu >= 0:
            return size
        if self.forked:
            raise RuntimeError(FORK_ERROR)
        if not size:
            storage._syncscope_mark = GpuMark(device, None)  # type: ignore[attr-defined]
            return 0
        streams = self.thread.streams
        stream = streams.get(device) if streams else None
        number = DEFAULT_STREAM if stream is None else stream.number
        try:
            block, stall = self.allocators[device].allocate(size, number)
        except OutOfMemoryError as error:
            raise self._out_of_memory(device, error) from None
        storage._syncscope_mark = GpuMark(device, block)  # type: ignore[attr-defined]
        if stall is not None:
            self._stall(device, stall)
        return size

    def check_device(self, index: int) -> None:
        """Raise CUDA's error for a device that is not there."""
        if not 0 <= index < self.count:
            raise RuntimeError(
                "CUDA error: invalid device ordinal\nGPU device may be out of range, do you have "
                "enough GPUs?\n"
            )

    def mixed(self, one: int, other: int) -> None:
        """Raise CUDA's error for operands on two devices."""
        names = [f"cuda:{index}" if index >= 0 else "cpu" for index in (one, other)]
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{names[0]} and {names[1]}!"
        )

    def fill(self, name: str, device: int, tensor: torch.Tensor, zero: bool) -> None:
        """The kernel of a factory."""
        capture = self.thread.capture
        size = tensor.nbytes
        if capture is not None:
            capture.add(None, (), {}, None, name, self.timeline.roofline.kernel(size))
        elif zero:
            self.timeline.memset(device, size)
        else:
            self.timeline.launch(device, name, self.timeline.roofline.kernel(size))

    def _stall(self, device: int, stall: Stall) -> None:
        start = self.timeline.now()
        self.timeline.memory_call(device, stall.freed, stall.allocated)
        if stall.freed:
            self.add_blocking(start, "cudaMalloc", "allocator_churn", kind="allocator", depth=2)

    def _out_of_memory(self, device: int, error: OutOfMemoryError) -> Exception:
        allocator = self.allocators[device]
        self.timeline.memory_call(device, [], 0)
        return torch.OutOfMemoryError(
            f"CUDA out of memory. Tried to allocate {error.wanted / _GIB:.2f} GiB. GPU {device} "
            f"has a total capacity of {allocator.total / _GIB:.2f} GiB of which "
            f"{error.free / _GIB:.2f} GiB is free. Of the allocated memory "
            f"{allocator.allocated / _GIB:.2f} GiB is allocated by PyTorch, and "
            f"{(allocator.reserved - allocator.allocated) / _GIB:.2f} GiB is reserved by PyTorch "
            "but unallocated."
        )

    def apply(self, device: int, effects: Iterable[Effect], op: str, cause: str) -> None:
        """Carry out what hides inside an operator; a blocking row for each copy that waits.

        Waits without a copy belong to the one next to them, if there is one.
        """
        if self.thread.silent:
            self.thread.silent -= 1
            return
        start = self.timeline.now()
        effects = tuple(effects)
        waits = any(effect.waits for effect in effects)
        if waits and self.thread.capture is not None:
            self.forbid_in_capture(op)
        for effect, following in zip(effects, (*effects[1:], None), strict=False):
            copies = effect.action != "sync"
            if copies:
                self.timeline.copy(
                    device,
                    effect.action,
                    effect.size_bytes,
                    pinned=effect.pinned,
                    waits=effect.waits,
                )
            else:
                self.timeline.wait_stream(self.timeline.stream(device))
            if following is not None and (following.action == "sync" or not copies):
                continue
            if effect.waits:
                self.add_blocking(start, op, cause, depth=2)
            start = self.timeline.now()

    def add_blocking(
        self,
        start_ns: int,
        op: str,
        cause: str,
        *,
        kind: str = "sync",
        explicit: bool = False,
        depth: int = 1,
    ) -> None:
        """Record that the host waited from `start_ns` until now, at the calling line."""
        if self.forked:
            raise RuntimeError(FORK_ERROR)
        caller = self.thread.caller
        if caller is not None:
            cause = caller[1]
        timeline = self.timeline
        stack = self.context.stacks.capture(sys._getframe(depth))
        end_ns = timeline.now()
        row = (timeline.thread_number(), start_ns, end_ns, stack, "shadow", op, kind)
        self.blocking.append(BlockingRow(*row, explicit, cause))
        self.context.waited(end_ns)
        if kind == "sync" and not explicit:
            check(cause)

    def add_transfer(
        self,
        start_ns: int,
        op: str,
        direction: str,
        size_bytes: int,
        device: int,
        *,
        pinned: bool,
        non_blocking: bool,
        origin: int,
        cause: str,
    ) -> None:
        """Record a copy between host and device that lasted from `start_ns` until now."""
        if self.forked:
            raise RuntimeError(FORK_ERROR)
        caller = self.thread.caller
        if caller is not None:
            cause = caller[1]
        timeline = self.timeline
        self.transfers.append(
            TransferRow(
                timeline.thread_number(),
                start_ns,
                timeline.now(),
                self.context.stacks.capture(sys._getframe(1)),
                op,
                direction,
                size_bytes,
                "pinned" if pinned else "pageable",
                non_blocking,
                device,
                origin,
                cause,
            )
        )
        if not non_blocking:
            check(cause)

    def forbid_in_capture(self, op: str) -> None:
        """A wait while a graph is being captured: recorded, then CUDA's error."""
        capture = self.thread.capture
        capture.failed = True
        self.add_blocking(self.timeline.now(), op, "graph_capture", depth=2)
        raise RuntimeError(CAPTURE_ERROR)

    def race(self, op: str) -> None:
        """The host touches memory that a copy may still be working on."""
        self.add_blocking(self.timeline.now(), op, "unsafe_readback", kind="race", depth=2)

    def depart(self, tensor: torch.Tensor, mark: Mark, copy: tuple[str, StreamState, int]) -> None:
        """A copy that nobody waits for reads or writes this part of host memory."""
        direction, stream, number = copy
        start, end = span_of(tensor)
        kept = [
            flight
            for flight in mark.flights
            if flight[1].known < flight[2]
            and (flight[:2] != (direction, stream) or flight[3] < start or flight[4] > end)
        ]
        mark.flights = (*kept, (direction, stream, number, start, end))

    def check_host(self, tensor: torch.Tensor, mark: Any, op: str, writes: bool) -> None:
        """The host reads or writes this part of memory with this mark."""
        if mark.flights:
            self._check(tensor, mark, op, writes, None)

    def check_copy(
        self, tensor: torch.Tensor, mark: Any, op: str, stream: StreamState, writes: bool
    ) -> None:
        """A copy on a stream does; what the stream itself has done before is over by then."""
        if isinstance(mark, Mark) and mark.flights:
            self._check(tensor, mark, op, writes, stream)

    def _check(
        self, tensor: torch.Tensor, mark: Mark, op: str, writes: bool, by: StreamState | None
    ) -> None:
        mark.flights = tuple(flight for flight in mark.flights if flight[1].known < flight[2])
        if not mark.flights:
            return
        start, end = span_of(tensor)
        for direction, stream, number, first, last in mark.flights:
            apart = end <= first or last <= start or start == end
            if apart or (direction == "h2d" and not writes):
                continue
            if by is not None and (stream is by or by.after.get(stream, 0) >= number):
                continue
            self.race(op)
            return

    def host_mark(self, pinned: bool = False, depth: int = 1) -> Mark:
        """A mark for host memory that is being made now."""
        if self.forked:
            return Mark(pinned)
        return Mark(pinned, self.context.stacks.capture(sys._getframe(depth)))

    def note(self, op: str, reason: str) -> None:
        """Count something that the shadow GPU does not model."""
        key = (op, reason)
        self.unmodelled[key] = self.unmodelled.get(key, 0) + 1

    def finish(self) -> None:
        """Write what was only counted; streams of this machine count as waited for."""
        rows = self.context.writer.rows("unmodelled")
        for (op, reason), count in sorted(self.unmodelled.items()):
            rows.append(UnmodelledRow(op, count, reason))
        self.unmodelled.clear()
        for device in range(self.count):
            self.timeline.all_known(device)
