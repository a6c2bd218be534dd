"""What is kept of a torch.profiler trace while it is read, as columns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from syncscope.recording.cuda_names import (
    activity_kind,
    copy_direction,
    copy_memory,
    runtime_kind,
)
from syncscope.recording.trace_columns import (
    ODD,
    Codes,
    Ints,
    Table,
    intervals_ns,
    joined,
    picked,
    whole_numbers,
)
from syncscope.recording.trace_events import TraceArgs, TraceEvent

_MARK = re.compile(
    r"(?P<profiler>ProfilerStep[*#\d]*$)"
    r"|(?P<optimizer>Optimizer\.step#)"
    r"|(?P<dataloader>enumerate\(DataLoader\))"
)
_NO_ARGS = TraceArgs()


class Activity(NamedTuple):
    """Columns of what ran on devices; `name` is a code of `TraceContents.activity_names`."""

    device: Ints
    stream: Ints
    start_ns: Ints
    end_ns: Ints
    name: Ints
    size_bytes: Ints
    correlation_id: Ints


class ActivityTexts(NamedTuple):
    """The texts of an activity, as in `ActivityRow`."""

    kind: str
    name: str
    direction: str
    memory: str


class Calls(NamedTuple):
    """Columns of runtime calls; `name` is a code of `TraceContents.call_names`."""

    thread_id: Ints
    start_ns: Ints
    end_ns: Ints
    name: Ints
    correlation_id: Ints
    size_bytes: Ints
    """Of copies, where the trace has it there (ROCm); else -1."""


class Spans(NamedTuple):
    """Columns of named intervals on host threads; `name` is a code."""

    thread_id: Ints
    start_ns: Ints
    end_ns: Ints
    name: Ints


class Annotation(NamedTuple):
    """A mark on a host thread; times in ns since the trace's epoch."""

    start_ns: int
    end_ns: int
    thread_id: int
    name: str


class TraceContents:
    """Tables of a trace in the order of the file; times in ns since the trace's own epoch.

    Costs about 0.7 us an event that is kept, and some 50 bytes.
    """

    def __init__(self) -> None:
        self.events = 0
        self.lost = 0
        self.origin_ns = sys.maxsize
        self.activity = Table(Activity)
        self.calls = Table(Calls)
        self.operators = Table(Spans)
        self.annotations = Table(Spans)
        self.functions = Table(Spans)
        self.activity_names: Codes[tuple[str, str]] = Codes()
        """Codes of pairs of a name and a category."""
        self.call_names: Codes[str] = Codes()
        self.host_names: Codes[str] = Codes()
        """Codes of the names of operators and annotations."""
        self.function_names: Codes[str] = Codes()
        self.thread_names: dict[int, str] = {}
        self._take = {
            **dict.fromkeys(("kernel", "gpu_memcpy", "gpu_memset"), self._take_activity),
            **dict.fromkeys(("Kernel", "Memcpy", "Memset"), self._take_activity),
            **dict.fromkeys(("cuda_runtime", "cuda_driver", "Runtime"), self._take_calls),
            **dict.fromkeys(("hip_runtime", "hip_driver"), self._take_calls),
            **dict.fromkeys(("cpu_op", "Operator"), self._take_operators),
            "user_annotation": self._take_annotations,
            **dict.fromkeys(("python_function", "PythonFunction"), self._take_functions),
        }

    def add(self, batch: list[TraceEvent]) -> None:
        """Keep what tables are made of. Events with odd or missing fields count as lost."""
        self.events += len(batch)
        groups: dict[Callable[[list[TraceEvent]], None], list[TraceEvent]] = {
            take: [] for take in self._take.values()
        }
        appends = {category: groups[take].append for category, take in self._take.items()}
        for event in batch:
            append = appends.get(event.cat)
            if append is not None and event.ph == "X":
                append(event)
            elif event.ph == "M" and event.name == "thread_name" and event.args:
                self._keep([event], self._name_threads)
        for take, events in groups.items():
            self._keep(events, take)

    def _keep(self, events: list[TraceEvent], take: Callable[[list[TraceEvent]], None]) -> None:
        """Take all events but the odd ones, which are found by halving."""
        if not events:
            return
        try:
            take(events)
        except ODD:
            if len(events) == 1:
                self.lost += 1
                return
            half = len(events) // 2
            self._keep(events[:half], take)
            self._keep(events[half:], take)

    def _name_threads(self, events: list[TraceEvent]) -> None:
        for event in events:
            if event.args:
                self.thread_names[int(event.tid)] = str(event.args.name).strip()

    def _take_activity(self, events: list[TraceEvent]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        if any(each.device is None for each in args):
            raise ValueError("no device")
        streams = [
            event.tid if each.stream is None else each.stream
            for event, each in zip(events, args, strict=True)
        ]
        device = whole_numbers([each.device for each in args], np.int32)
        stream = whole_numbers(streams)
        size_bytes = whole_numbers([each.bytes for each in args])
        correlation_id = whole_numbers([each.correlation for each in args])
        start_ns, end_ns = self._intervals(events)
        name = self.activity_names.of([(event.name, event.cat) for event in events])
        self.activity.add(
            Activity(device, stream, start_ns, end_ns, name, size_bytes, correlation_id)
        )

    def _take_calls(self, events: list[TraceEvent]) -> None:
        args = [event.args or _NO_ARGS for event in events]
        correlation_id = whole_numbers([each.correlation for each in args])
        size_bytes = whole_numbers([each.size for each in args])
        self.calls.add(Calls(*self._spans(events, self.call_names), correlation_id, size_bytes))

    def _take_operators(self, events: list[TraceEvent]) -> None:
        self.operators.add(self._spans(events, self.host_names))

    def _take_annotations(self, events: list[TraceEvent]) -> None:
        self.annotations.add(self._spans(events, self.host_names))

    def _take_functions(self, events: list[TraceEvent]) -> None:
        """Functions of Python; built-in functions and modules have no frame."""
        framed = [e for e in events if not e.name.startswith(("<", "nn.Module: "))]
        self.functions.add(self._spans(framed, self.function_names))

    def _spans(self, events: list[TraceEvent], names: Codes[str]) -> Spans:
        thread_id = whole_numbers([event.tid for event in events])
        start_ns, end_ns = self._intervals(events)
        return Spans(thread_id, start_ns, end_ns, names.of([event.name for event in events]))

    def _intervals(self, events: list[TraceEvent]) -> tuple[Ints, Ints]:
        starts, ends = intervals_ns([e.ts for e in events], [e.dur for e in events])
        self.origin_ns = int(starts.min(initial=self.origin_ns))
        return starts, ends

    @property
    def activity_texts(self) -> list[ActivityTexts]:
        """What the codes of `activity_names` mean."""
        return [_activity_texts(name, category) for name, category in self.activity_names]

    @property
    def call_kinds(self) -> list[str]:
        """The kinds of the calls that the codes of `call_names` mean."""
        return [runtime_kind(name) for name in self.call_names]

    def take_activity(self) -> Activity:
        """All activity in the order of its start; it is kept no longer."""
        rows = self.activity.take()
        return picked(rows, np.argsort(rows.start_ns, kind="stable"))

    def take_calls(self) -> Calls:
        """All calls in the order of their start; they are kept no longer."""
        rows = self.calls.take()
        return picked(rows, np.lexsort((rows.end_ns, rows.thread_id, rows.start_ns)))

    def take_host_spans(self) -> tuple[Spans, dict[str, list[Annotation]]]:
        """Operators in the order of the file, and by their role the marks in time."""
        names = list(self.host_names)
        roles = [_role(name) for name in names]
        is_mark = np.array(roles, bool)
        tables = (self.operators.take(), self.annotations.take())
        marked = joined([picked(rows, is_mark[rows.name]) for rows in tables])
        marks: dict[str, list[Annotation]] = {role: [] for role in _MARK.groupindex}
        for thread_id, start_ns, end_ns, name in zip(*map(np.ndarray.tolist, marked), strict=True):
            marks[roles[name]].append(Annotation(start_ns, end_ns, thread_id, names[name]))
        operators = picked(tables[0], ~is_mark[tables[0].name])
        return operators, {role: sorted(found) for role, found in marks.items()}


def _role(name: str) -> str:
    mark = _MARK.match(name)
    return str(mark.lastgroup) if mark else ""


def _activity_texts(name: str, category: str) -> ActivityTexts:
    kind = activity_kind(name, category)
    direction = copy_direction(name) if kind == "memcpy" else ""
    return ActivityTexts(kind, name, direction, copy_memory(name) if direction else "")
