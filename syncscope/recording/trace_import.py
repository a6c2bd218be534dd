"""Turn a torch.profiler trace into a recording.

What becomes what:

- kernel, gpu_memcpy, gpu_memset -> `activity`; cuda_runtime, cuda_driver -> `runtime`
  (thread ids are those of the operating system).
- A copy between host and device -> `transfers`. Its interval is that of the runtime call,
  and of the wait that directly follows it on the thread, in which case it is blocking.
  Where a trace holds no wait at all (samples leave them out), copies count as blocking.
- Waits -> `blocking`, source "import". An operator that waits gives one row with the
  operator's interval and the name of the *outermost* operator of a library (aten::index
  rather than the aten::nonzero inside it): that is what the program's line says. The rest
  (a wait under no operator, and each cudaMalloc or cudaFree) has the interval of the call.
  Only calls that wait by their name, and copies to pageable memory, count as waits.
- python_function -> `stacks` and `frames` of those rows. The profiler notes the line where
  a function starts, not the line that runs; only functions that were already running when
  it started have their current line. On a thread without Python (autograd's), the stack is
  that of the `backward` call which is waiting for it.
- ProfilerStep#N -> `steps` (source "profiler"), else Optimizer.step (source "optimizer").
- Data loader annotations -> `host`.

The window is the span of the ProfilerStep marks if GPU activity lies in it, else it reaches
from the first to the last event of GPU activity and runtime calls. Time 0 is the start of
the earliest event. Memory: about 0.5 KB an event that becomes a row.
"""

from __future__ import annotations

import gc
import hashlib
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from syncscope.errors import RecordingError, UsageError
from syncscope.recording.manifest import (
    MANIFEST_NAME,
    CollectorStatus,
    Device,
    Manifest,
    Thread,
    Window,
)
from syncscope.recording.tables import (
    ActivityRow,
    HostRow,
    Row,
    RuntimeRow,
    StepMark,
)
from syncscope.recording.trace_contents import TraceContents
from syncscope.recording.trace_events import TraceFile, TraceMetadata
from syncscope.recording.trace_waits import TraceWaits
from syncscope.recording.writer import RecordingWriter
from syncscope.version import __version__

_SLICE_ROWS = 50_000


def import_trace(
    trace: Path, folder: Path, *, progress: Callable[[float], None] | None = None
) -> None:
    """Make a recording of a torch.profiler trace (.json, .json.gz) in an empty or new folder.

    `progress` is called with the part that is done, 0 to 1. Raises UsageError if the trace
    does not exist or the folder cannot be used, RecordingError if the trace is damaged, is
    none, or holds no GPU activity; then nothing is left in the folder.
    """
    _check_target(folder)
    with _no_search_for_cycles():
        _import(trace, folder, progress)


@contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Rows hold no cycles; to look for some in a million of them costs a sixth of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _import(trace: Path, folder: Path, progress: Callable[[float], None] | None) -> None:
    file = TraceFile(trace, progress)
    kept = TraceContents()
    for batch in file.batches():
        kept.add(batch)
    kept.lost += file.lost
    if not kept.events + kept.lost:
        raise RecordingError(f"{trace} holds no events")
    if not kept.activity:
        raise RecordingError(
            f"{trace} holds no GPU activity to analyse; record it with ProfilerActivity.CUDA"
        )
    kept.activity.sort(key=lambda row: row.start_ns)
    for calls in kept.calls.values():
        calls.sort()
    waits = TraceWaits(kept)
    waits.find()
    _write(folder, _manifest(trace, file.metadata, kept, waits), _tables(kept, waits))


def _check_target(folder: Path) -> None:
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} exists and is not empty; name another folder with -o")
    nearest = next(
        path for path in (folder.absolute(), *folder.absolute().parents) if path.exists()
    )
    if not nearest.is_dir():
        raise UsageError(f"cannot write a recording to {folder}: {nearest} is a file")
    if not os.access(nearest, os.W_OK):
        raise UsageError(f"cannot write a recording to {folder}: {nearest} is not writable")


def _write(folder: Path, manifest: Manifest, tables: dict[str, Iterator[Row]]) -> None:
    existed = folder.is_dir()
    try:
        writer = RecordingWriter(folder, manifest)
        for table, rows in tables.items():
            while some := list(islice(rows, _SLICE_ROWS)):
                writer.rows(table).extend(some)
                writer.flush()
        writer.close(manifest)
        if writer.failure:
            raise UsageError(f"cannot write a recording to {folder}: {writer.failure}")
    except BaseException:
        _remove(folder, keep=existed)
        raise


def _remove(folder: Path, *, keep: bool) -> None:
    """Remove what a failed import wrote; the folder was empty before (`_check_target`)."""
    shutil.rmtree(folder / "rank-0", ignore_errors=True)
    for name in (MANIFEST_NAME, MANIFEST_NAME + ".tmp"):
        (folder / name).unlink(missing_ok=True)
    if not keep and folder.is_dir():
        folder.rmdir()


def _tables(kept: TraceContents, waits: TraceWaits) -> dict[str, Iterator[Row]]:
    """Rows of all tables, their times shifted to the recording's origin."""
    origin = kept.origin_ns
    calls = [(call, thread_id) for thread_id, calls in kept.calls.items() for call in calls]
    calls.sort(key=lambda pair: pair[0].start_ns)
    return {
        "steps": iter(_steps(kept)),
        "frames": iter(waits.stacks.frames),
        "stacks": iter(waits.stacks.stacks),
        "blocking": (
            row._replace(start_ns=row.start_ns - origin, end_ns=row.end_ns - origin)
            for row in sorted(waits.blocking.values(), key=lambda row: row.start_ns)
        ),
        "transfers": (
            row._replace(start_ns=row.start_ns - origin, end_ns=row.end_ns - origin)
            for row in sorted(waits.transfers, key=lambda row: row.start_ns)
        ),
        "runtime": (
            RuntimeRow(thread_id, call[0] - origin, call[1] - origin, *call[2:])
            for call, thread_id in calls
        ),
        "activity": (
            ActivityRow(row[0], row[1], row[2] - origin, row[3] - origin, *row[4:])
            for row in kept.activity
        ),
        "host": (
            HostRow(thread_id, start - origin, end - origin, "dataloader", name, -1)
            for start, end, thread_id, name in sorted(kept.marks["dataloader"])
        ),
    }


def _steps(kept: TraceContents) -> list[StepMark]:
    """Ends of the profiler's steps, else of the optimizer that steps most often."""
    source = "profiler" if kept.marks["profiler"] else "optimizer"
    marks = sorted(kept.marks[source])
    if source == "optimizer" and marks:
        most = Counter(mark.name for mark in marks).most_common(1)[0][0]
        marks = [mark for mark in marks if mark.name == most]
    return [
        StepMark(end_ns - kept.origin_ns, thread_id, source, name)
        for _, end_ns, thread_id, name in marks
    ]


def _window(kept: TraceContents) -> Window:
    activity_end = max(row.end_ns for row in kept.activity)
    starts, ends = [kept.activity[0].start_ns], [activity_end]
    for calls in kept.calls.values():
        starts.append(calls[0].start_ns)
        ends.append(max(call.end_ns for call in calls))
    start, end = min(starts), max(ends)
    steps = kept.marks["profiler"]
    if steps:
        first, last = min(step.start_ns for step in steps), max(step.end_ns for step in steps)
        if any(row.start_ns < last and row.end_ns > first for row in kept.activity):
            start, end = first, last
    return Window(start - kept.origin_ns, end - kept.origin_ns)


def _manifest(
    trace: Path, metadata: TraceMetadata, kept: TraceContents, waits: TraceWaits
) -> Manifest:
    epoch = metadata.base_time_nanoseconds
    distributed = metadata.distributed_info if isinstance(metadata.distributed_info, dict) else {}
    ranks = {key: value for key, value in distributed.items() if isinstance(value, int)}
    window = _window(kept)
    identity = f"{metadata.trace_id} {kept.events} {kept.origin_ns} {window}"
    notes = [f"imported from {trace.name}"]
    if waits.stacks.frames:
        notes.append("lines are those where functions start: PyTorch's traces have no others")
    return Manifest(
        run_id=hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16],
        argv=(str(trace),),
        simulated=False,
        imported=True,
        origin_unix_ns=kept.origin_ns + (epoch if isinstance(epoch, int) else 0),
        versions=_versions(metadata),
        devices=_devices(metadata, kept),
        windows=(window,),
        collectors=_collectors(metadata, kept),
        threads=tuple(
            Thread(thread_id, kept.thread_names.get(thread_id, f"thread {thread_id}"))
            for thread_id in sorted({*kept.calls, *kept.operators, *kept.functions})
        ),
        rank=ranks.get("rank", 0),
        world_size=ranks.get("world_size", 1),
        state="complete",
        notes=tuple(notes),
    )


def _collectors(metadata: TraceMetadata, kept: TraceContents) -> tuple[CollectorStatus, ...]:
    def status(name: str, rows: Any, reason: str) -> CollectorStatus:
        return CollectorStatus(name, "on" if rows else "off", "" if rows else reason)

    no_stacks = (
        "the trace holds no Python functions"
        if metadata.with_stack
        else "the trace was recorded without with_stack"
    )
    return (
        CollectorStatus("activity", "on", lost=kept.lost),
        status("runtime", kept.calls, "the trace holds no CUDA or HIP calls"),
        status("waits", kept.has_waits, "the trace holds no synchronize calls"),
        status("operators", kept.operators, "the trace was recorded without ProfilerActivity.CPU"),
        status("stacks", kept.functions, no_stacks),
        status(
            "steps",
            kept.marks["profiler"] or kept.marks["optimizer"],
            "the trace holds no steps; record it with a schedule and call step()",
        ),
        CollectorStatus("nvml", "off", "a trace holds no driver counters"),
    )


def _devices(metadata: TraceMetadata, kept: TraceContents) -> tuple[Device, ...]:
    """Devices that did something; the others of the host are no part of the run."""
    listed = metadata.device_properties if isinstance(metadata.device_properties, list) else []
    names = {
        device["id"]: str(device["name"])
        for device in listed
        if isinstance(device, dict) and isinstance(device.get("id"), int) and "name" in device
    }
    # under HIP the listed ids are those before, the events' those after device masking
    common = next(iter(names.values())) if len(set(names.values())) == 1 else ""
    return tuple(
        Device(index, names.get(index) or common or f"GPU {index}")
        for index in sorted({row.device for row in kept.activity})
    )


def _versions(metadata: TraceMetadata) -> dict[str, str]:
    versions = {"syncscope": __version__}
    for name, number in (
        ("cuda", metadata.cuda_runtime_version),
        ("hip", metadata.hip_runtime_version),
        ("driver", metadata.cuda_driver_version or metadata.hip_driver_version),
    ):
        if isinstance(number, int) and number > 0:
            cuda = f"{number // 1000}.{number % 1000 // 10}"
            versions[name] = cuda if metadata.cuda_runtime_version else str(number)
    return versions
