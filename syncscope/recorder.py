"""Start, stop and unwind the collectors of one run, and close its recording.

A collector that fails never breaks the program: the run goes on without it, and the
manifest says so.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import signal
import sys
import threading
import time
import traceback
import uuid
import weakref
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from syncscope.callsite import StackTable, owner_of
from syncscope.context import CaptureContext, Collector
from syncscope.errors import UsageError
from syncscope.options import RecordOptions
from syncscope.recording.folders import rank_and_size
from syncscope.recording.manifest import (
    CollectorStatus,
    Device,
    Exit,
    Manifest,
    Window,
)
from syncscope.recording.tables import FrameRow
from syncscope.recording.writer import RecordingWriter
from syncscope.shadow.gpus import find_gpu
from syncscope.version import __version__

if TYPE_CHECKING:
    from syncscope.capture.cuda_start import CudaStart
    from syncscope.capture.gpu_activity import GpuActivity
    from syncscope.capture.step_marks import StepMarks
    from syncscope.shadow.gpu import ShadowGpu

MAX_SOURCE_BYTES = 1 << 20
NOTHING_TO_RECORD = "the program never imported torch: there was nothing to record"


_live: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _abandon_in_child() -> None:
    for recorder in list(_live):
        recorder.abandon()


# A hook that cannot be taken back again: so there is one for all recorders.
os.register_at_fork(after_in_child=_abandon_in_child)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let a Ctrl-C wait until the block is over; a second one does not wait.

    An interrupt in the middle of installing or unwinding would leave the program patched.
    """
    arrived = False

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal arrived
        if arrived:
            raise KeyboardInterrupt
        arrived = True

    before = signal.getsignal(signal.SIGINT)
    if before is None or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted, and only it may set handlers
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived:
            signal.raise_signal(signal.SIGINT)


class Recorder:
    """One run: `start` after torch is imported, `stop` once, whatever happened in between."""

    def __init__(self, folder: Path, options: RecordOptions) -> None:
        if options.device not in ("auto", "cuda", "shadow"):
            raise UsageError(f"unknown device {options.device!r}; use auto, cuda or shadow")
        if options.warmup < 0 or (options.steps is not None and options.steps < 1):
            raise UsageError("warmup counts from 0 and steps from 1")
        find_gpu(options.shadow_gpu)  # raises UsageError before the program runs, not in it
        self.options = options
        rank, world_size = rank_and_size()
        origin = time.time_ns()
        manifest = Manifest(
            run_id=uuid.uuid4().hex,
            argv=options.argv,
            simulated=False,
            imported=False,
            origin_unix_ns=origin,
            versions={"syncscope": __version__, "python": platform.python_version()},
            rank=rank,
            world_size=world_size,
            notes=(NOTHING_TO_RECORD,),
            command=tuple(sys.orig_argv),
        )
        self.writer = RecordingWriter(folder, manifest)
        self.context = CaptureContext(self.writer, StackTable(), origin_unix_ns=origin)
        self.writer.before_flush.append(self._resolve_stacks)
        self._manifest = manifest
        self._collectors: list[Collector] = []
        self._statuses: dict[str, CollectorStatus] = {}
        self._windows: list[Window] = []
        self._open_window_ns: int | None = None
        self._marks: Counter[tuple[str, str]] = Counter()
        self._warm = options.warmup == 0
        self._step_marks: StepMarks | None = None
        self._activity: GpuActivity | None = None
        self._cuda_start: CudaStart | None = None
        self._shadow: ShadowGpu | None = None
        self._overhead: dict[str, float] = {}
        self._pid = os.getpid()
        _live.add(self)

    @property
    def folder(self) -> Path:
        """Where the recording is."""
        return self.writer.folder

    @_uninterrupted()
    def start(self) -> None:
        """Install the collectors. Raises UsageError when the device asked for is not there."""
        import torch

        from syncscope.capture.step_marks import StepMarks

        began = time.perf_counter()
        cuda = torch.cuda.device_count() > 0
        if self.options.device == "cuda" and not cuda:
            raise UsageError("there is no CUDA device here; use --device shadow or auto")
        self._manifest = replace(
            self._manifest, notes=(), versions=self._manifest.versions | _torch_versions()
        )
        self._step_marks = StepMarks(self.context, self._on_step)
        if self.options.device == "shadow" or not cuda:
            self._start_shadow()
        else:
            self._start_real()
        self._try_start(self._step_marks)
        if os.getpid() != self._pid:
            return  # forked before torch was imported: the child has a GPU, but no recording
        self.writer.start()
        self._publish()
        self._overhead["start_s"] = time.perf_counter() - began

    @_uninterrupted()
    def stop(self, exit_code: int = 0, exception: str = "", *, exiting: bool = False) -> None:
        """Unwind everything, close the recording. Runs in the owner only.

        Raises nothing but KeyboardInterrupt, once all is done.

        `exiting`: the process ends right after, as under `syncscope run`.
        """
        if os.getpid() != self._pid:
            return
        began = time.perf_counter()
        if self._cuda_start is not None:
            self._cuda_start.stop()
        self._end_window(exiting=exiting)
        while self._collectors:
            self._stop_one(self._collectors.pop())
        self._overhead["stop_s"] = time.perf_counter() - began
        self.writer.flush()
        sources = self._copy_sources() if self.options.keep_sources else {}
        self._manifest = replace(
            self._current_manifest(),
            state="complete",
            exit=Exit(exit_code, exception),
            sources=sources,
        )
        self.writer.close(self._manifest)

    def mark_step(self) -> None:
        """A step ended (`syncscope.step()`)."""
        if self._step_marks is not None and os.getpid() == self._pid:
            self._step_marks.mark("api", "")

    def abandon(self) -> None:
        """Let go without writing: for a forked child, which owns no recording."""
        self.writer.abandon()
        self._activity = None
        if self._shadow is None:
            while self._collectors:
                self._stop_one(self._collectors.pop())

    @property
    def started(self) -> bool:
        """Whether the program imported torch, so that the collectors were installed."""
        return self._step_marks is not None

    @property
    def failure(self) -> str:
        """Why the recording could not be written to its end, or ""."""
        return self.writer.failure

    def _start_shadow(self) -> None:
        from syncscope.shadow.gpu import ShadowGpu

        shadow = ShadowGpu(self.context, self.options.shadow_gpu, self.options.shadow_gpus)
        shadow.start()
        self._shadow = shadow
        self._collectors.append(shadow)
        self._statuses["shadow"] = CollectorStatus("shadow", "on")
        off = "the GPU is simulated"
        for name in ("sync_warnings", "transfers", "explicit_waits", "activity", "nvml"):
            self._statuses[name] = CollectorStatus(name, "off", off)
        self._manifest = replace(
            self._manifest,
            simulated=True,
            devices=tuple(Device(index, name) for index, name in enumerate(shadow.devices)),
        )
        if self.options.warmup == 0:
            self._open_window_ns = self.context.now()

    def _start_real(self) -> None:
        from syncscope.capture.cuda_start import CudaStart
        from syncscope.capture.explicit_waits import ExplicitWaits
        from syncscope.capture.host_events import HostEvents
        from syncscope.capture.nvml import Nvml
        from syncscope.capture.transfers import Transfers

        for make in (Transfers, ExplicitWaits, HostEvents, Nvml):
            self._try_start(make(self.context))
        waiting = "the program has not used CUDA yet"
        for name in ("sync_warnings", "activity"):
            self._statuses[name] = CollectorStatus(name, "off", waiting)
        self._cuda_start = CudaStart(self._on_cuda)
        self._cuda_start.start()

    def _on_cuda(self) -> None:
        import torch

        from syncscope.capture.gpu_activity import GpuActivity
        from syncscope.capture.sync_warnings import SyncWarnings

        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        self._manifest = replace(
            self._manifest, devices=tuple(Device(i, name) for i, name in enumerate(names))
        )
        self._try_start(SyncWarnings(self.context))
        if not self.options.gpu_activity:
            self._statuses["activity"] = CollectorStatus("activity", "off", "switched off")
        else:
            self._activity = GpuActivity(self.context)
            self._statuses["activity"] = CollectorStatus("activity", "on")
        if self.options.warmup == 0:
            self._begin_window()
        self._publish()

    def _on_step(self, source: str, name: str) -> None:
        marks = self._marks
        marks[source, name] += 1
        # One step may leave marks of several kinds; those that analysis will count, count here.
        chosen = ("api", "") if marks["api", ""] else max(marks, key=marks.__getitem__)
        if (source, name) != chosen:
            return
        warmup, steps = self.options.warmup, self.options.steps
        if marks[chosen] == warmup and not self._warm:
            self._warm = True
            self._begin_window()
        elif steps is not None and marks[chosen] == warmup + steps:
            self._end_window()

    def _begin_window(self) -> None:
        self._open_window_ns = self.context.now()
        if self._activity is not None:
            try:
                self._open_window_ns = self._activity.begin()
            except Exception as error:  # noqa: BLE001  (the program must go on)
                self._activity = None
                self._statuses["activity"] = CollectorStatus("activity", "failed", str(error))
            self._overhead.setdefault("windows", 0.0)
            self._overhead["windows"] += 1

    def _end_window(self, *, exiting: bool = False) -> None:
        if self._open_window_ns is None:
            return
        start_ns, self._open_window_ns = self._open_window_ns, None
        end_ns = self.context.now()
        if self._activity is not None and self._activity.running:
            began = time.perf_counter()
            try:
                end_ns = self._activity.end(exiting=exiting)
                self._statuses["activity"] = CollectorStatus(
                    "activity", "on", lost=self._activity.lost
                )
            except Exception as error:  # noqa: BLE001  (the program must go on)
                self._statuses["activity"] = CollectorStatus("activity", "failed", str(error))
            self._overhead["collect_s"] = time.perf_counter() - began
        self._windows.append(Window(start_ns, end_ns))

    def _try_start(self, collector: Collector) -> None:
        try:
            collector.start()
        except Exception as error:  # noqa: BLE001  (the program must go on)
            reason = f"{type(error).__name__}: {error}".splitlines()[0]
            self._statuses[collector.name] = CollectorStatus(collector.name, "failed", reason)
            self._stop_one(collector)
        else:
            self._statuses[collector.name] = CollectorStatus(collector.name, "on")
            self._collectors.append(collector)

    def _stop_one(self, collector: Collector) -> None:
        try:
            collector.stop()
        except Exception:  # noqa: BLE001  (unwinding must reach every collector)
            reason = traceback.format_exc(limit=0).splitlines()[-1]
            self._statuses[collector.name] = CollectorStatus(
                collector.name, "failed", f"when stopping: {reason}"
            )

    def _current_manifest(self) -> Manifest:
        return replace(
            self._manifest,
            windows=tuple(self._windows),
            collectors=tuple(self._statuses[name] for name in sorted(self._statuses)),
            threads=self.context.threads.rows(),
            overhead=dict(self._overhead),
        )

    def _publish(self) -> None:
        if os.getpid() == self._pid:
            self.writer.publish(self._current_manifest())

    def _resolve_stacks(self) -> None:
        frames, stacks = self.writer.rows("frames"), self.writer.rows("stacks")
        for row in self.context.stacks.resolve():
            (frames if isinstance(row, FrameRow) else stacks).append(row)

    def _copy_sources(self) -> dict[str, str]:
        copies: dict[str, str] = {}
        for name, path in sorted(self.context.stacks.files.items()):
            source = Path(path)
            if owner_of(path) == "torch" or not source.is_file():
                continue
            if source.stat().st_size > MAX_SOURCE_BYTES:
                continue
            copy = f"sources/{len(copies):03d}-{source.name}"
            try:
                (self.folder / "sources").mkdir(exist_ok=True)
                shutil.copyfile(source, self.folder / copy)
            except OSError:
                continue
            copies[name] = copy
        return copies


def _torch_versions() -> dict[str, str]:
    import torch

    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    if torch.version.hip:
        versions["hip"] = torch.version.hip
    return versions
