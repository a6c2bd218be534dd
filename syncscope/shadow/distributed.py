"""`torch.distributed` with the NCCL backend, on one machine, carried by Gloo."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import FunctionPatches

_OBJECT_COLLECTIVES = (
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)


def install(machine: Machine, patches: FunctionPatches) -> None:
    """Let process groups that ask for NCCL run on Gloo and still say NCCL."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    groups = _Groups(machine, c10d)
    answers: dict[str, Callable[[Any], Callable[..., Any]]] = {
        "init_process_group": groups.init_process_group,
        "new_group": groups.new_group,
        "is_nccl_available": lambda original: lambda: True,
        "get_backend": lambda original: (
            lambda group=None: "nccl" if groups.is_nccl(group) else original(group)
        ),
        "_get_object_coll_device": lambda original: (
            lambda group=None: "cuda" if groups.is_nccl(group) else original(group)
        ),
    }
    for name, make in answers.items():
        patches.wrap(c10d, name, make)
    patches.wrap(c10d.Work, "wait", lambda original: _waiting(machine, original))
    for name in _OBJECT_COLLECTIVES:
        if hasattr(c10d, name):
            patches.wrap(c10d, name, lambda original: _collective(machine, original))


class _Groups:
    """Which process groups were asked to be NCCL's."""

    def __init__(self, machine: Machine, c10d: Any) -> None:
        self.machine = machine
        self.c10d = c10d
        self._nccl: weakref.WeakSet[Any] = weakref.WeakSet()

    def is_nccl(self, group: Any = None) -> bool:
        return (group or self.c10d._get_default_group()) in self._nccl

    def init_process_group(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def init(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
            wanted = backend is None or "nccl" in str(backend)
            kwargs.pop("device_id", None)
            result = original("gloo" if wanted else backend, *args, **kwargs)
            if wanted:
                self.machine.nccl = True
                self._nccl.add(self.c10d._get_default_group())
            return result

        return init

    def new_group(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            backend = kwargs.get("backend")
            wanted = self.is_nccl() if backend is None else "nccl" in str(backend)
            if wanted and backend is not None:
                kwargs["backend"] = "gloo"
            made = original(*args, **kwargs)
            if wanted and isinstance(made, self.c10d.ProcessGroup):
                self._nccl.add(made)
            return made

        return make


def _waiting(machine: Machine, original: Callable[..., Any]) -> Callable[..., Any]:
    """Gloo copies results from buffers of its own, which NCCL has not got."""

    def wait(self: Any, *args: Any, **kwargs: Any) -> Any:
        thread = machine.thread
        thread.lenient = True
        try:
            return original(self, *args, **kwargs)
        finally:
            thread.lenient = False

    return wait


def _collective(machine: Machine, original: Callable[..., Any]) -> Callable[..., Any]:
    """Transfers and readbacks inside belong to the object collective."""

    def call(*args: Any, **kwargs: Any) -> Any:
        thread = machine.thread
        before = thread.caller
        thread.caller = (original.__name__, "object_collective")
        try:
            return original(*args, **kwargs)
        finally:
            thread.caller = before

    call.__name__ = original.__name__
    return call
