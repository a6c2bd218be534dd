"""The shadow GPU as a collector: started, the program finds CUDA where there is none."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from syncscope.context import CaptureContext
from syncscope.errors import UsageError
from syncscope.shadow import (
    autocast,
    cuda_api,
    cuda_streams,
    devices,
    distributed,
    generators,
    linalg_api,
    parallel,
    scripts,
    storage_api,
    tensor_api,
    threads,
    torch_api,
    unsupported,
)
from syncscope.shadow.dispatch_mode import ShadowDispatchMode
from syncscope.shadow.gpus import find_gpu
from syncscope.shadow.machine import Machine
from syncscope.shadow.marks import gpu_of
from syncscope.shadow.operators import Operators
from syncscope.shadow.patching import FunctionPatches


class ShadowGpu:
    """Collector that plays `count` GPUs of a named model. One at a time in a process."""

    name = "shadow"
    _running: ShadowGpu | None = None

    def __init__(self, context: CaptureContext, gpu: str = "H200", count: int = 1) -> None:
        if count < 1:
            raise UsageError(f"the number of shadow GPUs must be at least 1, not {count}")
        self.context = context
        self.model = find_gpu(gpu)
        self.count = count
        self._machine: Machine | None = None
        self._patches = FunctionPatches()
        self._mode: ShadowDispatchMode | None = None
        self._local = threading.local()
        self._clock_before: Callable[[], int] | None = None

    @property
    def devices(self) -> list[str]:
        """Names of the GPUs, as a report shows them."""
        return [f"{self.model.name} (shadow)"] * self.count

    def start(self) -> None:
        """Make CUDA appear, on this thread and on those that start from now on."""
        if ShadowGpu._running is not None:
            raise UsageError("a shadow GPU is running in this process already; stop it first")
        machine = self._machine = Machine(self.context, self.model, self.count)
        self._mode = ShadowDispatchMode(_operators(machine))
        self._clock_before = self.context.clock
        try:
            self._install(machine)
            self.context.clock = machine.timeline.now
            ShadowGpu._running = self
            self._enter_thread()
        except BaseException:
            self._patches.undo()
            self.context.clock = self._clock_before
            ShadowGpu._running = None
            raise

    def stop(self) -> None:
        """Put everything back. Also correct after the program raised, and when called twice."""
        machine, mode = self._machine, self._mode
        if machine is None or mode is None:
            return
        self._machine = self._mode = None
        try:
            leave(mode)
            mode.handlers = _PassOn()
            if not machine.forked:
                machine.finish()
        finally:
            threads.unwatch_forks(self)
            cuda_streams.forget(machine)
            self._patches.undo()
            self.context.clock = machine.timeline.now
            ShadowGpu._running = None

    def after_fork(self) -> None:
        """In a forked child: the recording is the parent's, and CUDA cannot be used.

        The dispatch mode stays, to raise CUDA's error; nothing is recorded.
        """
        machine = self._machine
        if machine is None:
            return
        machine.forked = True
        machine.blocking = machine.transfers = _Nowhere()
        machine.timeline.forget()

    def _install(self, machine: Machine) -> None:
        patches = self._patches
        devices.install(patches, self._enter_thread)
        api = tensor_api.install(machine, patches, self._enter_thread)
        storage_api.install(api, patches)
        torch_api.install(api, patches)
        cuda = cuda_api.install(machine, patches)
        autocast.install(patches)
        generators.install(cuda, patches)
        distributed.install(machine, patches)
        parallel.install(patches)
        linalg_api.install(patches)
        scripts.install(patches)
        unsupported.install(machine, patches)
        threads.install(machine, patches, self._enter_thread)
        threads.watch_forks(self)
        self._watch_formatting()
        patches.put_aliases()
        patches.put_builtins()

    def _watch_formatting(self) -> None:
        """Put the mode back where torch formats a tensor, which it does without any mode."""
        original: Callable[..., str] = torch._tensor_str._str_intern

        @functools.wraps(original)
        def formatted(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> str:
            mode = self._mode
            if mode is None or gpu_of(tensor) < 0 or torch._C._len_torch_dispatch_stack():
                return original(tensor, *args, **kwargs)
            torch._C._push_on_torch_dispatch_stack(mode)
            try:
                return original(tensor, *args, **kwargs)
            finally:
                torch._C._pop_torch_dispatch_stack(None)

        self._patches.put(torch._tensor_str, "_str_intern", formatted)

    def _enter_thread(self) -> None:
        """Put the mode on this thread's stack, once."""
        mode = self._mode
        if mode is not None and not getattr(self._local, "entered", False):
            self._local.entered = True
            torch._C._push_on_torch_dispatch_stack(mode)


class _PassOn(dict[Any, Any]):
    """Handlers of a mode that has to stay on the stacks of other threads: it does nothing."""

    def __missing__(self, op: Any) -> Any:
        return lambda args, kwargs: op(*args, **kwargs)


class _Nowhere(list[Any]):
    """Rows of a forked child."""

    def append(self, row: Any) -> None:
        """Forget the row."""


def leave(mode: ShadowDispatchMode) -> None:
    """Take a mode off this thread's stack, whatever an exception left above it."""
    above = []
    while torch._C._len_torch_dispatch_stack():
        top = torch._C._get_dispatch_stack_at(torch._C._len_torch_dispatch_stack() - 1)
        if top is mode:
            torch._C._pop_torch_dispatch_stack(None)
            break
        above.append(torch._C._pop_torch_dispatch_stack(None))
    for other in reversed(above):
        torch._C._push_on_torch_dispatch_stack(other)


def _operators(machine: Machine) -> Operators:
    from syncscope.shadow import rules

    return Operators(machine, rules.effects_of, rules.has_rule)
