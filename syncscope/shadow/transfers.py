"""Copies between host and device: how big, from which memory, and whether the host waits.

What decides is `at::native::copy_kernel_cuda` (ATen/native/cuda/Copy.cu): a copy whose
sides differ in dtype or strides goes through a dense temporary, which is pageable even if
the source is pinned; `non_blocking` from or to pinned memory never waits; a blocking copy
is cudaMemcpyAsync and cudaStreamSynchronize.
"""

from __future__ import annotations

import ctypes
import zlib
from dataclasses import dataclass
from typing import Any

import torch

from syncscope.shadow import clock
from syncscope.shadow.machine import Machine
from syncscope.shadow.marks import Mark, mark_of, note_mask, set_mark


@dataclass(slots=True)
class Move:
    """A copy to another device that a Python call asked for. `target` is -1 for the host."""

    target: int
    non_blocking: bool
    op: str
    cause: str = ""


def is_dense(tensor: torch.Tensor) -> bool:
    """Non-overlapping and without holes, in whatever order of dimensions."""
    if tensor.layout is not torch.strided or tensor.is_contiguous():
        return True
    expected = 1
    for size, stride in sorted(
        zip(tensor.size(), tensor.stride(), strict=True), key=lambda pair: pair[1]
    ):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def size_of(tensor: torch.Tensor) -> int:
    """Bytes that a copy of a tensor moves; sparse layouts move indices and values."""
    if tensor.layout is torch.strided:
        return tensor.numel() * tensor.element_size()
    return int(tensor._nnz()) * (tensor.element_size() + 8 * tensor.dim())


def upload(
    machine: Machine,
    source: torch.Tensor,
    target: torch.Tensor,
    device: int,
    *,
    non_blocking: bool,
    op: str,
    cause: str = "",
) -> None:
    """Account for a copy of host memory to a GPU whose values are in place already."""
    mark = mark_of(source)
    direct = source.dtype == target.dtype and is_dense(source)
    direct = direct and (source.is_nested or source.size() == target.size())
    pinned = mark is not None and getattr(mark, "pinned", False) and direct
    size = size_of(target)
    waits = not non_blocking
    if waits and machine.thread.capture is not None:
        machine.forbid_in_capture(op)
    start = machine.timeline.now()
    if not size:
        return
    if not direct:
        machine.thread.now = start + int(size / clock.HOST_BYTES_PER_NS)
    stream = machine.timeline.stream(device)
    machine.check_copy(source, mark, op, stream, writes=False)
    if isinstance(mark, Mark) and mark.content is not None:
        check_shared(machine, source, mark, op)
    number = machine.timeline.copy(device, "h2d", size, pinned=pinned, waits=waits)
    if pinned and non_blocking and isinstance(mark, Mark):
        machine.depart(source, mark, ("h2d", stream, number))
    machine.add_transfer(
        start,
        op,
        "h2d",
        size,
        device,
        pinned=pinned,
        non_blocking=non_blocking,
        origin=getattr(mark, "origin", -1),
        cause=cause or _upload_cause(mark, pinned, non_blocking),
    )


def share(tensor: torch.Tensor, mark: Mark) -> None:
    """A numpy array is going to share pinned memory: nobody sees what it writes."""
    if mark.content is None:
        mark.content = _checksum(tensor)


def check_shared(machine: Machine, tensor: torch.Tensor, mark: Mark, op: str) -> None:
    """At its next upload, shared memory has changed though nobody waited for the last one."""
    content = _checksum(tensor)
    flying = any(flight[0] == "h2d" and flight[1].known < flight[2] for flight in mark.flights)
    if content != mark.content and flying:
        machine.race(op)
    mark.content = content


def _checksum(tensor: torch.Tensor) -> int:
    """Of all bytes of the tensor's storage. Costs a pass over them."""
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    return zlib.crc32((ctypes.c_char * size).from_address(storage.data_ptr())) if size else 0


def _upload_cause(mark: Any, pinned: bool, non_blocking: bool) -> str:
    if pinned:
        return "" if non_blocking else "missing_non_blocking"
    return "created_on_host" if getattr(mark, "origin", -1) >= 0 else "pageable_batch"


def download(
    machine: Machine,
    source: torch.Tensor,
    target: torch.Tensor | None,
    device: int,
    *,
    non_blocking: bool,
    op: str,
    cause: str = "",
) -> None:
    """Account for a copy of a GPU's memory to the host; `target` None stands for a Python list."""
    size = size_of(source)
    mark = None if target is None else mark_of(target)
    pinned = mark is not None and getattr(mark, "pinned", False)
    waits = not non_blocking
    if waits and machine.thread.capture is not None:
        machine.forbid_in_capture(op)
    if not size:
        return
    start = machine.timeline.now()
    converted = target is not None and target.dtype != source.dtype
    if converted or not is_dense(source):
        machine.timeline.launch(device, "aten::copy_", machine.timeline.roofline.kernel(2 * size))
    stream = machine.timeline.stream(device)
    if target is not None:
        machine.check_copy(target, mark, op, stream, writes=True)
    number = machine.timeline.copy(device, "d2h", size, pinned=pinned, waits=waits)
    if target is not None and pinned and non_blocking and isinstance(mark, Mark):
        machine.depart(target, mark, ("d2h", stream, number))
    if not cause and source.numel() == 1:
        cause = "scalar_readback"
    machine.add_transfer(
        start,
        op,
        "d2h",
        size,
        device,
        pinned=pinned,
        non_blocking=non_blocking,
        origin=-1,
        cause=cause,
    )


def parts_of(source: torch.Tensor, result: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """What is copied by itself: of a COO tensor its indices and its values."""
    if source.layout != torch.sparse_coo or result.layout != torch.sparse_coo:
        return [(source, result)]
    return [(source._indices(), result._indices()), (source._values(), result._values())]


def moved(machine: Machine, source: torch.Tensor, result: torch.Tensor, move: Move) -> None:
    """Mark the result of a copy to another device, and account for the copy."""
    mark = mark_of(source)
    origin = -1 if mark is None else mark.gpu
    if move.target >= 0 and origin < 0:
        machine.place(result, move.target)
        for part, copied in parts_of(source, result):
            upload(
                machine,
                part,
                copied,
                move.target,
                non_blocking=move.non_blocking,
                op=move.op,
                cause=move.cause,
            )
    elif move.target < 0 and origin >= 0:
        if move.non_blocking:
            set_mark(result, Mark(pinned=True))
        elif result.dtype is torch.bool:
            note_mask(result)
        for part, copied in parts_of(source, result):
            download(machine, part, copied, origin, non_blocking=move.non_blocking, op=move.op)
    elif move.target >= 0:
        machine.place(result, move.target)
        machine.timeline.device_copy(origin, size_of(result))
