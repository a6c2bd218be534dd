"""One run: makes the recording, starts the collectors, unwinds them, closes the recording."""

from __future__ import annotations

import os
import platform
import sys
import time
import uuid
import weakref
from dataclasses import replace
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

from syncscope.callsite import StackTable
from syncscope.collectors import Collectors
from syncscope.context import CaptureContext
from syncscope.errors import UsageError
from syncscope.interrupts import uninterrupted
from syncscope.options import RecordOptions
from syncscope.patches import Patches
from syncscope.progress import Progress
from syncscope.recording.folders import rank_and_size
from syncscope.recording.manifest import Device, Exit, Manifest
from syncscope.recording.processes import this_process
from syncscope.recording.tables import FrameRow, HostRow
from syncscope.recording.writer import RecordingWriter
from syncscope.shadow.gpus import find_gpu
from syncscope.sources import copy_sources
from syncscope.version import __version__
from syncscope.warning_lines import install_warning_lines
from syncscope.windows import Windows

if TYPE_CHECKING:
    from syncscope.capture.cuda_start import CudaStart
    from syncscope.capture.flights import Flights
    from syncscope.capture.operators import DetailSteps
    from syncscope.capture.step_marks import StepMarks
    from syncscope.capture.sync_warnings import SyncWarnings

_NOT_BEGUN = "the program had not imported torch: there was nothing to record"


_live: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _abandon_in_child() -> None:
    for recorder in list(_live):
        recorder.abandon()


def _forget_flights() -> None:
    for recorder in list(_live):
        recorder.forget_flights()


# A hook that cannot be taken back again: so there is one for all recorders.
os.register_at_fork(before=_forget_flights, after_in_child=_abandon_in_child)


class Recorder:
    """One run: `start` after torch is imported, `stop` once, whatever happened in between."""

    def __init__(self, folder: Path, options: RecordOptions) -> None:
        find_gpu(options.shadow_gpu)  # raises UsageError before the program runs, not in it
        self.options = options
        rank, world_size = rank_and_size()
        origin = time.time_ns()
        self._manifest = Manifest(
            run_id=uuid.uuid4().hex,
            argv=options.argv,
            simulated=False,
            imported=False,
            origin_unix_ns=origin,
            versions={"syncscope": __version__, "python": platform.python_version()},
            rank=rank,
            world_size=world_size,
            process=this_process(),
            notes=(_NOT_BEGUN,),
            command=tuple(sys.orig_argv),
        )
        self.writer = RecordingWriter(folder, self._manifest)
        self.context = CaptureContext(self.writer, StackTable(), origin_unix_ns=origin)
        self.writer.before_flush.append(self._resolve_stacks)
        self._patches = Patches()
        self._collectors = Collectors()
        self._windows = Windows(self.context, self._collectors)
        self._progress = Progress(options, self.context, self._windows, self._collectors)
        self._step_marks: StepMarks | None = None
        self._cuda_start: CudaStart | None = None
        self._flights: Flights | None = None
        self._readback_code: CodeType | None = None
        self._overhead: dict[str, float] = {}
        self._pid = os.getpid()
        _live.add(self)

    @property
    def folder(self) -> Path:
        """Where the recording is."""
        return self.writer.folder

    @uninterrupted()
    def start(self) -> None:
        """Install the collectors. Raises UsageError when the device asked for is not there."""
        import torch

        from syncscope.capture.step_marks import StepMarks

        began = time.perf_counter()
        cuda = torch.cuda.device_count() > 0
        if self.options.device == "cuda" and not cuda:
            raise UsageError("there is no CUDA device here; use --device shadow or auto")
        if self.options.calibrate and not cuda:
            raise UsageError("calibration needs a real GPU: there is no CUDA device here")
        self._manifest = replace(
            self._manifest, notes=(), versions=self._manifest.versions | _torch_versions()
        )
        install_warning_lines(self._patches)
        if self.options.device == "shadow" or not cuda:
            self._start_shadow()
        else:
            self._start_real()
        self._step_marks = StepMarks(self.context, self._progress.step_ended)
        self._collectors.start(self._step_marks, pausable=False)
        if os.getpid() != self._pid:
            return  # forked before torch was imported: the child has a GPU, but no recording
        self.writer.start()
        self._publish()
        self._overhead["start_s"] = time.perf_counter() - began

    @uninterrupted()
    def stop(self, exit_code: int = 0, exception: str = "", *, exiting: bool = False) -> None:
        """Unwind everything, close the recording. Runs in the owner only.

        A recording that was not `started` leaves no folder behind.

        Raises nothing but KeyboardInterrupt, once all is done.

        `exiting`: the process ends right after, as under `syncscope run`.
        """
        if os.getpid() != self._pid:
            return
        began = time.perf_counter()
        if self._cuda_start is not None:
            self._cuda_start.stop()
        self._progress.end(exiting=exiting)
        self._collectors.stop()
        self._patches.undo()
        if not self.started:
            self.writer.discard()
            return
        self._overhead["stop_s"] = time.perf_counter() - began
        self.writer.flush()
        sources = {}
        if self.options.keep_sources:
            sources = copy_sources(self.context.stacks.files, self.folder)
        self._manifest = replace(
            self._current_manifest(),
            state="complete",
            exit=Exit(exit_code, exception),
            sources=sources,
            notes=self._progress.notes(),
        )
        self.writer.close(self._manifest)

    def mark_step(self) -> None:
        """A step ended (`syncscope.step()`)."""
        if self._step_marks is not None and os.getpid() == self._pid:
            self._step_marks.mark("api", "")

    def allowed(self, start_ns: int, reason: str, stack_id: int) -> None:
        """Waits of this thread since `start_ns` were allowed, at this line, for this reason."""
        thread, end_ns = self.context.threads.current(), self.context.now()
        row = HostRow(thread, start_ns, end_ns, "allow", reason, stack_id)
        self.writer.rows("host").append(row)

    def forget_flights(self) -> None:
        """Let go of CUDA's events: one that ends in a forked child ends the child."""
        if self._flights is not None:
            self._flights.forget()

    def abandon(self) -> None:
        """Let go without writing: for a forked child, which owns no recording."""
        self.writer.abandon()
        self._windows.abandon()
        if not self._manifest.simulated:
            self._progress.end(exiting=True)
            self._collectors.stop()
            self._patches.undo()

    @property
    def started(self) -> bool:
        """Whether the program imported torch and the collectors could be installed."""
        return self._step_marks is not None

    @property
    def failure(self) -> str:
        """Why the recording could not be written to its end, or ""."""
        return self.writer.failure

    def _start_shadow(self) -> None:
        from syncscope.shadow.gpu import ShadowGpu

        shadow = ShadowGpu(self.context, self.options.shadow_gpu, self.options.shadow_gpus)
        shadow.start()
        self._collectors.adopt(shadow)
        off = "the GPU is simulated"
        for name in ("sync_warnings", "transfers", "explicit_waits", "activity", "nvml"):
            self._collectors.note(name, "off", off)
        self._manifest = replace(
            self._manifest,
            simulated=True,
            devices=tuple(Device(index, name) for index, name in enumerate(shadow.devices)),
        )
        self._progress.begin(None)

    def _start_real(self) -> None:
        import torch

        from syncscope.capture.cuda_start import CudaStart
        from syncscope.capture.explicit_waits import ExplicitWaits
        from syncscope.capture.flights import Flights
        from syncscope.capture.host_events import HostEvents
        from syncscope.capture.nvml import Nvml
        from syncscope.capture.transfers import Transfers
        from syncscope.capture.uncompiled import leave_uncompiled

        context, start = self.context, self._collectors.start
        self._flights = Flights(context)
        transfers = Transfers(context, self._flights)
        start(transfers)
        self._readback_code = transfers.readbacks.code
        start(self._flights)
        for make in (ExplicitWaits, HostEvents):
            start(make(context))
        if torch.version.hip:
            self._collectors.note("nvml", "off", "an AMD GPU has none")
        else:
            start(Nvml(context))
        waiting = "the program has not used CUDA yet"
        for name in ("sync_warnings", "activity", "sampler", "operators"):
            self._collectors.note(name, "off", waiting)
        self._cuda_start = CudaStart(self._on_cuda)
        leave_uncompiled("syncscope")
        self._cuda_start.start()

    def _on_cuda(self) -> None:
        import torch

        from syncscope.capture.gpu_activity import GpuActivity
        from syncscope.capture.sampler import Sampler
        from syncscope.capture.sync_warnings import SyncWarnings
        from syncscope.capture.uncompiled import leave_uncompiled

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        self._manifest = replace(
            self._manifest, devices=tuple(Device(i, name) for i, name in enumerate(names))
        )
        warned = SyncWarnings(self.context, self._readback_code)
        self._collectors.start(warned)
        if not self.options.gpu_activity:
            self._collectors.note("activity", "off", "switched off")
            self._collectors.note("sampler", "off", "needs GPU activity")
        else:
            self._windows.activity = GpuActivity(self.context, self._windows.interrupted)
            self._windows.sampler = Sampler(self.context)
            self._collectors.note("activity", "on")
            self._collectors.note("sampler", "on")
        self._progress.begin(self._detail(warned))
        leave_uncompiled("syncscope")  # once more: these modules were not loaded before
        self._publish()

    def _detail(self, warned: SyncWarnings) -> DetailSteps | None:
        from syncscope.capture.operators import DetailSteps

        options = self.options
        if options.detail == "lines":
            self._collectors.note("operators", "off", "switched off")
        elif options.detail == "auto" and options.warmup < 2:
            self._collectors.note("operators", "off", "needs a warm-up of 2 steps or more")
        elif self._flights is not None:
            self._collectors.note("operators", "on")
            return DetailSteps(self.context, warned, self._flights)
        return None

    def _current_manifest(self) -> Manifest:
        return replace(
            self._manifest,
            windows=tuple(self._windows.closed),
            details=tuple(self._progress.details),
            collectors=self._collectors.statuses(),
            threads=self.context.threads.rows(),
            overhead=self._overhead | self._windows.overhead | self._progress.calibration.ratios(),
        )

    def _publish(self) -> None:
        if os.getpid() == self._pid:
            self.writer.publish(self._current_manifest())

    def _resolve_stacks(self) -> None:
        frames, stacks = self.writer.rows("frames"), self.writer.rows("stacks")
        for row in self.context.stacks.resolve():
            (frames if isinstance(row, FrameRow) else stacks).append(row)


def _torch_versions() -> dict[str, str]:
    import torch

    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    if torch.version.hip:
        versions["hip"] = torch.version.hip
    return versions
