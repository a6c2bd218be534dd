"""Where steps end: `syncscope.step()`, each optimizer's `step`, torch.profiler's `step`."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import StepMark


class StepMarks:
    """Collector of step marks. `listener(source, name)` hears of each before it is written.

    It returns the start of a window that it opened with this mark, so that the mark lies in
    it, or None.
    """

    name = "steps"

    def __init__(self, context: CaptureContext, listener: Callable[[str, str], int | None]) -> None:
        self._context = context
        self._rows = context.writer.rows("steps")
        self._listener = listener
        self._names: weakref.WeakKeyDictionary[Optimizer, str] = weakref.WeakKeyDictionary()
        self._patches = Patches()
        self._hook: Any = None

    def start(self) -> None:
        """Register a hook that all optimizers share and wrap `torch.profiler.profile.step`."""
        self._hook = register_optimizer_step_post_hook(self._on_optimizer)
        original = torch.profiler.profile.step

        @functools.wraps(original)
        def step(profiler: Any) -> None:
            original(profiler)
            self.mark("profiler", "")

        self._patches.put(torch.profiler.profile, "step", step)

    def stop(self) -> None:
        """Remove both."""
        if self._hook is not None:
            self._hook.remove()
        self._patches.undo()

    def mark(self, source: str, name: str) -> None:
        """Note that a step ended now."""
        context = self._context
        now_ns = context.now()
        opened_ns = self._listener(source, name)
        time_ns = now_ns if opened_ns is None else opened_ns
        self._rows.append(StepMark(time_ns, context.threads.current(), source, name))

    def _on_optimizer(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        name = self._names.get(optimizer)
        if name is None:
            name = f"{type(optimizer).__name__}#{len(self._names) + 1}"
            self._names[optimizer] = name
        self.mark("optimizer", name)
