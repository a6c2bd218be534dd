"""Devices of storages: what `torch.save`, `torch.load`, `copy.deepcopy` and pickling look at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syncscope.shadow import transfers
from syncscope.shadow.devices import as_device
from syncscope.shadow.effects import Effect
from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.tensor_api import TensorApi

_true_device = torch._C.StorageBase.device.__get__  # type: ignore[attr-defined]


def install(tensor_api: TensorApi, patches: FunctionPatches) -> None:
    """Replace the attributes of `torch.UntypedStorage` that know of devices."""
    machine = tensor_api.machine
    cls = torch.UntypedStorage

    def gpu(storage: Any) -> int:
        mark = storage._syncscope_mark
        return -1 if mark is None or mark.gpu < 0 else int(mark.gpu)

    def device(storage: Any) -> torch.device:
        index = gpu(storage)
        if index >= 0:
            return machine.devices[index]
        answer: torch.device = _true_device(storage)
        return answer

    def is_pinned(storage: Any, device: Any = None) -> bool:
        mark = storage._syncscope_mark
        return mark is not None and mark.gpu == -1 and mark.pinned

    def moved(storage: Any, target: torch.device, non_blocking: bool = False) -> Any:
        there = -1 if target.type == "cpu" else tensor_api.index(target)
        if gpu(storage) == there or target.type not in ("cpu", "cuda"):
            return storage
        return _moved(tensor_api, storage, there, non_blocking)

    patches.put(cls, "__new__", _new(tensor_api))
    patches.put(cls, "device", property(device))
    patches.put(cls, "is_cuda", property(lambda storage: gpu(storage) >= 0))
    patches.put(cls, "get_device", gpu)
    patches.put(cls, "is_pinned", is_pinned)
    patches.put(cls, "cpu", lambda storage: moved(storage, torch.device("cpu")))
    patches.put(
        cls,
        "cuda",
        lambda storage, device=None, non_blocking=False: moved(
            storage, as_device("cuda" if device is None else device), non_blocking
        ),
    )
    patches.put(
        cls,
        "to",
        lambda storage, *, device, non_blocking=False: moved(
            storage, as_device(device), non_blocking
        ),
    )
    patches.put(cls, "_write_file", _writing(machine, cls._write_file, gpu))
    patches.put(cls, "_set_from_file", _reading(machine, cls._set_from_file, gpu))
    patches.put(cls, "clone", lambda storage: _clone(machine, storage, gpu(storage)))


def _new(tensor_api: TensorApi) -> Callable[..., Any]:
    """`torch.UntypedStorage(size, device="cuda")`."""
    make: Any = torch._C.StorageBase.__new__

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        wanted = None if device is None else as_device(device)
        if wanted is None or wanted.type != "cuda":
            return make(cls, *args, device=device, **kwargs)
        made = make(cls, *args, **kwargs)
        tensor_api.machine.place(_bytes_of(made), tensor_api.index(wanted))
        return made

    return new


def _writing(machine: Machine, original: Any, gpu: Callable[[Any], int]) -> Callable[..., Any]:
    """Pickling copies the bytes to the host."""

    def write_file(storage: Any, *args: Any) -> Any:
        index = gpu(storage)
        if index >= 0:
            content = _bytes_of(storage)
            op = "UntypedStorage._write_file"
            transfers.download(machine, content, None, index, non_blocking=False, op=op)
        return original(storage, *args)

    return write_file


def _reading(machine: Machine, original: Any, gpu: Callable[[Any], int]) -> Callable[..., Any]:
    """Unpickling reads a file into host memory, and uploads that."""

    def set_from_file(storage: Any, *args: Any) -> Any:
        result = original(storage, *args)
        index = gpu(storage)
        if index >= 0:
            upload = Effect("h2d", storage.nbytes())
            machine.apply(index, (upload,), "UntypedStorage._set_from_file", "pageable_batch")
        return result

    return set_from_file


def _bytes_of(storage: Any) -> torch.Tensor:
    """The storage's bytes as a tensor that shares it."""
    view = torch.empty(0, dtype=torch.uint8)
    with torch._C._DisableTorchDispatch():
        view.set_(storage, 0, (storage.nbytes(),), (1,))
    return view


def _moved(tensor_api: TensorApi, storage: Any, target: int, non_blocking: bool) -> Any:
    """A copy of a storage on another device."""
    moved = tensor_api.move(
        _bytes_of(storage), target, "UntypedStorage move", non_blocking=non_blocking
    )
    return moved.untyped_storage()


def _clone(machine: Machine, storage: Any, gpu: int) -> Any:
    """A copy of a storage where it is."""
    with torch._C._DisableTorchDispatch():
        copy = _bytes_of(storage).clone()
    if gpu >= 0:
        machine.place(copy, gpu)
        machine.timeline.device_copy(gpu, storage.nbytes())
    return copy.untyped_storage()
