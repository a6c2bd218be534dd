"""Threads of syncscope itself, told apart from those of the program."""

from __future__ import annotations

import os
import threading
from _thread import _count as thread_count
from collections.abc import Callable

_get_ident, _main = threading.get_ident, threading.main_thread().ident


class _Running:
    """How many of our threads are at work now."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def change(self, by: int) -> None:
        with self._lock:
            self.count += by


_running = _Running()


def start_own(work: Callable[[], None], name: str) -> threading.Thread:
    """Start a daemon thread of ours, "syncscope-" and the name."""

    def counted() -> None:
        running = _running
        running.change(1)
        try:
            work()
        finally:
            running.change(-1)

    thread = threading.Thread(target=counted, name=f"syncscope-{name}", daemon=True)
    thread.start()
    return thread


def program_has_one() -> bool:
    """Whether this is the main thread, and the program has no other thread of Python's.

    Costs 0.15 us. May say no for a moment while a thread of ours begins or ends, and always in a
    forked child, for which Python counts the threads of its parent.
    """
    return thread_count() <= _running.count and _get_ident() == _main


def _in_child() -> None:
    global _running
    _running = _Running()


os.register_at_fork(after_in_child=_in_child)
