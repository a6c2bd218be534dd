"""Open and close the windows in which GPU activity is recorded."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from syncscope.collectors import Collectors, one_line
from syncscope.context import CaptureContext
from syncscope.interrupts import uninterrupted
from syncscope.recording.manifest import Window
from syncscope.recording.tables import RuntimeRow

if TYPE_CHECKING:
    from syncscope.capture.gpu_activity import GpuActivity
    from syncscope.capture.sampler import Sampler


class Windows:
    """The windows of a run. `activity` and `sampler` are set once the program uses CUDA."""

    def __init__(self, context: CaptureContext, collectors: Collectors) -> None:
        self.activity: GpuActivity | None = None
        self.sampler: Sampler | None = None
        self.closed: list[Window] = []
        self.overhead: dict[str, float] = {}
        """Seconds spent on opening (open_s) and on closing (collect_s) windows."""
        self._context = context
        self._collectors = collectors
        self._open_ns: int | None = None

    @property
    def can_switch(self) -> bool:
        """Whether a window may be opened or closed at this place of the program."""
        try:
            return self.activity is None or self.activity.can_switch
        except Exception:  # noqa: BLE001  (CUDA has failed: the program will hear of it)
            return False

    @property
    def gathering(self) -> bool:
        """Whether GPU activity is being recorded."""
        return self.activity is not None and self.activity.running

    @property
    def opened(self) -> bool:
        """Whether a window is open: the program itself may have ended it."""
        return self._open_ns is not None

    @uninterrupted()
    def begin(self) -> int:
        """Open a window; returns its start. GPU activity that cannot begin is noted."""
        began = time.perf_counter()
        self._open_ns = self._begin_activity()
        self._spent("open_s", began)
        return self._open_ns

    @uninterrupted()
    def end(self, *, exiting: bool = False) -> None:
        """Close the open window, if there is one. `exiting`: the process ends right after."""
        if self._open_ns is None:
            return
        start_ns, self._open_ns = self._open_ns, None
        began, end_ns = time.perf_counter(), self._context.now()
        try:
            end_ns = self._end_activity(end_ns, exiting=exiting)
        finally:
            self.closed.append(Window(start_ns, end_ns))
            self._spent("collect_s", began)

    def abandon(self) -> None:
        """Forget the open window: for a forked child, in which CUPTI does not work."""
        if self.activity is not None:
            self.activity.abandon()
        self.activity = self.sampler = self._open_ns = None

    @uninterrupted()
    def rehearse(self) -> None:
        """Record GPU activity that `forget` will throw away, to see what it costs."""
        self._begin_activity()

    @uninterrupted()
    def forget(self) -> None:
        """End a rehearsal."""
        if self.activity is not None and self.activity.running:
            self.activity.discard()
        if self.sampler is not None:
            self.sampler.end(())

    def interrupted(self) -> None:
        """The program starts torch.profiler, which cannot share CUPTI: the window ends here."""
        self.end()
        self._collectors.note(
            "activity", "on", "a window ended where the program started torch.profiler"
        )

    def _begin_activity(self) -> int:
        if self.activity is None:
            return self._context.now()
        try:
            start_ns = self.activity.begin()
        except Exception as error:  # noqa: BLE001  (the program must go on)
            self._collectors.note("activity", "failed", one_line(error))
            return self._context.now()
        self._collectors.note("activity", "on")
        if self.sampler is not None:
            self.sampler.begin()
        return start_ns

    def _end_activity(self, end_ns: int, *, exiting: bool) -> int:
        activity, calls = self.activity, list[RuntimeRow]()
        if activity is None or not activity.running:
            return end_ns
        try:
            end_ns, calls = activity.end(exiting=exiting)
        except Exception as error:  # noqa: BLE001  (the program must go on)
            self._collectors.note("activity", "failed", one_line(error))
        else:
            self._collectors.note("activity", *activity.verdict, activity.lost)
        finally:
            if self.sampler is not None:
                self.sampler.end(calls)
        return end_ns

    def _spent(self, name: str, began: float) -> None:
        self.overhead[name] = self.overhead.get(name, 0.0) + time.perf_counter() - began
