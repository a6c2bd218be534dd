"""Columns of a trace as Arrow batches of the tables "activity" and "runtime"."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from syncscope.recording.trace_columns import Ints
from syncscope.recording.trace_contents import Activity, ActivityTexts, Calls, TraceContents
from syncscope.recording.writer import arrow_schema


def activity_batch(rows: Activity, trace: TraceContents, origin_ns: int) -> pa.RecordBatch:
    """Rows of "activity", their times counted from a moment."""
    meanings = trace.activity_texts
    texts = (
        _texts([getattr(meaning, field) for meaning in meanings], rows.name)
        for field in ActivityTexts._fields
    )
    return pa.record_batch(
        [
            *(rows.device, rows.stream, rows.start_ns - origin_ns, rows.end_ns - origin_ns),
            *texts,
            *(rows.size_bytes, rows.correlation_id),
        ],
        schema=arrow_schema("activity"),
    )


def runtime_batch(rows: Calls, trace: TraceContents, origin_ns: int) -> pa.RecordBatch:
    """Rows of "runtime", their times counted from a moment."""
    texts = (_texts(values, rows.name) for values in (list(trace.call_names), trace.call_kinds))
    times = (rows.start_ns - origin_ns, rows.end_ns - origin_ns)
    return pa.record_batch(
        [rows.thread_id, *times, *texts, rows.correlation_id], schema=arrow_schema("runtime")
    )


def _texts(values: Sequence[str], codes: Ints) -> pa.Array:
    return pa.array(values, pa.string()).take(pa.array(codes))
