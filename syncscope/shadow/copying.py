"""Handlers of the operators that move data between memories, or index across them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syncscope.shadow import clock, transfers
from syncscope.shadow.effects import Effect
from syncscope.shadow.machine import Machine
from syncscope.shadow.marks import UNCLAIMED, Mark, gpu_of, mark_of, set_mark

Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def to_copy(machine: Machine, func: Any, compute: Handler) -> Handler:
    """`_to_copy`: to another device if a Python call has just said so, else a conversion.

    A GPU among its arguments was traced (`torch.jit.trace`); the CPU comes from C++ code that
    compares true devices, which are all the CPU, and says nothing.
    """
    op = func._op
    thread = machine.thread

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        move, device = thread.move, kwargs.get("device")
        if device is not None:
            kwargs = {**kwargs, "device": None}
        if move is None:
            if device is None or device.type != "cuda":
                return compute(args, kwargs)
            move = transfers.Move(machine.thread.device, False, "Tensor.to")
            if device.index is not None:
                move.target = device.index
        thread.move = None
        result = op(*args, **kwargs)
        transfers.moved(machine, args[0], result, move)
        return result

    return run


def copy_(machine: Machine, func: Any, compute: Handler) -> Handler:
    """`dst.copy_(src)`: a transfer if the two live in different memories."""
    op = func._op

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, source = args[0], args[1]
        to, come_from = mark_of(target), mark_of(source)
        here = -1 if to is None else to.gpu
        there = -1 if come_from is None else come_from.gpu
        if (here < 0) == (there < 0) or UNCLAIMED.gpu in (here, there):
            if here >= 0 and there >= 0 and here != there:
                machine.timeline.device_copy(there, source.nbytes)
                return op(*args, **kwargs)
            return compute(args, kwargs)
        non_blocking = bool(args[2] if len(args) > 2 else kwargs.get("non_blocking", False))
        if here >= 0:
            result = op(*args, **kwargs)
            if machine.thread.lenient:
                return result
            cause = "host_scalar_assign" if source.dim() == 0 and come_from is None else ""
            transfers.upload(
                machine,
                source,
                target,
                here,
                non_blocking=non_blocking,
                op="aten::copy_",
                cause=cause,
            )
            return result
        result = op(*args, **kwargs)
        transfers.download(
            machine, source, target, there, non_blocking=non_blocking, op="aten::copy_"
        )
        return result

    return run


def index(machine: Machine, func: Any, compute: Handler) -> Handler:
    """Indexing: indices (and an assigned scalar) that lie on the host are uploaded first."""
    full_name = func.name()

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = gpu_of(args[0])
        indices = args[1]
        if device < 0:
            if any(item is not None and gpu_of(item) >= 0 for item in indices):
                raise RuntimeError(
                    "indices should be either on cpu or on the same device as the indexed "
                    "tensor (cpu)"
                )
            return compute(args, kwargs)
        for item in indices:
            if item is None or gpu_of(item) >= 0:
                continue
            if mark_of(item) is not UNCLAIMED:
                _upload_index(machine, item, device, full_name)
        if len(args) > 2 and gpu_of(args[2]) < 0 and mark_of(args[2]) is not UNCLAIMED:
            if args[2].dim():
                machine.mixed(device, -1)
            accumulate = args[3] if len(args) > 3 else kwargs.get("accumulate", False)
            if accumulate or not is_masked_fill(indices):
                _upload_operand(machine, args[2], device, full_name, "host_scalar_assign")
        return compute(args, kwargs)

    return run


def is_masked_fill(indices: Any) -> bool:
    """One boolean mask on the GPU among full slices: filled under the mask, nothing counted."""
    given = [item for item in indices if item is not None]
    mask = given[0] if len(given) == 1 else None
    return mask is not None and mask.dtype in (torch.bool, torch.uint8) and gpu_of(mask) >= 0


def _upload_index(machine: Machine, index: torch.Tensor, device: int, op: str) -> None:
    """Masks become indices on the host, in pinned memory, which nobody waits for.

    A list or a numpy array is uploaded as it is; a mask among them is then one on the GPU.
    """
    if index.dtype not in (torch.bool, torch.uint8) or mark_of(index) is None:
        _upload_operand(machine, index, device, op, "host_index")
        if index.dtype is torch.bool:
            machine.place(index, device)
        return
    size = 8 * int(index.count_nonzero())
    columns = (Effect("h2d", size, waits=False, pinned=True),) * index.dim()
    machine.apply(device, columns if size else (), op, "host_index")


def fill(machine: Machine, func: Any, compute: Handler) -> Handler:
    """A host tensor filled with a number on the GPU, which is read back."""
    if func._overloadname != "Tensor":
        return compute
    op, name = func._op, func.name()

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        target, value = args
        device, mark = gpu_of(value), mark_of(target)
        if device < 0 or mark is UNCLAIMED or gpu_of(target) >= 0:
            return compute(args, kwargs)
        machine.apply(device, (Effect("d2h", value.element_size()),), name, "scalar_readback")
        if mark is not None and func._schema.name == "aten::fill_":
            machine.check_host(target, mark, name, writes=True)
        return op(*args, **kwargs)

    return run


def _upload_operand(
    machine: Machine, operand: torch.Tensor, device: int, op: str, cause: str
) -> None:
    transfers.upload(machine, operand, operand, device, non_blocking=False, op=op, cause=cause)


def is_pinned(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a tensor lies in pinned host memory."""
    mark = mark_of(args[0])
    return mark is not None and mark.gpu == -1 and mark.pinned


def pin_memory(machine: Machine) -> Handler:
    """A pinned copy of a host tensor."""

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        source = args[0]
        result = source.clone()
        set_mark(result, Mark(pinned=True))
        machine.thread.now += clock.HOST_OP_NS + int(source.nbytes / clock.HOST_BYTES_PER_NS)
        return result

    return run


def nothing(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """An operator that does nothing here (`record_stream`)."""


def barrier(machine: Machine, func: Any) -> Handler:
    """`dist.barrier()`: NCCL's is an all-reduce that the host waits for."""
    op = func._op

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = op(*args, **kwargs)
        if not machine.nccl:
            return result
        device = machine.thread.device
        start = machine.timeline.now()
        machine.timeline.launch(device, "ncclDevKernel_AllReduce", clock.KERNEL_FIXED_NS * 5)
        machine.timeline.wait_stream(machine.timeline.stream(device))
        machine.add_blocking(start, "torch.distributed.barrier", "explicit_wait", explicit=True)
        return result

    return run
