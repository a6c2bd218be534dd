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

import hashlib
import os
import re
import shutil
import sys
from array import array
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from syncscope.callsite import MAX_DEPTH, owner_of
from syncscope.errors import RecordingError, UsageError
from syncscope.recording.cuda_names import (
    activity_kind,
    blocks_host,
    copy_direction,
    copy_memory,
    drains_device,
    runtime_kind,
)
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
    BlockingRow,
    FrameRow,
    HostRow,
    Row,
    RuntimeRow,
    StackRow,
    StepMark,
    TransferRow,
)
from syncscope.recording.trace_events import TraceEvent, TraceFile, TraceMetadata
from syncscope.recording.writer import RecordingWriter
from syncscope.version import __version__

_SLICE_ROWS = 50_000
_DIGITS_US = 15
"""Highest power of ten of a time in microseconds: 9e15 us still fits int64 nanoseconds."""

_FUNCTION = re.compile(r"(?P<file>.+)\((?P<line>\d+)\): (?P<function>.*)", re.DOTALL)
_OPERATOR = re.compile(r"(?!autograd::|torch::autograd::)[A-Za-z_]\w*::\w")
_MARK = re.compile(
    r"(?P<profiler>ProfilerStep[*#\d]*$)"
    r"|(?P<optimizer>Optimizer\.step#)"
    r"|(?P<dataloader>enumerate\(DataLoader\))"
)
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")
_STDLIB = re.compile(r".*/lib/python3[\d.]*/|<")
_LIBRARIES = sys.stdlib_module_names | {
    *("PIL", "accelerate", "apex", "datasets", "deepspeed", "diffusers", "einops", "fairscale"),
    *("fbgemm_gpu", "flash_attn", "functorch", "lightning", "lightning_fabric", "megatron"),
    *("numpy", "pandas", "peft", "pytorch_lightning", "safetensors", "scipy", "sklearn", "timm"),
    *("tokenizers", "torchaudio", "torchmetrics", "torchrec", "torchvision", "tqdm"),
    *("transformer_engine", "transformers", "triton", "trl", "vllm", "xformers"),
}


class _Call(NamedTuple):
    """A runtime call; times in ns since the Unix epoch."""

    start_ns: int
    end_ns: int
    name: str
    kind: str
    correlation_id: int


class _Annotation(NamedTuple):
    """A named interval on a host thread; times in ns since the Unix epoch."""

    start_ns: int
    end_ns: int
    thread_id: int
    name: str


class _Spans:
    """Nested intervals of one thread: which ones contain a moment."""

    def __init__(self) -> None:
        self._starts = array("q")
        self._ends = array("q")
        self._names: list[str] = []

    def add(self, start_ns: int, end_ns: int, name: str) -> None:
        self._starts.append(start_ns)
        self._ends.append(end_ns)
        self._names.append(name)

    @cached_property
    def _nested(self) -> tuple[list[int], list[int], list[int], list[int]]:
        """Order by start, then starts, ends and parents in that order."""
        order = sorted(range(len(self._starts)), key=lambda i: (self._starts[i], -self._ends[i]))
        starts = [self._starts[i] for i in order]
        ends = [self._ends[i] for i in order]
        parents: list[int] = []
        open_spans: list[int] = []
        for index, start in enumerate(starts):
            # traces in whole microseconds hold spans of no length: equal starts nest
            while open_spans and ends[open_spans[-1]] <= start != starts[open_spans[-1]]:
                open_spans.pop()
            parents.append(open_spans[-1] if open_spans else -1)
            open_spans.append(index)
        return order, starts, ends, parents

    def around(self, time_ns: int) -> list[int]:
        """Indices of the intervals that contain a moment, innermost first."""
        order, starts, ends, parents = self._nested
        found = []
        index = bisect_right(starts, time_ns) - 1
        while index >= 0:
            if ends[index] >= time_ns:
                found.append(order[index])
            index = parents[index]
        return found

    def name(self, index: int) -> str:
        return self._names[index]

    def interval(self, index: int) -> tuple[int, int]:
        return self._starts[index], self._ends[index]


class _Stacks:
    """Interns call stacks given as names of python_function events, innermost first."""

    def __init__(self) -> None:
        self.frames: list[FrameRow] = []
        self.stacks: list[StackRow] = []
        self._frame_ids: dict[str, int] = {}
        self._stack_ids: dict[tuple[int, ...], int] = {}

    def id_of(self, names: list[str]) -> int:
        """Id of a stack; -1 for an empty one."""
        key = tuple(self._frame(name) for name in names[:MAX_DEPTH])
        if not key:
            return -1
        if key not in self._stack_ids:
            self._stack_ids[key] = len(self.stacks)
            self.stacks.append(StackRow(len(self.stacks), key))
        return self._stack_ids[key]

    def _frame(self, name: str) -> int:
        if name not in self._frame_ids:
            self._frame_ids[name] = len(self.frames)
            self.frames.append(_frame_row(len(self.frames), name))
        return self._frame_ids[name]


class _Trace:
    """What is kept of a trace while it is read; times in ns since its own epoch."""

    def __init__(self) -> None:
        self.events = 0
        self.lost = 0
        self.origin_ns = sys.maxsize
        self.activity: list[ActivityRow] = []
        self.calls: dict[int, list[_Call]] = defaultdict(list)
        self.operators: dict[int, _Spans] = defaultdict(_Spans)
        self.functions: dict[int, _Spans] = defaultdict(_Spans)
        self.marks: dict[str, list[_Annotation]] = {
            name: [] for name in ("profiler", "optimizer", "dataloader")
        }
        self.call_sizes: dict[int, int] = {}
        self.has_waits = False
        self.thread_names: dict[int, str] = {}
        self._names: dict[str, str] = {}
        self._take = {
            **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset"), self._take_activity),
            **dict.fromkeys(("Kernel", "Memcpy", "Memset"), self._take_activity),
            **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), self._take_call),
            **dict.fromkeys(("hip_runtime", "hip_driver"), self._take_call),
            **dict.fromkeys(("cpu_op", "Operator", "user_annotation"), self._take_host),
            **dict.fromkeys(("python_function", "PythonFunction"), self._take_function),
        }

    def add(self, batch: list[TraceEvent]) -> None:
        """Keep what tables are made of. Events with odd or missing fields count as lost."""
        self.events += len(batch)
        for event in batch:
            take = self._take.get(event.cat)
            try:
                if take is not None and event.ph == "X":
                    take(event, *self._interval(event))
                elif event.ph == "M" and event.name == "thread_name" and event.args:
                    self.thread_names[int(event.tid)] = str(event.args.name).strip()
            except (ValueError, TypeError, ArithmeticError):
                self.lost += 1

    def _interval(self, event: TraceEvent) -> tuple[int, int]:
        start, length = event.ts, event.dur
        if start is None or length is None:
            raise ValueError("no interval")
        end = start + length
        if end.adjusted() > _DIGITS_US:
            raise ValueError("a time beyond any clock")
        start_ns, end_ns = round(start * 1000), round(end * 1000)
        if not 0 <= start_ns <= end_ns:
            raise ValueError("negative time")
        if start_ns < self.origin_ns:
            self.origin_ns = start_ns
        return start_ns, end_ns

    def _take_activity(self, event: TraceEvent, start_ns: int, end_ns: int) -> None:
        if event.args is None:
            raise ValueError("no device")
        name = self._names.setdefault(event.name, event.name)
        kind = activity_kind(name, event.cat)
        direction = copy_direction(name) if kind == "memcpy" else ""
        self.activity.append(
            ActivityRow(
                _number(event.args.device),
                _number(event.tid if event.args.stream is None else event.args.stream),
                start_ns,
                end_ns,
                kind,
                name,
                direction,
                copy_memory(name) if direction else "",
                -1 if event.args.bytes is None else _number(event.args.bytes),
                -1 if event.args.correlation is None else _number(event.args.correlation),
            )
        )

    def _take_call(self, event: TraceEvent, start_ns: int, end_ns: int) -> None:
        name = self._names.setdefault(event.name, event.name)
        correlation = event.args.correlation if event.args else None
        correlation_id = -1 if correlation is None else _number(correlation)
        kind = runtime_kind(name)
        self.calls[int(event.tid)].append(_Call(start_ns, end_ns, name, kind, correlation_id))
        self.has_waits = self.has_waits or kind == "sync"
        if kind == "memcpy" and event.args and event.args.size is not None:
            self.call_sizes[correlation_id] = _number(event.args.size)

    def _take_host(self, event: TraceEvent, start_ns: int, end_ns: int) -> None:
        name = self._names.setdefault(event.name, event.name)
        role = _MARK.match(name)
        if role is not None:
            mark = _Annotation(start_ns, end_ns, int(event.tid), name)
            self.marks[str(role.lastgroup)].append(mark)
        elif event.cat != "user_annotation":
            self.operators[int(event.tid)].add(start_ns, end_ns, name)

    def _take_function(self, event: TraceEvent, start_ns: int, end_ns: int) -> None:
        if event.name.startswith(("<", "nn.Module: ")):  # built-in functions have no frame
            return
        name = self._names.setdefault(event.name, event.name)
        self.functions[int(event.tid)].add(start_ns, end_ns, name)


class _Waits:
    """Blocking and transfer rows, made from calls, copies, operators and functions."""

    def __init__(self, trace: _Trace) -> None:
        self.stacks = _Stacks()
        self.blocking: dict[tuple[int, int, str], BlockingRow] = {}
        self.transfers: list[TransferRow] = []
        self._trace = trace
        self._copies = {
            row.correlation_id: row for row in trace.activity if row.direction in ("h2d", "d2h")
        }

    def find(self) -> None:
        """Fill `blocking` and `transfers`, in the order of threads and of time."""
        found = set()
        for thread_id, calls in self._trace.calls.items():
            for index, call in enumerate(calls):
                copy = self._copies.get(call.correlation_id)
                if copy is not None:
                    self._add_transfer(thread_id, calls, index, copy)
                    found.add(copy.correlation_id)
                self._add_wait(thread_id, call, copy)
        for row in self._trace.activity:
            if row.direction in ("h2d", "d2h") and row.correlation_id not in found:
                self._add_orphan(row)

    def _add_wait(self, thread_id: int, call: _Call, copy: ActivityRow | None) -> None:
        allocates = drains_device(call.name)
        to_pageable = copy is not None and copy.direction == "d2h" and copy.memory == "pageable"
        if not (allocates or to_pageable or blocks_host(call.name)):
            return
        start_ns, end_ns = call.start_ns, call.end_ns
        operator, op = self._operator(thread_id, start_ns)
        if operator >= 0 and not allocates:
            start_ns, end_ns = self._trace.operators[thread_id].interval(operator)
        kind = "allocator" if allocates else "sync"
        key = (thread_id, start_ns, kind)
        if key not in self.blocking:
            self.blocking[key] = BlockingRow(
                thread_id,
                start_ns,
                end_ns,
                self._stack(thread_id, call.start_ns),
                "import",
                op or call.name,
                kind,
                call.kind == "sync" and operator < 0,
                "",
            )

    def _add_transfer(
        self, thread_id: int, calls: list[_Call], index: int, copy: ActivityRow
    ) -> None:
        call = calls[index]
        operator, op = self._operator(thread_id, call.start_ns)
        wait = self._wait_after(thread_id, calls, index, operator)
        size = copy.size_bytes
        self.transfers.append(
            TransferRow(
                thread_id,
                call.start_ns,
                call.end_ns if wait is None else wait.end_ns,
                self._stack(thread_id, call.start_ns),
                op or call.name,
                copy.direction,
                size if size >= 0 else self._trace.call_sizes.get(copy.correlation_id, -1),
                copy.memory,
                wait is None and self._trace.has_waits and not blocks_host(call.name),
                copy.device,
                -1,
                "",
            )
        )

    def _add_orphan(self, copy: ActivityRow) -> None:
        """A copy whose runtime call is not in the trace: at its own start, on no thread."""
        start_ns = copy.start_ns
        place = (-1, start_ns, start_ns, -1, "", copy.direction, copy.size_bytes, copy.memory)
        self.transfers.append(TransferRow(*place, True, copy.device, -1, ""))

    def _wait_after(
        self, thread_id: int, calls: list[_Call], index: int, operator: int
    ) -> _Call | None:
        """The synchronize call that follows a copy, with no work in between."""
        for call in calls[index + 1 :][:8]:
            if call.kind == "sync":
                same = self._operator(thread_id, call.start_ns)[0] == operator
                return call if same else None
            if call.kind not in ("event", "other"):
                return None
        return None

    def _operator(self, thread_id: int, time_ns: int) -> tuple[int, str]:
        """The operator that a line calls, seen from inside it: its index and name."""
        spans = self._trace.operators.get(thread_id)
        around = spans.around(time_ns) if spans is not None else []
        if spans is None or not around:
            return -1, ""
        named = [index for index in around if _OPERATOR.match(spans.name(index))]
        chosen = named[-1] if named else around[0]
        return chosen, spans.name(chosen)

    def _stack(self, thread_id: int, time_ns: int) -> int:
        functions = self._trace.functions
        own = functions.get(thread_id)
        if own is not None:
            return self.stacks.id_of([own.name(index) for index in own.around(time_ns)])
        for other in functions.values():
            names = [other.name(index) for index in other.around(time_ns)]
            if any("torch/autograd/" in name for name in names):
                return self.stacks.id_of(names)
        return -1


def import_trace(
    trace: Path, folder: Path, *, progress: Callable[[float], None] | None = None
) -> None:
    """Make a recording of a torch.profiler trace (.json, .json.gz) in an empty or new folder.

    `progress` is called with the part that is done, 0 to 1. Raises UsageError if the trace
    does not exist or the folder cannot be used, RecordingError if the trace is damaged, is
    none, or holds no GPU activity; then nothing is left in the folder.
    """
    _check_target(folder)
    file = TraceFile(trace, progress)
    kept = _Trace()
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
    waits = _Waits(kept)
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


def _tables(kept: _Trace, waits: _Waits) -> dict[str, Iterator[Row]]:
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


def _steps(kept: _Trace) -> list[StepMark]:
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


def _window(kept: _Trace) -> Window:
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


def _manifest(trace: Path, metadata: TraceMetadata, kept: _Trace, waits: _Waits) -> Manifest:
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


def _collectors(metadata: TraceMetadata, kept: _Trace) -> tuple[CollectorStatus, ...]:
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


def _devices(metadata: TraceMetadata, kept: _Trace) -> tuple[Device, ...]:
    """Devices that did something; the others of the host are no part of the run."""
    listed = metadata.device_properties if isinstance(metadata.device_properties, list) else []
    names = {
        device["id"]: str(device["name"])
        for device in listed
        if isinstance(device, dict) and {"id", "name"} <= device.keys()
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


def _frame_row(frame_id: int, name: str) -> FrameRow:
    match = _FUNCTION.fullmatch(name)
    if match is None:
        return FrameRow(frame_id, "", name, -1, -1, -1, -1, "", "library")
    file, line = match["file"].replace("\\", "/"), int(match["line"])
    shown = _INSTALLED.sub("", file)
    return FrameRow(frame_id, shown, match["function"], line, line, -1, -1, "", _owner(file, shown))


def _owner(file: str, shown: str) -> str:
    """As `callsite.owner_of`; the profiler cuts off the folders of sys.path, so also by name."""
    top = shown.partition("/")[0].removesuffix(".py")
    if top == "torch":
        return "torch"
    if shown != file or _STDLIB.match(file) or top in _LIBRARIES:
        return "library"
    return "user" if owner_of(file) == "user" else "library"


def _number(value: Any) -> int:
    """A whole number that may be written as a text, decimal or 0x. Raises ValueError."""
    number = int(value, 0) if isinstance(value, str) else int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(value)
    return number
