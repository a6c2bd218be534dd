"""Who waited in a trace: its runtime calls, operators and Python functions put together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np

from syncscope.recording.cuda_names import blocks_host, drains_device
from syncscope.recording.tables import BlockingRow, FrameRow, StackRow, TransferRow
from syncscope.recording.trace_columns import Bools, Ints, picked
from syncscope.recording.trace_contents import Activity, Calls, Spans, TraceContents
from syncscope.recording.trace_spans import spans_around
from syncscope.recording.trace_stacks import TraceStacks

_OPERATOR = re.compile(r"(?!autograd::|torch::autograd::)[A-Za-z_]\w*::\w")
_WAIT_DISTANCE = 8
"""How many calls after a copy its wait may come."""


class _Call(NamedTuple):
    """A call that waits or copies; -1 where it has no operator, copy or wait."""

    thread_id: int
    start_ns: int
    end_ns: int
    name: int
    size_bytes: int
    operator: int
    copy: int
    wait_end_ns: int
    """End of the synchronize call that directly follows a copy."""
    waits: bool
    functions: list[int]


class Waits(NamedTuple):
    """Rows of tables, those with times in time; times in ns since the trace's epoch."""

    blocking: list[BlockingRow]
    transfers: list[TransferRow]
    frames: list[FrameRow]
    stacks: list[StackRow]
    known: bool
    """Whether the trace has waits at all: samples leave them out."""


class TraceWaits:
    """Blocking and transfer rows, made from calls, copies, operators and functions.

    `calls` and `activity` are in time. Costs some passes over all tables, and about 10 us for
    each call that waits or copies.
    """

    def __init__(
        self,
        trace: TraceContents,
        activity: Activity,
        calls: Calls,
        operators: Spans,
        functions: Spans,
    ) -> None:
        self._stacks = TraceStacks(functions, list(trace.function_names))
        self._blocking: dict[tuple[int, int, str], BlockingRow] = {}
        self._transfers: list[TransferRow] = []
        self._known = "sync" in trace.call_kinds
        self._calls = picked(calls, np.argsort(calls.thread_id, kind="stable"))
        self._call_names = list(trace.call_names)
        self._call_kinds = trace.call_kinds
        self._activity = activity
        self._texts = trace.activity_texts
        self._operators = operators
        self._operator_names = list(trace.host_names)

    def find(self) -> Waits:
        """All waits and copies."""
        crossing = _flags(texts.direction in ("h2d", "d2h") for texts in self._texts)
        copies = np.flatnonzero(crossing[self._activity.name])
        copy = self._last_copies(copies)
        for call in self._asked(copy):
            if call.copy >= 0:
                self._add_transfer(call)
            if call.waits:
                self._add_wait(call)
        ids = self._activity.correlation_id
        orphans = copies[~np.isin(ids[copies], ids[copy[copy >= 0]])]
        self._transfers += map(self._orphan, orphans.tolist())
        return Waits(
            sorted(self._blocking.values(), key=lambda row: row.start_ns),
            sorted(self._transfers, key=lambda row: row.start_ns),
            self._stacks.frames,
            self._stacks.stacks,
            self._known,
        )

    def _last_copies(self, copies: Ints) -> Ints:
        """For each call the last copy with its correlation id; -1 where there is none."""
        wanted, ids = self._calls.correlation_id, self._activity.correlation_id[copies]
        if not len(ids):
            return np.full(len(wanted), -1)
        order = np.argsort(ids, kind="stable")
        last = order[np.searchsorted(ids[order], wanted, side="right") - 1]
        return np.where((ids[last] == wanted) & (wanted != -1), copies[last], -1)

    def _asked(self, copy: Ints) -> Iterator[_Call]:
        """The calls that wait or start a copy."""
        to_pageable = _flags(
            texts.direction == "d2h" and texts.memory == "pageable" for texts in self._texts
        )
        waits = self._named(drains_device) | self._named(blocks_host)
        waits |= (copy >= 0) & to_pageable[self._activity.name[copy]]
        asked = np.flatnonzero(waits | (copy >= 0))
        operator = np.full(len(copy), -1)
        functions: list[list[int]] = []
        threads = self._calls.thread_id[asked]
        for thread_id in np.unique(threads).tolist():
            own = asked[threads == thread_id]
            times = self._calls.start_ns[own]
            operator[own] = self._operators_around(thread_id, times)
            functions += self._stacks.at(thread_id, times)
        ends = self._wait_ends(copy, operator)
        columns = [*self._calls[:4], self._calls.size_bytes, operator, copy, ends, waits]
        lists = [column[asked].tolist() for column in columns]
        return map(_Call, *lists, functions)

    def _named(self, does: Callable[[str], bool]) -> Bools:
        """Which calls do something, by their names."""
        return _flags(map(does, self._call_names))[self._calls.name]

    def _operators_around(self, thread_id: int, times_ns: Ints) -> Ints:
        """The operator that a line calls, seen from moments inside it; -1 where there is none.

        The outermost that belongs to a library, else the innermost.
        """
        named = _flags(bool(_OPERATOR.match(name)) for name in self._operator_names)
        own = np.flatnonzero(self._operators.thread_id == thread_id)
        found = np.full(len(times_ns), -1)
        start_ns, end_ns = self._operators.start_ns[own], self._operators.end_ns[own]
        for moments, spans in spans_around(start_ns, end_ns, times_ns):
            better = (found[moments] < 0) | named[self._operators.name[own[spans]]]
            found[moments[better]] = own[spans[better]]
        return found

    def _wait_ends(self, copy: Ints, operator: Ints) -> Ints:
        """Ends of the synchronize calls that follow copies, with no work in between; else -1."""
        thread, name = self._calls.thread_id, self._calls.name
        syncs = _flags(kind == "sync" for kind in self._call_kinds)
        idles = _flags(kind in ("event", "other") for kind in self._call_kinds)
        ends = np.full(len(copy), -1)
        calls = np.flatnonzero(copy >= 0)
        for distance in range(1, _WAIT_DISTANCE + 1):
            calls = calls[calls + distance < len(copy)]
            after = calls + distance
            same = thread[after] == thread[calls]
            calls, after = calls[same], after[same]
            found = syncs[name[after]] & (operator[after] == operator[calls])
            ends[calls[found]] = self._calls.end_ns[after[found]]
            calls = calls[idles[name[after]]]
        return ends

    def _add_wait(self, call: _Call) -> None:
        name, start_ns, end_ns = self._call_names[call.name], call.start_ns, call.end_ns
        allocates = drains_device(name)
        if call.operator >= 0 and not allocates:
            start_ns = int(self._operators.start_ns[call.operator])
            end_ns = int(self._operators.end_ns[call.operator])
        kind = "allocator" if allocates else "sync"
        key = (call.thread_id, start_ns, kind)
        if key not in self._blocking:
            self._blocking[key] = BlockingRow(
                call.thread_id,
                start_ns,
                end_ns,
                self._stacks.id_of(call.functions),
                "import",
                self._op(call),
                kind,
                self._call_kinds[call.name] == "sync" and call.operator < 0,
                "",
            )

    def _add_transfer(self, call: _Call) -> None:
        texts = self._texts[self._activity.name[call.copy]]
        waited = call.wait_end_ns >= 0
        size_bytes = int(self._activity.size_bytes[call.copy])
        self._transfers.append(
            TransferRow(
                call.thread_id,
                call.start_ns,
                call.wait_end_ns if waited else call.end_ns,
                self._stacks.id_of(call.functions),
                self._op(call),
                texts.direction,
                size_bytes if size_bytes >= 0 else call.size_bytes,
                texts.memory,
                not waited and self._known and not blocks_host(self._call_names[call.name]),
                int(self._activity.device[call.copy]),
                -1,
                "",
            )
        )

    def _op(self, call: _Call) -> str:
        if call.operator < 0:
            return self._call_names[call.name]
        return self._operator_names[int(self._operators.name[call.operator])]

    def _orphan(self, copy: int) -> TransferRow:
        """A copy whose runtime call is not in the trace: at its own start, on no thread."""
        texts, rows = self._texts[self._activity.name[copy]], self._activity
        start_ns, size_bytes = int(rows.start_ns[copy]), int(rows.size_bytes[copy])
        place = (-1, start_ns, start_ns, -1, "", texts.direction, size_bytes, texts.memory)
        return TransferRow(*place, True, int(rows.device[copy]), -1, "")


def _flags(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, np.bool_)
