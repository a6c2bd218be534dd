"""The tables "activity" and "runtime" of a trace, as Arrow batches or as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from syncscope.recording.arrow_columns import batch_of, repeated_texts
from syncscope.recording.tables import RuntimeRow
from syncscope.recording.trace_columns import Ints, picked
from syncscope.recording.trace_contents import Activity, ActivityTexts, Calls, TraceContents
from syncscope.recording.writer import arrow_schema

_SLICE_ROWS = 50_000


class _Texts(NamedTuple):
    """A column of texts of which few differ."""

    values: list[str]
    codes: Ints


def batches_of(
    activity: Activity, calls: Calls, trace: TraceContents, origin_ns: int
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Tables and batches as the writer takes them, times counted from a moment.

    They are made one by one, some 0.3 us a row where names are short.
    """
    for start in range(0, max(len(activity.name), len(calls.name)), _SLICE_ROWS):
        some = slice(start, start + _SLICE_ROWS)
        yield "runtime", _batch("runtime", _runtime(picked(calls, some), trace, origin_ns))
        yield "activity", _batch("activity", _activity(picked(activity, some), trace, origin_ns))


def runtime_rows(
    calls: Calls, trace: TraceContents, origin_ns: int, kinds: Sequence[str]
) -> list[RuntimeRow]:
    """The calls of some kinds, times counted from a moment."""
    names, meant = list(trace.call_names), trace.call_kinds
    wanted = np.array([kind in kinds for kind in meant], bool)
    columns = picked(calls, wanted[calls.name])
    return [
        RuntimeRow(thread, start - origin_ns, end - origin_ns, names[code], meant[code], number)
        for thread, start, end, code, number, _ in zip(*(c.tolist() for c in columns), strict=True)
    ]


def _activity(rows: Activity, trace: TraceContents, origin_ns: int) -> list[Ints | _Texts]:
    meanings = trace.activity_texts
    texts = (
        _Texts([getattr(meaning, field) for meaning in meanings], rows.name)
        for field in ActivityTexts._fields
    )
    times = (rows.start_ns - origin_ns, rows.end_ns - origin_ns)
    return [rows.device, rows.stream, *times, *texts, rows.size_bytes, rows.correlation_id]


def _runtime(rows: Calls, trace: TraceContents, origin_ns: int) -> list[Ints | _Texts]:
    texts = (_Texts(values, rows.name) for values in (list(trace.call_names), trace.call_kinds))
    times = (rows.start_ns - origin_ns, rows.end_ns - origin_ns)
    return [rows.thread_id, *times, *texts, rows.correlation_id]


def _batch(table: str, columns: list[Ints | _Texts]) -> pa.RecordBatch:
    arrays = (
        repeated_texts(column.values, column.codes) if isinstance(column, _Texts) else column
        for column in columns
    )
    return batch_of(arrow_schema(table), arrays)
