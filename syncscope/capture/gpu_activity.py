"""Kernels, copies, memsets and runtime calls of every library, from torch.profiler.

It has them from CUPTI, or from roctracer and rocprofiler where torch is built for ROCm.

Only CUDA activity is asked for: no operators, no shapes, no Python stacks. The rows stay in
CUPTI's buffers until the window ends; a run that is killed inside a window loses them. They
are read from the trace that torch.profiler writes, like a trace of somebody else: the
events that torch 2.11 gives in memory lack their kinds.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import torch

from syncscope.capture.warning_filters import quietly
from syncscope.context import CaptureContext
from syncscope.errors import SyncscopeError
from syncscope.patches import Patches
from syncscope.recording.cuda_names import MAY_WAIT
from syncscope.recording.tables import RuntimeRow
from syncscope.recording.trace_batches import batches_of, runtime_rows
from syncscope.recording.trace_contents import Activity, Calls, TraceContents
from syncscope.recording.trace_events import TraceFile

_STOPS_ANYWHERE = "profile_all_threads" in (
    torch._C._profiler._ExperimentalConfig.__init__.__doc__ or ""
)
"""Whether torch.profiler can be stopped on another thread than the one that started it."""

_RowsT = TypeVar("_RowsT", Activity, Calls)

DETACHING_CALLS = 5
DETACHING_PAUSE_S = 0.01
KINETO_ERRORS = "4"
"""ERROR of libkineto's `LoggerOutputType`, to which torch sets its log level as well.

Torch does so only after kineto came up, which says on stderr where CUPTI is taken.
"""


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
        self._thread = -1
        self._patches = Patches()
        self._gathered: list[Iterator[tuple[str, pa.RecordBatch]]] = []
        context.writer.sources.append(self._take)
        self._seen = 0
        self._last_id = 0
        self.lost = 0

    @property
    def running(self) -> bool:
        """Whether a window is open."""
        return self._profiler is not None

    @property
    def can_switch(self) -> bool:
        """Whether a window may be opened or closed at this place of the program.

        Not while a CUDA graph is captured, which torch.profiler's wait for the GPU would spoil.
        Before torch 2.7 it must stop on the thread that started it, and not in a backward pass,
        whose thread gets its former state back afterwards.
        """
        if torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing():
            return False
        here = not self.running or threading.get_ident() == self._thread
        return _STOPS_ANYWHERE or (here and torch._C._current_graph_task_id() == -1)

    @property
    def verdict(self) -> tuple[str, str]:
        """State and reason: torch.profiler gives nothing, and no error, if CUPTI is taken."""
        if self._seen:
            return "on", ""
        return "failed", (
            "torch.profiler gave no GPU activity: another tool (Nsight, compute-sanitizer, "
            "rocprof, a debugger) holds the GPU's profiling interface, or `syncscope doctor` "
            "says why"
        )

    def begin(self) -> int:
        """Open a window; returns its start. Waits for the GPU, as torch.profiler does.

        Raises RuntimeError if somebody else profiles in this process.
        """
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("the program runs torch.profiler itself, which serves one at a time")
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CUDA],
            experimental_config=_experimental_config(),
        )
        with quietly(), _environment("KINETO_LOG_LEVEL", KINETO_ERRORS):
            profiler.start()
        self._profiler, self._thread = profiler, threading.get_ident()
        self._make_way()
        return self._context.now()

    def end(self, *, exiting: bool) -> tuple[int, list[RuntimeRow]]:
        """Close the window, keep its rows; returns its end and the calls that may wait.

        Costs one wait for the GPU and, for each kernel with its launch, some 30 us, 3 KB of memory
        and 1.5 KB of disk for a moment, most of it kineto's (650,000 kernels on an H200's host).
        Unless the process is `exiting`, CUPTI is detached, because the program would stay
        slower with it. A process that exits must not: CUPTI detaches inside the program's
        next CUDA call, and hangs when that is one of the exit handlers'.
        """
        end_ns = self._context.now()
        # Reading a window can keep the writer's thread from running: a kill would take its rows.
        self._context.writer.flush()
        results = self._stop(detach=not exiting)
        if results is None:
            raise RuntimeError("torch.profiler gave no result: does another tool profile the GPU?")
        with _vanishing_file(self._context.writer.folder) as path:
            results.save(str(path))
            del results  # it holds a KB an event
            try:
                return end_ns, self._keep(path)
            except SyncscopeError as error:
                reason = "torch.profiler could not write what it gathered; is the disk full?"
                raise RuntimeError(reason) from error

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
        inner = profiler.profiler
        # torch's objects refer to each other in a circle: they would keep the events for long.
        results, inner.kineto_results = inner.kineto_results, None
        return results

    def _make_way(self) -> None:
        """Let the program start torch.profiler: torch allows one at a time in a process."""
        theirs = torch.autograd.profiler.profile
        original: Callable[[Any], None] = theirs._prepare_trace

        def prepare_trace(profiler: Any) -> None:
            if self.running:
                self._interrupted()
            original(profiler)

        self._patches.put(theirs, "_prepare_trace", prepare_trace)

    def _keep(self, path: Path) -> list[RuntimeRow]:
        context, contents, file = self._context, TraceContents(), TraceFile(path)
        for batch in file.batches():
            contents.add(batch)
        self.lost += contents.lost + file.lost
        origin_ns = context.origin_unix_ns - int(file.metadata.base_time_nanoseconds or 0)
        activity, calls = contents.take_activity(), contents.take_calls()
        threads, where = np.unique(calls.thread_id, return_inverse=True)
        numbers = np.array([context.threads.native(thread) for thread in threads], np.int64)
        calls = self._numbered_on(calls._replace(thread_id=numbers[where]))
        activity = self._numbered_on(activity)
        for rows in (calls, activity):
            self._last_id = int(rows.correlation_id.max(initial=self._last_id))
        self._gathered.append(batches_of(activity, calls, contents, origin_ns))
        self._seen += len(activity.name) + len(calls.name)
        return runtime_rows(calls, contents, origin_ns, MAY_WAIT)

    def _numbered_on(self, rows: _RowsT) -> _RowsT:
        """With correlation ids behind those of earlier windows: CUPTI counts from 1 in each."""
        ids = rows.correlation_id
        return rows._replace(correlation_id=np.where(ids > 0, ids + self._last_id, ids))

    def _take(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        gathered, self._gathered = self._gathered, []
        return itertools.chain.from_iterable(gathered)


def _experimental_config() -> Any:
    if not _STOPS_ANYWHERE:
        return None
    return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)


@contextlib.contextmanager
def _vanishing_file(folder: Path) -> Iterator[Path]:
    """A path to which torch.profiler can write much; if it is killed then, a link stays of it.

    Kineto writes to PATH.tmp and renames that to PATH. So it is given a link there, which it
    follows to a file in `folder` that has no name, and so goes with the process.
    """
    with (
        tempfile.TemporaryFile(dir=folder) as file,
        tempfile.TemporaryDirectory(dir=folder) as links,
    ):
        path = Path(links, "window.json")
        Path(f"{path}.tmp").symlink_to(f"/proc/self/fd/{file.fileno()}")
        yield path


@contextlib.contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """A variable for kineto, which keeps the value that the user gave it."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


@contextlib.contextmanager
def _detaching(wanted: bool) -> Iterator[None]:
    """Let torch.profiler detach CUPTI when it stops, and make the CUDA calls that carry it out."""
    if not wanted or torch.version.hip or "TEARDOWN_CUPTI" in os.environ:
        yield
        return
    with _environment("TEARDOWN_CUPTI", "1"):
        yield
    for _ in range(DETACHING_CALLS):
        time.sleep(DETACHING_PAUSE_S)  # a thread of kineto's prepares it
        torch.cuda.current_stream().query()
