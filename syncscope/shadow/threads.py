"""Python threads and forked children of a program that runs on the shadow GPU."""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures.thread import _WorkItem
from typing import Any

from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import FunctionPatches

OWN_PREFIX = "syncscope"
_TIME = "_syncscope_time"

_active: weakref.WeakSet[Any] = weakref.WeakSet()
_hooked = False


def install(machine: Machine, patches: FunctionPatches, enter: Callable[[], None]) -> None:
    """Let threads that start from now on run `enter` first, and keep their clocks in order.

    A thread's clock starts at its parent's time; who joins it goes on at its end, who is woken
    by it not before the time at which it did so, and who gets what it put in a queue neither.
    """
    start = threading.Thread.start
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]
    join = threading.Thread.join

    def start_(self: Any) -> None:
        _leave_time(machine, self)
        start(self)

    def bootstrap_(self: Any) -> None:
        if self.name.startswith(OWN_PREFIX):
            bootstrap(self)
            return
        _catch_up(machine, self)
        enter()
        try:
            bootstrap(self)
        finally:
            _leave_time(machine, self)

    def join_(self: Any, timeout: float | None = None) -> None:
        join(self, timeout)
        if not self.is_alive():
            _catch_up(machine, self)

    patches.put(threading.Thread, "start", start_)
    patches.put(threading.Thread, "_bootstrap_inner", bootstrap_)
    patches.put(threading.Thread, "join", join_)
    for owner, name in (
        (threading.Condition, "notify"),
        (queue.Queue, "put"),
        (_WorkItem, "__init__"),
    ):
        patches.put(owner, name, _before(machine, getattr(owner, name)))
    patches.put(queue.Queue, "get", _after(machine, queue.Queue.get))
    patches.put(_WorkItem, "run", _upon(machine, _WorkItem.run))
    patches.put(threading.Condition, "wait", _waiting(machine, threading.Condition.wait))
    patches.put_function(time, "sleep", _sleeping(machine, time.sleep))


def _leave_time(machine: Machine, carrier: Any) -> None:
    """Note on an object that threads share when this thread has handed it on."""
    known = getattr(carrier, _TIME, 0)
    setattr(carrier, _TIME, max(known, machine.timeline.now()))


def _catch_up(machine: Machine, carrier: Any) -> None:
    """This thread goes on no earlier than others have handed the object on."""
    thread = machine.thread
    thread.now = max(thread.now, getattr(carrier, _TIME, 0))


def _before(machine: Machine, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        _leave_time(machine, self)
        return original(self, *args, **kwargs)

    return call


def _after(machine: Machine, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, *args, **kwargs)
        _catch_up(machine, self)
        return result

    return call


def _upon(machine: Machine, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(self: Any, *args: Any) -> Any:  # the worker's context, from Python 3.14 on
        _catch_up(machine, self)
        return original(self, *args)

    return call


def _waiting(machine: Machine, original: Callable[..., bool]) -> Callable[..., bool]:
    """`Condition.wait`, below events, semaphores, queues and futures; a timeout passes."""

    def wait(self: Any, timeout: float | None = None) -> bool:
        woken = original(self, timeout)
        if woken:
            _catch_up(machine, self)
        elif timeout is not None and timeout > 0:
            machine.thread.now += int(timeout * 1e9)
        return woken

    return wait


def _sleeping(machine: Machine, original: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float, /) -> None:
        original(seconds)
        machine.thread.now += int(seconds * 1e9)

    return sleep


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
