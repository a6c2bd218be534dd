"""`torch.distributed` with the NCCL backend, on one machine, carried by Gloo."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import Patches

_OBJECT_COLLECTIVES = (
    "all_gather_object",
    "gather_object",
    "broadcast_object_list",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
)


def install(machine: Machine, patches: Patches) -> None:
    """Let process groups that ask for NCCL run on Gloo and still say NCCL."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import distributed_c10d as c10d

    nccl: set[int] = set()

    def is_nccl(group: Any = None) -> bool:
        group = group or c10d._get_default_group()
        return id(group) in nccl

    def init(original: Callable[..., Any]) -> Callable[..., Any]:
        def init_process_group(backend: Any = None, *args: Any, **kwargs: Any) -> Any:
            wanted = backend is None or "nccl" in str(backend)
            kwargs.pop("device_id", None)
            result = original("gloo" if wanted else backend, *args, **kwargs)
            if wanted:
                machine.nccl = True
                nccl.add(id(c10d._get_default_group()))
            return result

        return init_process_group

    def new_group(original: Callable[..., Any]) -> Callable[..., Any]:
        def make(*args: Any, **kwargs: Any) -> Any:
            backend = kwargs.get("backend")
            if backend is not None and "nccl" in str(backend):
                kwargs["backend"] = "gloo"
            made = original(*args, **kwargs)
            if kwargs.get("backend") is None or "nccl" in str(backend):
                nccl.add(id(made))
            return made

        return make

    answers: dict[str, Callable[[Any], Callable[..., Any]]] = {
        "init_process_group": init,
        "new_group": new_group,
        "is_nccl_available": lambda original: lambda: True,
        "get_backend": lambda original: (
            lambda group=None: "nccl" if is_nccl(group) else original(group)
        ),
        "_get_object_coll_device": lambda original: (
            lambda group=None: "cuda" if is_nccl(group) else original(group)
        ),
    }
    for name, make in answers.items():
        patches.wrap(c10d, name, make)
    for name in _OBJECT_COLLECTIVES:
        if hasattr(c10d, name):
            patches.wrap(c10d, name, lambda original: _collective(machine, original))


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
