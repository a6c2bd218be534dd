"""The collectors of a run: started, paused, stopped, and what became of each."""

from __future__ import annotations

import traceback

from syncscope.context import Collector
from syncscope.recording.manifest import CollectorStatus


class Collectors:
    """Starts and stops collectors. One that fails never breaks the program: it is noted."""

    def __init__(self) -> None:
        self._running: list[Collector] = []
        self._steady: list[Collector] = []
        self._paused: list[Collector] = []
        self._statuses: dict[str, CollectorStatus] = {}

    def note(self, name: str, state: str, reason: str = "", lost: int = 0) -> None:
        """What became of a collector: on, off or failed, and why."""
        self._statuses[name] = CollectorStatus(name, state, reason, lost)

    def statuses(self) -> tuple[CollectorStatus, ...]:
        """All that was noted, by name."""
        return tuple(self._statuses[name] for name in sorted(self._statuses))

    def adopt(self, collector: Collector) -> None:
        """Take over one that was started already, and that is never paused."""
        self._steady.append(collector)
        self.note(collector.name, "on")

    def start(self, collector: Collector, *, pausable: bool = True) -> None:
        """Start one. Those that need another's wrappers beneath their own come after it."""
        try:
            collector.start()
        except Exception as error:  # noqa: BLE001  (the program must go on)
            self.note(collector.name, "failed", one_line(error))
            self._stop(collector)
        else:
            self.note(collector.name, "on")
            (self._running if pausable else self._steady).append(collector)

    def pause(self) -> None:
        """Leave the program bare for a while."""
        while self._running:
            collector = self._running.pop()
            self._paused.append(collector)
            self._stop(collector)

    def resume(self) -> None:
        """Start again what was paused."""
        while self._paused:
            self.start(self._paused.pop())

    def stop(self) -> None:
        """Stop all, the last started first: it may have wrapped what an earlier one wrapped."""
        self._paused.clear()
        for started in (self._running, self._steady):
            while started:
                self._stop(started.pop())

    def _stop(self, collector: Collector) -> None:
        try:
            collector.stop()
        except Exception:  # noqa: BLE001  (unwinding must reach every collector)
            reason = traceback.format_exc(limit=0).splitlines()[-1]
            self.note(collector.name, "failed", f"when stopping: {reason}")


def one_line(error: Exception) -> str:
    """An exception as the reason in a status."""
    return f"{type(error).__name__}: {error}".splitlines()[0]
