"""Python threads and forked children of a program that runs on the shadow GPU."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import FunctionPatches

OWN_PREFIX = "syncscope"

_active: weakref.WeakSet[Any] = weakref.WeakSet()
_hooked = False


def install(
    machine: Machine, patches: FunctionPatches, enter: Callable[[], None], leave: Callable[[], None]
) -> None:
    """Let threads that start from now on run `enter` first and `leave` last.

    A thread's clock starts at its parent's time; who joins it goes on at its end.
    """
    start = threading.Thread.start
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    join = threading.Thread.join

    def start_(self: Any) -> None:
        self._syncscope_now = machine.timeline.now()
        start(self)

    def bootstrap_(self: Any) -> None:
        if self.name.startswith(OWN_PREFIX):
            bootstrap(self)
            return
        machine.thread.now = getattr(self, "_syncscope_now", 0)
        enter()
        try:
            bootstrap(self)
        finally:
            self._syncscope_end = machine.timeline.now()
            leave()

    def join_(self: Any, timeout: float | None = None) -> None:
        join(self, timeout)
        if not self.is_alive():
            end = getattr(self, "_syncscope_end", 0)
            machine.thread.now = max(machine.thread.now, end)

    patches.put(threading.Thread, "start", start_)
    patches.put(threading.Thread, "_bootstrap_inner", bootstrap_)
    patches.put(threading.Thread, "join", join_)


def watch_forks(gpu: Any) -> None:
    """Call `gpu.after_fork()` in children that are forked while it is active."""
    global _hooked
    _active.add(gpu)
    if not _hooked and hasattr(os, "register_at_fork"):
        _hooked = True
        os.register_at_fork(after_in_child=_in_child)


def unwatch_forks(gpu: Any) -> None:
    """Undo `watch_forks`; the process's own fork hook stays, and finds nobody."""
    _active.discard(gpu)


def _in_child() -> None:
    for gpu in list(_active):
        gpu.after_fork()
