"""Columns of the tables "activity" and "runtime" of a trace, as Arrow batches or as rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from syncscope.recording.arrow_columns import batch_of, repeated_texts
from syncscope.recording.trace_columns import Ints
from syncscope.recording.trace_contents import Activity, ActivityTexts, Calls, TraceContents
from syncscope.recording.writer import arrow_schema


class Texts(NamedTuple):
    """A column of texts of which few differ."""

    values: list[str]
    codes: Ints


def activity_columns(rows: Activity, trace: TraceContents, origin_ns: int) -> list[Ints | Texts]:
    """The columns of "activity", times counted from a moment."""
    meanings = trace.activity_texts
    texts = (
        Texts([getattr(meaning, field) for meaning in meanings], rows.name)
        for field in ActivityTexts._fields
    )
    times = (rows.start_ns - origin_ns, rows.end_ns - origin_ns)
    return [rows.device, rows.stream, *times, *texts, rows.size_bytes, rows.correlation_id]


def runtime_columns(rows: Calls, trace: TraceContents, origin_ns: int) -> list[Ints | Texts]:
    """The columns of "runtime", times counted from a moment."""
    texts = (Texts(values, rows.name) for values in (list(trace.call_names), trace.call_kinds))
    times = (rows.start_ns - origin_ns, rows.end_ns - origin_ns)
    return [rows.thread_id, *times, *texts, rows.correlation_id]


def as_batch(table: str, columns: list[Ints | Texts]) -> pa.RecordBatch:
    """The columns as the writer takes them; each text is written out."""
    arrays = (
        repeated_texts(column.values, column.codes) if isinstance(column, Texts) else column
        for column in columns
    )
    return batch_of(arrow_schema(table), arrays)


def as_rows(columns: list[Ints | Texts]) -> Iterator[tuple[Any, ...]]:
    """The columns row by row; equal texts are one object."""
    lists = (
        [column.values[code] for code in column.codes.tolist()]
        if isinstance(column, Texts)
        else column.tolist()
        for column in columns
    )
    return zip(*lists, strict=True)
