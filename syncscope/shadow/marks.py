"""Marks on storages: which memory a tensor's bytes would lie in.

A mark is an attribute of the `torch.UntypedStorage` object. PyTorch keeps that Python
object for as long as the C++ storage lives and hands out the same one for every view, so
views, `.data`, `nn.Parameter(t)` and saved tensors share a mark, and it dies with the
bytes: there is no table to clean up. A look-up costs about 0.15 us. Tensors without a
storage (sparse layouts) carry the mark in their own `__dict__`, which PyTorch keeps alike.

A storage without a mark lies in ordinary (pageable) host memory.
"""

from __future__ import annotations

from typing import Any

import torch

from syncscope.shadow.allocator import Block
from syncscope.shadow.streams import StreamState

storage_of = torch._C.TensorBase.untyped_storage
true_device = torch._C.TensorBase.device.__get__

PLAIN = frozenset({torch.Tensor, torch.nn.Parameter})
"""Types whose methods can be called without running code of the program."""

_functorch: Any = torch._C._functorch

ATTRIBUTE = "_syncscope_mark"
NO_STORAGE = (NotImplementedError, RuntimeError)


class Mark:
    """On host memory: `gpu` is -1. `pinned`; `origin` is the stack that made it, or -1.

    `content` is a checksum of pinned memory that a numpy array shares, as of its last upload.

    `flights` tell of asynchronous copies that read or write this memory:
    ("d2h" or "h2d", stream, number of the copy on it, first byte, byte after the last).
    """

    __slots__ = ("__weakref__", "content", "flights", "gpu", "origin", "pinned")

    def __init__(self, pinned: bool = False, origin: int = -1) -> None:
        self.gpu = -1
        self.content: int | None = None
        self.pinned = pinned
        self.origin = origin
        self.flights: tuple[tuple[str, StreamState, int, int, int], ...] = ()


class GpuMark:
    """On the memory of shadow GPU `gpu`; gives its block back when the storage dies."""

    __slots__ = ("block", "gpu")

    def __init__(self, gpu: int, block: Block | None) -> None:
        self.gpu = gpu
        self.block = block

    def __del__(self) -> None:
        if self.block is not None:
            self.block.owner.returned.append(self.block)


class Unclaimed:
    """Made by C++ code with the options of some other tensor; the next operator decides."""

    __slots__ = ("gpu",)

    def __init__(self) -> None:
        self.gpu = -2


UNCLAIMED = Unclaimed()

HOST_MASK = Mark()
"""On masks that the program has made on the host.

One without a mark is a list or a numpy array, which indexing has just turned into a tensor.
"""


def mark_of(tensor: torch.Tensor) -> Any:
    """The mark of a tensor's memory, None for plain host memory."""
    if type(tensor) not in PLAIN:
        with torch._C.DisableTorchFunctionSubclass():
            return _mark_of(tensor)
    return _mark_of(tensor)


def _mark_of(tensor: torch.Tensor) -> Any:
    try:
        return storage_of(tensor)._syncscope_mark  # type: ignore[attr-defined]
    except NO_STORAGE:
        if _functorch.is_functorch_wrapped_tensor(tensor):
            return mark_of(_functorch.get_unwrapped(tensor))
        return tensor.__dict__.get(ATTRIBUTE)


def set_mark(tensor: torch.Tensor, mark: Any) -> None:
    """Put a mark on a tensor's memory."""
    with torch._C.DisableTorchFunctionSubclass():
        try:
            storage_of(tensor)._syncscope_mark = mark  # type: ignore[attr-defined]
        except NO_STORAGE:
            tensor.__dict__[ATTRIBUTE] = mark


def note_mask(mask: torch.Tensor) -> None:
    """Tell a host tensor from what indexing makes of a list."""
    if mark_of(mask) is None:
        set_mark(mask, HOST_MASK)


def span_of(tensor: torch.Tensor) -> tuple[int, int]:
    """First byte of a tensor in its storage, and the byte after its last."""
    if tensor.layout is not torch.strided:
        return 0, 1 << 62
    with torch._C.DisableTorchFunctionSubclass():
        size = tensor.element_size()
        start = int(tensor.storage_offset()) * size
        if not tensor.numel():
            return start, start
        pairs = zip(tensor.size(), tensor.stride(), strict=True)
        return start, start + size * int(1 + sum((count - 1) * step for count, step in pairs))


def gpu_of(tensor: torch.Tensor) -> int:
    """Index of the shadow GPU that a tensor lives on; -1 for the host."""
    mark = mark_of(tensor)
    return -1 if mark is None or mark.gpu < 0 else int(mark.gpu)
