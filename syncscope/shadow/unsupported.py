"""What the shadow GPU cannot run: compiled kernels. `torch.compile` runs eagerly instead."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import torch
import torch.cuda.nccl
import torch.cuda.tunable
import torch.export

from syncscope.after_import import AfterImport
from syncscope.errors import ShadowUnsupportedError
from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.standins import stand_in

_ADVICE = "the shadow GPU cannot run it; record this program on a machine with a GPU"


def refuse(what: str) -> NoReturn:
    """Stop the program with one line."""
    raise ShadowUnsupportedError(f"{what}: {_ADVICE}")


_NO_ANSWER = (
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_enable",
    "change_current_allocator",
    "CUDAPluggableAllocator",
    "GreenContext",
    "MemPool",
    "MemPoolContext",
    "use_mem_pool",
    "list_gpu_processes",
    "utilization",
    "memory_usage",
    "temperature",
    "power_draw",
    "clock_rate",
)
"""Of `torch.cuda`: other allocators, and what a real GPU's sensors say."""


def _refusing(what: str) -> Callable[..., NoReturn]:
    return lambda *args, **kwargs: refuse(what)


def refused_methods(what: str, original: type, shadow: type) -> dict[str, Callable[..., NoReturn]]:
    """Public methods of a class, called `what`, that its shadow does not have, by name."""
    return {
        name: _refusing(f"{what}.{name} was called")
        for name in dir(original)
        if not name.startswith("_") and not hasattr(shadow, name)
    }


def _refuse_all(owner: Any, names: Iterable[str], patches: FunctionPatches) -> None:
    """Refuse to call functions of a module and to make objects of its classes.

    Dynamo looks at what they are and at what they wrap, also when it is imported later on.
    """
    for name in names:
        original = getattr(owner, name, None)
        refusing = _refusing(f"{owner.__name__}.{name} was called")
        if isinstance(original, type):
            patches.put_function(owner, name, stand_in(original, refusing))
        elif original is not None:
            patches.put_function(owner, name, functools.update_wrapper(refusing, original))


def install(machine: Machine, patches: FunctionPatches) -> None:
    """Replace compilers by what can be done without a GPU."""

    def compile_(model: Any = None, **kwargs: Any) -> Any:
        machine.note("torch.compile", "run eagerly: compiled code has no shadow")
        if model is None:
            return lambda function: function
        return model

    def compile_module(module: Any, *args: Any, **kwargs: Any) -> None:
        machine.note("torch.compile", "run eagerly: compiled code has no shadow")

    patches.put_function(torch, "compile", compile_)
    patches.put(torch.nn.Module, "compile", compile_module)
    if hasattr(torch.cuda, "_compile_kernel"):
        patches.put_function(
            torch.cuda, "_compile_kernel", lambda *args, **kwargs: refuse("a CUDA kernel")
        )
    _refuse_all(torch.cuda, _NO_ANSWER, patches)
    _refuse_all(torch.accelerator, ("Graph",), patches)
    for module in (torch.cuda.nccl, torch.cuda.tunable):
        _refuse_all(module, set(module.__all__) - {"is_enabled", "tuning_is_enabled"}, patches)
    _refuse_all(torch.export, ("export", "export_for_training", "draft_export"), patches)
    patches.wrap(
        torch.autograd.profiler.profile, "__init__", lambda init: _profiling(machine, init)
    )
    from torch.cuda import jiterator

    patches.put(
        jiterator._JittedFunction,
        "__call__",
        lambda self, *args, **kwargs: refuse(f"{self.kernel_name} is a jiterator kernel"),
    )
    _refuse_triton(patches)
    _refuse_extensions(patches)


def _profiling(machine: Machine, original: Callable[..., None]) -> Callable[..., None]:
    """torch.profiler sees the CPU's side: nothing runs on a GPU that CUPTI could watch."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.pop("use_cuda", False) or kwargs.get("use_device") == "cuda":
            machine.note("torch.profiler", "records the CPU only: there is no GPU to trace")
            kwargs |= {"use_device": None, "use_cpu": True}
        original(self, *args, **kwargs)

    return __init__


def _refuse_triton(patches: FunctionPatches) -> None:
    """Also for a program that imports Triton later on; CPU builds of PyTorch come without it."""
    try:
        installed = importlib.util.find_spec("triton") is not None
        jit = importlib.import_module("triton.runtime.jit") if installed else None
    except ImportError:
        return
    if jit is None:
        return

    def run(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        name = getattr(self, "__name__", "")
        refuse(f"{name} is a Triton kernel")

    patches.put(jit.JITFunction, "run", run)


def _refuse_extensions(patches: FunctionPatches) -> None:
    """Once the program has loaded what compiles them, and setuptools with it."""
    module = "torch.utils.cpp_extension"

    def load(original: Any) -> Any:
        def checked(name: str, sources: Any, *args: Any, **kwargs: Any) -> Any:
            listed = [sources] if isinstance(sources, str) else list(sources)
            if kwargs.get("with_cuda") or any(
                str(path).endswith((".cu", ".cuh")) for path in listed
            ):
                refuse(f"{name} is a CUDA extension")
            return original(name, sources, *args, **kwargs)

        return checked

    def load_inline(original: Any) -> Any:
        def checked(name: str, cpp_sources: Any, cuda_sources: Any = None, **kwargs: Any) -> Any:
            if cuda_sources or kwargs.get("with_cuda"):
                refuse(f"{name} is a CUDA extension")
            return original(name, cpp_sources, cuda_sources, **kwargs)

        return checked

    def replace() -> None:
        patches.wrap(sys.modules[module], "load", load)
        patches.wrap(sys.modules[module], "load_inline", load_inline)

    waiting = AfterImport(module, replace)
    patches.at_undo(waiting.stop)
    waiting.start()
