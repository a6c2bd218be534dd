"""What `torch.nn.DataParallel` calls in C++: copies to and from several GPUs of one process.

The bindings exist in CUDA builds only (torch/csrc/cuda/python_comm.cpp); copies between GPUs
do not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.cuda.nccl

from syncscope.shadow.patching import FunctionPatches

Tensors = Sequence[torch.Tensor]


def install(patches: FunctionPatches) -> None:
    """Add the bindings."""
    for name, function in {
        "_scatter": scatter,
        "_gather": gather,
        "_broadcast": broadcast,
        "_broadcast_coalesced": broadcast_coalesced,
    }.items():
        patches.put(torch._C, name, function)
    patches.put_function(torch.cuda.nccl, "is_available", lambda tensors: False)


def scatter(
    tensor: torch.Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None = None,
    dim: int = 0,
    streams: Any = None,
) -> list[torch.Tensor]:
    """One chunk per device."""
    if chunk_sizes is None:
        chunks: Tensors = tensor.chunk(len(devices), dim)
    else:
        chunks = tensor.split(list(chunk_sizes), dim)
    return [_to(chunk, device) for chunk, device in zip(chunks, devices, strict=False)]


def gather(tensors: Tensors, dim: int, destination: int | None = None) -> torch.Tensor:
    """All tensors next to each other on one device; -1 is the CPU."""
    return torch.cat([_to(tensor, destination) for tensor in tensors], dim)


def broadcast(tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
    """The tensor on every device."""
    return [_to(tensor, device) for device in devices]


def broadcast_coalesced(
    tensors: Tensors, devices: Sequence[int], buffer_size: int
) -> list[list[torch.Tensor]]:
    """All tensors on every device."""
    return [[_to(tensor, device) for tensor in tensors] for device in devices]


def _to(tensor: torch.Tensor, device: int | None) -> torch.Tensor:
    if device is None:
        return tensor.cuda(non_blocking=True)
    return tensor.cpu() if device < 0 else tensor.to(device, non_blocking=True)
