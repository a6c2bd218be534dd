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
the earliest event of those above. Costs about 1.6 us and 130 bytes of memory an event.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from syncscope.errors import RecordingError, UsageError
from syncscope.recording.manifest import (
    MANIFEST_NAME,
    CollectorStatus,
    Device,
    Manifest,
    Thread,
    Window,
)
from syncscope.recording.tables import HostRow, Row, StepMark
from syncscope.recording.trace_batches import batches_of
from syncscope.recording.trace_contents import Activity, Annotation, Calls, Spans, TraceContents
from syncscope.recording.trace_events import TraceFile, TraceMetadata
from syncscope.recording.trace_waits import TraceWaits, Waits
from syncscope.recording.writer import RecordingWriter
from syncscope.version import __version__


def import_trace(
    trace: Path, folder: Path, *, progress: Callable[[float], None] | None = None
) -> None:
    """Make a recording of a torch.profiler trace (.json, .json.gz) in an empty or new folder.

    `progress` is called with the part that is done, 0 to 1. Raises UsageError if the trace
    does not exist or the folder cannot be used, RecordingError if the trace is damaged, is
    none, or holds no GPU activity; then nothing is left in the folder.
    """
    _check_target(folder)
    file, kept = TraceFile(trace, progress), TraceContents()
    for batch in file.batches():
        kept.add(batch)
    kept.lost += file.lost
    if not kept.events + kept.lost:
        raise RecordingError(f"{trace} holds no events")
    if not kept.activity:
        raise RecordingError(
            f"{trace} holds no GPU activity to analyse; record it with ProfilerActivity.CUDA"
        )
    found = _Found.of(kept)
    _write(folder, _manifest(trace, file.metadata, found), found)


class _Found(NamedTuple):
    """What is in a trace, put together and in time."""

    kept: TraceContents
    activity: Activity
    calls: Calls
    marks: dict[str, list[Annotation]]
    waits: Waits
    threads: list[int]
    """Those that called the runtime or ran operators or functions."""
    rows: dict[str, int]
    """How many events came of collectors."""

    @classmethod
    def of(cls, kept: TraceContents) -> _Found:
        activity, calls = kept.take_activity(), kept.take_calls()
        operators, marks = kept.take_host_spans()
        functions = kept.functions.take()
        waits = TraceWaits(kept, activity, calls, operators, functions).find()
        of_collectors: dict[str, Calls | Spans] = {
            "runtime": calls,
            "operators": operators,
            "stacks": functions,
        }
        threads = [np.unique(rows.thread_id) for rows in of_collectors.values()]
        ids = np.unique(np.concatenate(threads)).tolist()
        counts = {name: len(rows.thread_id) for name, rows in of_collectors.items()}
        return cls(kept, activity, calls, marks, waits, ids, counts)


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


def _write(folder: Path, manifest: Manifest, found: _Found) -> None:
    existed = folder.is_dir()
    try:
        writer = RecordingWriter(folder, manifest)
        for table, rows in _small_tables(found).items():
            writer.rows(table).extend(rows)
        batches = batches_of(found.activity, found.calls, found.kept, found.kept.origin_ns)
        writer.sources.append(lambda: batches)
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


def _small_tables(found: _Found) -> dict[str, Iterable[Row]]:
    """Rows of the other tables, their times shifted to the recording's origin."""
    waits, origin = found.waits, found.kept.origin_ns
    return {
        "steps": _steps(found),
        "frames": waits.frames,
        "stacks": waits.stacks,
        "blocking": (
            row._replace(start_ns=row.start_ns - origin, end_ns=row.end_ns - origin)
            for row in waits.blocking
        ),
        "transfers": (
            row._replace(start_ns=row.start_ns - origin, end_ns=row.end_ns - origin)
            for row in waits.transfers
        ),
        "host": (
            HostRow(thread_id, start - origin, end - origin, "dataloader", name, -1)
            for start, end, thread_id, name in found.marks["dataloader"]
        ),
    }


def _steps(found: _Found) -> list[StepMark]:
    """Ends of the profiler's steps, else of the optimizer that steps most often."""
    source = "profiler" if found.marks["profiler"] else "optimizer"
    marks = found.marks[source]
    if source == "optimizer" and marks:
        most = Counter(mark.name for mark in marks).most_common(1)[0][0]
        marks = [mark for mark in marks if mark.name == most]
    return [
        StepMark(end_ns - found.kept.origin_ns, thread_id, source, name)
        for _, end_ns, thread_id, name in marks
    ]


def _window(found: _Found) -> Window:
    activity, calls, steps = found.activity, found.calls, found.marks["profiler"]
    start = min(activity.start_ns.min(), calls.start_ns.min(initial=sys.maxsize))
    end = max(activity.end_ns.max(), calls.end_ns.max(initial=0))
    if steps:
        first, last = min(step.start_ns for step in steps), max(step.end_ns for step in steps)
        if ((activity.start_ns < last) & (activity.end_ns > first)).any():
            start, end = first, last
    return Window(int(start) - found.kept.origin_ns, int(end) - found.kept.origin_ns)


def _manifest(trace: Path, metadata: TraceMetadata, found: _Found) -> Manifest:
    kept = found.kept
    epoch = metadata.base_time_nanoseconds
    distributed = metadata.distributed_info if isinstance(metadata.distributed_info, dict) else {}
    ranks = {key: value for key, value in distributed.items() if isinstance(value, int)}
    window = _window(found)
    identity = f"{metadata.trace_id} {kept.events} {kept.origin_ns} {window}"
    notes = [f"imported from {trace.name}"]
    if found.waits.frames:
        notes.append("lines are those where functions start: PyTorch's traces have no others")
    return Manifest(
        run_id=hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:16],
        argv=(str(trace),),
        simulated=False,
        imported=True,
        origin_unix_ns=kept.origin_ns + (epoch if isinstance(epoch, int) else 0),
        versions=_versions(metadata),
        devices=_devices(metadata, found.activity),
        windows=(window,),
        collectors=_collectors(metadata, found),
        threads=tuple(
            Thread(thread_id, kept.thread_names.get(thread_id, f"thread {thread_id}"))
            for thread_id in found.threads
        ),
        rank=ranks.get("rank", 0),
        world_size=ranks.get("world_size", 1),
        state="complete",
        notes=tuple(notes),
    )


def _collectors(metadata: TraceMetadata, found: _Found) -> tuple[CollectorStatus, ...]:
    def status(name: str, rows: Any, reason: str) -> CollectorStatus:
        return CollectorStatus(name, "on" if rows else "off", "" if rows else reason)

    no_stacks = (
        "the trace holds no Python functions"
        if metadata.with_stack
        else "the trace was recorded without with_stack"
    )
    return (
        CollectorStatus("activity", "on", lost=found.kept.lost),
        status("runtime", found.rows["runtime"], "the trace holds no CUDA or HIP calls"),
        status("waits", found.waits.known, "the trace holds no synchronize calls"),
        status(
            "operators",
            found.rows["operators"],
            "the trace was recorded without ProfilerActivity.CPU",
        ),
        status("stacks", found.rows["stacks"], no_stacks),
        status(
            "steps",
            found.marks["profiler"] or found.marks["optimizer"],
            "the trace holds no steps; record it with a schedule and call step()",
        ),
        CollectorStatus("nvml", "off", "a trace holds no driver counters"),
    )


def _devices(metadata: TraceMetadata, activity: Activity) -> tuple[Device, ...]:
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
        for index in np.unique(activity.device).tolist()
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
