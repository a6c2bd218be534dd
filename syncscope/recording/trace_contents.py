"""What is kept of a torch.profiler trace while it is read: rows and nested intervals."""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_right
from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple

from syncscope.recording.cuda_names import (
    activity_kind,
    copy_direction,
    copy_memory,
    runtime_kind,
)
from syncscope.recording.tables import ActivityRow
from syncscope.recording.trace_events import TraceEvent

_DIGITS_US = 15
"""Highest power of ten of a time in microseconds: 9e15 us still fits int64 nanoseconds."""

_MARK = re.compile(
    r"(?P<profiler>ProfilerStep[*#\d]*$)"
    r"|(?P<optimizer>Optimizer\.step#)"
    r"|(?P<dataloader>enumerate\(DataLoader\))"
)


class RuntimeCall(NamedTuple):
    """A runtime call; times in ns since the Unix epoch."""

    start_ns: int
    end_ns: int
    name: str
    kind: str
    correlation_id: int


class Annotation(NamedTuple):
    """A named interval on a host thread; times in ns since the Unix epoch."""

    start_ns: int
    end_ns: int
    thread_id: int
    name: str


class Spans:
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


class TraceContents:
    """What is kept of a trace while it is read; times in ns since its own epoch."""

    def __init__(self) -> None:
        self.events = 0
        self.lost = 0
        self.origin_ns = sys.maxsize
        self.activity: list[ActivityRow] = []
        self.calls: dict[int, list[RuntimeCall]] = defaultdict(list)
        self.operators: dict[int, Spans] = defaultdict(Spans)
        self.functions: dict[int, Spans] = defaultdict(Spans)
        self.marks: dict[str, list[Annotation]] = {
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
        self.calls[int(event.tid)].append(RuntimeCall(start_ns, end_ns, name, kind, correlation_id))
        self.has_waits = self.has_waits or kind == "sync"
        if kind == "memcpy" and event.args and event.args.size is not None:
            self.call_sizes[correlation_id] = _number(event.args.size)

    def _take_host(self, event: TraceEvent, start_ns: int, end_ns: int) -> None:
        name = self._names.setdefault(event.name, event.name)
        role = _MARK.match(name)
        if role is not None:
            mark = Annotation(start_ns, end_ns, int(event.tid), name)
            self.marks[str(role.lastgroup)].append(mark)
        elif event.cat != "user_annotation":
            self.operators[int(event.tid)].add(start_ns, end_ns, name)

    def _take_function(self, event: TraceEvent, start_ns: int, end_ns: int) -> None:
        if event.name.startswith(("<", "nn.Module: ")):  # built-in functions have no frame
            return
        name = self._names.setdefault(event.name, event.name)
        self.functions[int(event.tid)].add(start_ns, end_ns, name)


def _number(value: Any) -> int:
    """A whole number that may be written as a text, decimal or 0x. Raises ValueError."""
    number = int(value, 0) if isinstance(value, str) else int(value)
    if not -(2**63) <= number < 2**63:
        raise ValueError(value)
    return number
