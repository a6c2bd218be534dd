"""Kernels, copies, memsets and runtime calls of every library, from torch.profiler.

It has them from CUPTI, or from roctracer and rocprofiler where torch is built for ROCm.

Only CUDA activity is asked for: no operators, no shapes, no Python stacks. The rows stay in
CUPTI's buffers until the window ends; a run that is killed inside a window loses them. They
are read from the trace that torch.profiler writes, like a trace of somebody else: the
events that torch 2.11 gives in memory lack their kinds.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from syncscope.capture.warning_filters import quietly
from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import ActivityRow, RuntimeRow
from syncscope.recording.trace_batches import activity_columns, as_rows, runtime_columns
from syncscope.recording.trace_contents import TraceContents
from syncscope.recording.trace_events import TraceFile

DETACHING_CALLS = 5
DETACHING_PAUSE_S = 0.01


class GpuActivity:
    """Records one window at a time between `begin` and `end`.

    `interrupted` is called when the program is about to start torch.profiler itself while a
    window is open, which torch would refuse; it must end the window.
    """

    name = "activity"

    def __init__(self, context: CaptureContext, interrupted: Callable[[], None]) -> None:
        self._context = context
        self._interrupted = interrupted
        self._profiler: Any = None
        self._patches = Patches()
        self._seen = 0
        self.lost = 0

    @property
    def running(self) -> bool:
        """Whether a window is open."""
        return self._profiler is not None

    @property
    def verdict(self) -> tuple[str, str]:
        """State and reason: torch.profiler gives nothing, and no error, if CUPTI is taken."""
        if self._seen:
            return "on", ""
        return "failed", (
            "torch.profiler gave no GPU activity: nothing ran in the window, or another tool "
            "(Nsight, rocprof, a debugger) holds the GPU's profiling interface"
        )

    def begin(self) -> int:
        """Open a window; returns its start. Waits for the GPU, as torch.profiler does.

        Raises RuntimeError if somebody else profiles in this process.
        """
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("the program runs torch.profiler itself, which serves one at a time")
        profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA])
        with quietly():
            profiler.start()
        self._profiler = profiler
        self._make_way()
        return self._context.now()

    def end(self, *, exiting: bool) -> tuple[int, list[RuntimeRow]]:
        """Close the window, append its rows; returns its end and its runtime calls.

        Costs one wait for the GPU and, for each event, some 5 us and 0.5 KB of disk for a
        moment (21,000 events of a trace with operators and kernels, on two CPU cores).
        Unless the process is `exiting`, CUPTI is detached, because the program would stay
        slower with it. A process that exits must not: CUPTI detaches inside the program's
        next CUDA call, and hangs when that is one of the exit handlers'.
        """
        end_ns = self._context.now()
        results = self._stop(detach=not exiting)
        if results is None:
            raise RuntimeError("torch.profiler gave no result: does another tool profile the GPU?")
        with tempfile.TemporaryDirectory(dir=self._context.writer.folder) as folder:
            path = Path(folder) / "window.json"
            results.save(str(path))
            return end_ns, self._append(path)

    def discard(self) -> None:
        """Close the window and throw its rows away. Costs one wait for the GPU."""
        self._stop(detach=True)

    def abandon(self) -> None:
        """Forget the window: for a forked child, in which CUPTI does not work."""
        self._patches.undo()
        self._profiler = None

    def _stop(self, *, detach: bool) -> Any:
        self._patches.undo()
        profiler, self._profiler = self._profiler, None
        with quietly(), _detaching(detach):
            profiler.stop()
        return profiler.profiler.kineto_results

    def _make_way(self) -> None:
        """Let the program start torch.profiler: torch allows one at a time in a process."""
        theirs = torch.autograd.profiler.profile
        original: Callable[[Any], None] = theirs._prepare_trace

        def prepare_trace(profiler: Any) -> None:
            if self.running:
                self._interrupted()
            original(profiler)

        self._patches.put(theirs, "_prepare_trace", prepare_trace)

    def _append(self, path: Path) -> list[RuntimeRow]:
        context, contents, file = self._context, TraceContents(), TraceFile(path)
        for batch in file.batches():
            contents.add(batch)
        self.lost += contents.lost + file.lost
        shift = int(file.metadata.base_time_nanoseconds or 0) - context.origin_unix_ns
        activity = contents.take_activity()
        context.writer.rows("activity").extend(
            map(ActivityRow._make, as_rows(activity_columns(activity, contents, -shift)))
        )
        calls = [
            RuntimeRow(context.threads.native(thread_id), *row)
            for thread_id, *row in as_rows(runtime_columns(contents.take_calls(), contents, -shift))
        ]
        context.writer.rows("runtime").extend(calls)
        self._seen += len(activity.name) + len(calls)
        return calls


@contextlib.contextmanager
def _detaching(wanted: bool) -> Iterator[None]:
    """Let torch.profiler detach CUPTI when it stops, and make the CUDA calls that carry it out."""
    if not wanted or torch.version.hip or "TEARDOWN_CUPTI" in os.environ:
        yield
        return
    os.environ["TEARDOWN_CUPTI"] = "1"
    try:
        yield
    finally:
        del os.environ["TEARDOWN_CUPTI"]
    for _ in range(DETACHING_CALLS):
        time.sleep(DETACHING_PAUSE_S)  # a thread of kineto's prepares it
        torch.cuda.current_stream().query()
