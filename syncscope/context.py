"""What a collector is given, and what it must offer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from syncscope.callsite import StackTable
from syncscope.recording.manifest import Thread
from syncscope.recording.writer import RecordingWriter


class ThreadTable:
    """Small numbers for host threads, in the order in which they first did something."""

    def __init__(self) -> None:
        self._ids: dict[int, int] = {}
        self._names: list[str] = []
        self._lock = threading.Lock()

    def current(self) -> int:
        """Number of the calling thread. Costs a dictionary lookup once it is known."""
        return self.of(threading.get_ident())

    def of(self, ident: int) -> int:
        """Number of the thread with this ident."""
        known = self._ids.get(ident)
        return self._add(ident) if known is None else known

    def native(self, tid: int) -> int:
        """Number of the thread that a torch.profiler trace calls `tid`.

        That is the absolute value of the low 32 bits of its ident, read as a signed integer
        (kineto, output_json.h: sanitizeTid).
        """
        for ident, number in list(self._ids.items()):
            low = ident & 0xFFFFFFFF
            if tid == min(low, (1 << 32) - low):
                return number
        return self._add(tid)

    def rows(self) -> tuple[Thread, ...]:
        """All threads seen so far."""
        return tuple(Thread(number, name) for number, name in enumerate(list(self._names)))

    def _add(self, ident: int) -> int:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        with self._lock:
            if ident not in self._ids:
                self._ids[ident] = len(self._names)
                self._names.append(names.get(ident, f"native thread {len(self._names)}"))
            return self._ids[ident]


@dataclass
class CaptureContext:
    """Shared by all collectors of a run: where rows go, stacks, threads, the clock.

    `clock` gives nanoseconds since the recording's origin: by default the Unix clock, which
    CUPTI uses too; the shadow GPU puts its simulated clock there.
    """

    writer: RecordingWriter
    stacks: StackTable
    threads: ThreadTable = field(default_factory=ThreadTable)
    origin_unix_ns: int = field(default_factory=time.time_ns)
    clock: Callable[[], int] | None = None
    waits: int = 0
    """How often a hook saw the host wait, for whatever; threads may lose a count of each other."""
    after_wait: Callable[[int], None] | None = None
    """Told the time when a wait is over, on the thread that waited.

    What it does then lies in the rows of calls around the wait.
    """
    can_mute: Callable[[], bool] = lambda: False
    """Whether torch may be kept from warning of waits that a wrapper notes itself."""
    mute: Callable[[], None] = lambda: None
    """Keep it from that until `unmute`."""
    unmute: Callable[[], None] = lambda: None

    def now(self) -> int:
        """Nanoseconds since the recording's origin."""
        return time.time_ns() - self.origin_unix_ns if self.clock is None else self.clock()

    def waited(self, end_ns: int) -> None:
        """A wait of the calling thread ended and was noted."""
        listener = self.after_wait
        if listener is not None:
            listener(end_ns)


class Collector(Protocol):
    """Watches one thing from `start` to `stop` and leaves nothing behind.

    `start` may raise: the recorder then notes the reason and runs on without it. `stop` is
    called once, also after an exception, and undoes everything that `start` did.
    """

    name: str

    def start(self) -> None: ...

    def stop(self) -> None: ...
