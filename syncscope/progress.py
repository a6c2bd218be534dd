"""Follow the step marks of a run and carry out its schedule."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from syncscope.calibration import Calibration
from syncscope.collectors import Collectors
from syncscope.context import CaptureContext
from syncscope.options import RecordOptions
from syncscope.recording.manifest import Window
from syncscope.schedule import Phase, Schedule, StepCounter
from syncscope.window_limit import WindowLimit
from syncscope.windows import Windows

if TYPE_CHECKING:
    from syncscope.capture.operators import DetailSteps


class Progress:
    """Where a run stands. Marks are counted from the start, carried out from `begin` on."""

    def __init__(
        self,
        options: RecordOptions,
        context: CaptureContext,
        windows: Windows,
        collectors: Collectors,
    ) -> None:
        self.details: list[Window] = []
        self.calibration = Calibration()
        self._options = options
        self._context = context
        self._windows = windows
        self._collectors = collectors
        self._schedule = Schedule(options)
        self._limit = WindowLimit(math.inf, 0)
        self._limited = False
        self._counter = StepCounter()
        self._detail: DetailSteps | None = None
        self._detail_ns: int | None = None
        self._phase = Phase()
        self._counting = not options.start_after_s
        self._step = 0
        self._ready = self._used = False

    def begin(self, detail: DetailSteps | None) -> None:
        """The device is there. `detail` watches operators; None where that is not wanted."""
        self._detail = detail
        self._ready = self._used = True
        if self._counting:
            self._enter(self._schedule.at(self._step))

    def step_ended(self, source: str, name: str) -> int | None:
        """A mark came. Returns the start of the window that begins with it, if one does."""
        if not self._counter.counts(source, name):
            return None
        if self._counting:
            self._step += 1
        elif self._context.now() < 1e9 * self._options.start_after_s:
            return None
        self._counting = True
        return self._enter(self._next_phase()) if self._ready else None

    def end(self, *, exiting: bool) -> None:
        """The recording stops: close what is open."""
        self._context.after_wait = None
        if self._phase.calibration == "full":
            self._windows.forget()
        self._end_detail()
        self._windows.end(exiting=exiting)
        self._phase, self._ready = Phase(), False

    def notes(self) -> tuple[str, ...]:
        """How what was recorded differs from what one may expect, in words."""
        options, first = self._options, self._schedule.first
        if not self._counting:
            return (f"no step ended after the {options.start_after_s:g} s of --start-after",)
        if self._step < first:
            return (self._never_opened(first),)
        if self._used and not self._windows.closed:
            return (
                "no window could be opened where steps ended, as while a CUDA graph is captured: "
                "the figures are those of the whole run",
            )
        if options.steps is not None and self._step < first + options.steps:
            return (
                f"{options.steps} steps were asked for; the program made {self._step - first} "
                "of them",
            )
        recorded_s = sum(w.end_ns - w.start_ns for w in self._windows.closed) / 1e9
        if options.seconds is not None and recorded_s < options.seconds < math.inf:
            return (f"{options.seconds:g} s were asked for; {recorded_s:.3g} s were recorded",)
        if self._limited and options.seconds is None:
            return (
                f"the figures are those of {recorded_s:.3g} s of the "
                f"{self._context.now() / 1e9:.3g} s that the program ran; --warmup, --steps, "
                "--every and --seconds choose others",
            )
        return ()

    def _never_opened(self, first: int) -> str:
        skipped = f"{first} warm-up steps"
        if self._options.calibrate:
            skipped = f"{first} steps of warm-up and calibration"
        if self._step:
            why = f"the program made only {self._step} of the {skipped}"
        else:
            why = f"{skipped} come first, and no step ended (syncscope.step() marks where one does)"
        without = ", without GPU activity" if self._windows.activity is not None else ""
        return f"no window was opened: {why}; the figures are those of the whole run{without}"

    def _next_phase(self) -> Phase:
        """The phase of the step that begins, as far as it can begin here."""
        phase, before = self._schedule.at(self._step), self._phase
        if before.window:
            self._limit.step_ended(self._context.now())
        if self._limit.over:
            phase = Phase()
        switches = (phase.window, phase.calibration) != (before.window, before.calibration)
        if switches and not self._windows.can_switch:
            return replace(before, detail=phase.detail)
        return phase

    def _waited(self, now_ns: int) -> None:
        self._limit.waited(now_ns)
        if self._limit.over and self._windows.can_switch:
            self._enter(Phase())

    def _enter(self, phase: Phase) -> int | None:
        before, self._phase = self._phase, phase
        start_ns = None
        if before.calibration or phase.calibration:
            self._calibrate(before, phase)
        if before.window and not phase.window:
            self._context.after_wait = None
            self._limited = self._limit.over and self._windows.opened
            self._windows.end()
        if before.detail and not phase.detail:
            self._end_detail()
        if phase.detail and not before.detail:
            self._begin_detail()
        if phase.window and not before.window:
            start_ns = self._windows.begin()
            self._limit = self._limit_from(start_ns)
            self._context.after_wait = self._waited
        return start_ns

    def _limit_from(self, start_ns: int) -> WindowLimit:
        seconds = self._options.seconds
        if seconds is None and (self._options.steps is not None or not self._windows.gathering):
            seconds = math.inf
        return WindowLimit(seconds, start_ns)

    def _calibrate(self, before: Phase, phase: Phase) -> None:
        if before.calibration:
            without = before.calibration == "full" and self._windows.activity is None
            kind = "free" if without else before.calibration
            self.calibration.step_ended(kind, before.block)
        if before.calibration != phase.calibration:
            if before.calibration == "full":
                self._windows.forget()
            if before.calibration == "bare":
                self._collectors.resume()
            if phase.calibration == "full":
                self._windows.rehearse()
            if phase.calibration == "bare":
                self._collectors.pause()
        self.calibration.step_begins()

    def _begin_detail(self) -> None:
        if self._detail is None:
            return
        if self._detail.begin():
            self._detail_ns = self._context.now()
        else:
            reason = "the program has a dispatch mode of its own"
            self._collectors.note("operators", "failed", reason)

    def _end_detail(self) -> None:
        if self._detail is not None and self._detail_ns is not None:
            self._detail.end()
            self.details.append(Window(self._detail_ns, self._context.now()))
            self._detail_ns = None
