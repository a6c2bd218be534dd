"""The simulated clock: what things cost, on the host and on the device, in nanoseconds.

The host's constants stand for a whole eager call, Python and autograd included. They are
fitted to an H200 host (torch 2.11), to the steps of the ten example programs and to small
pieces of PyTorch (tests/data/h200/step_times.json and clock_fit.json, made by
benchmarks/step_times.py and clock_fit.py, which also print how well the fit agrees). In a
tight loop over one operator a call takes half as long, 8 to 16 us: its code is in the
caches. In real programs some 16 us pass between launches, and in the backward pass three
times as many.
Kernels follow a roofline: the larger of operations over peak and bytes over bandwidth, each at
the fraction of the datasheet's figure that large matrix products and element-wise kernels
reached there (0.70 to 0.84), plus a fixed time on the device.
"""

from __future__ import annotations

import functools
import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from syncscope.shadow.gpus import GpuModel

VIEW_NS = 4_500
"""A call that only makes a view, or asks for memory."""
BEFORE_LAUNCH_NS = 7_000
"""From the Python call of an operator to its cudaLaunchKernel."""
LAUNCH_NS = 4_000
"""Inside cudaLaunchKernel."""
AFTER_LAUNCH_NS = 5_000
BACKWARD_OP_NS = 35_000
"""More for an operator in the backward pass: the engine's own work, on another thread."""
BACKWARD_CALL_NS = 300_000
"""Handing a backward pass to the engine's thread, and back."""
LAUNCH_LATENCY_NS = 2_000
"""From the return of a launch to the earliest start of the kernel."""
KERNEL_FIXED_NS = 2_000
COPY_CALL_NS = 5_000
"""Inside cudaMemcpyAsync when it does not wait."""
COPY_FIXED_NS = 1_500
SYNC_CALL_NS = 2_000
"""Inside a synchronizing call when there is nothing to wait for."""
EVENT_NS = 1_500
MALLOC_NS = 120_000
FREE_NS = 150_000
HOST_OP_NS = 2_500
"""An operator on host tensors, plus its bytes and operations."""
HOST_BYTES_PER_NS = 8.0
HOST_FLOPS_PER_NS = 50.0
STAGED_BYTES = 64 * 1024
"""Up to this size the driver copies a pageable source at once and returns."""

_COMPUTE_EFFICIENCY = 0.7
_MEMORY_EFFICIENCY = 0.8


class HostThread(threading.local):
    """Simulated time of each host thread, and what it is in the middle of."""

    def __init__(self) -> None:
        self.now = 0
        self.number = -1
        self.backward = -1
        """The backward pass (autograd's graph task) that the last launch belonged to."""
        self.device = 0
        self.streams: dict[int, Any] = {}
        self.capture: Any = None
        self.move: Any = None
        self.lenient = False
        """Inside C++ code that uploads a host operand by itself, unseen."""
        self.exchanging = False
        """Inside `torch.from_dlpack`, which may take a GPU's memory."""
        self.silent = 0
        """How many of the next hidden waits are checks that only the CPU's code makes."""
        self.caller: tuple[str, str] | None = None
        """Python name and cause of the call that the operators below belong to."""


class Roofline:
    """Durations on one GPU model."""

    def __init__(self, model: GpuModel) -> None:
        self.model = model
        self.ns_per_byte = 1e9 / (model.memory_rate * _MEMORY_EFFICIENCY)
        self._pinned = 1e9 / model.pinned_copy_rate
        self._pageable = 1e9 / model.pageable_copy_rate
        halves = 1e9 / (model.half_rate * _COMPUTE_EFFICIENCY)
        doubles = 1e9 / (model.float64_rate * _COMPUTE_EFFICIENCY)
        self._float32 = 1e9 / (model.float32_rate * _COMPUTE_EFFICIENCY)
        self._tf32 = 1e9 / (model.tf32_rate * _COMPUTE_EFFICIENCY)
        self._ns_per_flop = {
            torch.float16: halves,
            torch.bfloat16: halves,
            torch.float64: doubles,
            torch.complex128: doubles,
        }

    def kernel(self, size_bytes: int) -> int:
        """A kernel that moves `size_bytes`."""
        return KERNEL_FIXED_NS + int(size_bytes * self.ns_per_byte)

    def compute(self, size_bytes: int, flops: int, dtype: torch.dtype, convolution: bool) -> int:
        """A kernel that moves bytes and does `flops` operations on `dtype`."""
        per_flop = self._ns_per_flop.get(dtype)
        if per_flop is None:
            allowed = (
                torch._C._get_cudnn_allow_tf32 if convolution else torch._C._get_cublas_allow_tf32
            )
            fast = allowed()
            per_flop = self._tf32 if fast else self._float32
        return KERNEL_FIXED_NS + int(max(size_bytes * self.ns_per_byte, flops * per_flop))

    def copy(self, size_bytes: int, pinned: bool) -> int:
        """A copy between host and device."""
        return COPY_FIXED_NS + int(size_bytes * (self._pinned if pinned else self._pageable))


def _matmul(args: Sequence[Any], result: Any) -> int:
    return 2 * int(args[0].numel()) * int(args[1].shape[-1])


def _addmm(args: Sequence[Any], result: Any) -> int:
    return 2 * int(args[1].numel()) * int(args[2].shape[-1])


_SHAPE_FLOPS: dict[str, Callable[[Sequence[Any], Any], int]] = {
    "aten::mm": _matmul,
    "aten::bmm": _matmul,
    "aten::mv": lambda args, result: 2 * int(args[0].numel()),
    "aten::addmm": _addmm,
    "aten::baddbmm": _addmm,
    "aten::_linalg_solve_ex": lambda args, result: int(args[0].numel()) * int(args[0].shape[-1]),
    "aten::linalg_cholesky_ex": lambda args, result: (
        int(args[0].numel()) * int(args[0].shape[-1]) // 3
    ),
    "aten::linalg_inv_ex": lambda args, result: 2 * int(args[0].numel()) * int(args[0].shape[-1]),
}


def flops_of(func: Any) -> Callable[[Sequence[Any], Any], int] | None:
    """A function (args, result) -> operations, or None where bytes are all that counts.

    Matrix products are counted from their shapes; for the rest the formula comes from
    `torch.utils.flop_counter` if it has one.
    """
    known = _SHAPE_FLOPS.get(func._schema.name)
    if known is not None:
        return known
    if "flash_attention_for_cpu" in func._schema.name:
        return _attention
    formula = _flop_registry().get(func._overloadpacket)
    if formula is None:
        return None

    def count(args: Sequence[Any], result: Any) -> int:
        try:
            return int(formula(*args, out_val=result))
        except (TypeError, ValueError, AttributeError, AssertionError, IndexError):
            return 0

    return count


@functools.cache
def _flop_registry() -> dict[Any, Any]:
    """PyTorch's formulas; its module complains on import when there is no Triton."""
    logger = logging.getLogger("torch.utils.flop_counter")
    before, logger.disabled = logger.disabled, True
    try:
        from torch.utils.flop_counter import flop_registry
    finally:
        logger.disabled = before
    registry: dict[Any, Any] = flop_registry
    return registry


def _attention(args: Sequence[Any], result: Any) -> int:
    query, key = args[0], args[1]
    backward = query.dim() == key.dim() and len(args) > 5 and isinstance(args[3], torch.Tensor)
    if backward:
        query, key = args[1], args[2]
    products = 5 if backward else 2
    return products * 2 * int(math.prod(query.shape)) * int(key.shape[-2])
