"""Rows of a window come from torch.profiler's own trace, on the recording's clock."""

from __future__ import annotations

import gzip
import threading
from pathlib import Path

from syncscope.callsite import StackTable
from syncscope.capture.gpu_activity import GpuActivity
from syncscope.context import CaptureContext
from syncscope.recording.tables import TABLES, ActivityRow, Row, RuntimeRow

TRACE = Path(__file__).resolve().parents[2] / "data" / "traces" / "ns_resolution_rank0.json.gz"


class Rows:
    """Stands in for the writer: the lists that collectors append to."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}

    def rows(self, table: str) -> list[Row]:
        return self.tables[table]


def test_kernels_and_calls_of_a_trace_become_rows_after_the_origin(tmp_path: Path) -> None:
    path = tmp_path / "window.json"
    path.write_bytes(gzip.decompress(TRACE.read_bytes()))
    rows = Rows()
    origin = 1_700_000_000_000_000_000
    context = CaptureContext(rows, StackTable(), origin_unix_ns=origin)  # type: ignore[arg-type]
    collector = GpuActivity(context)
    collector._append(path)
    activity, runtime = rows.tables["activity"], rows.tables["runtime"]
    assert collector.lost == 0
    assert len(activity) > 1000
    assert len(runtime) > 1000
    launches = {row.correlation_id: row for row in runtime if isinstance(row, RuntimeRow)}
    late = [
        row
        for row in activity
        if isinstance(row, ActivityRow)
        and row.correlation_id in launches
        and row.start_ns < launches[row.correlation_id].start_ns
    ]
    assert not late, "an activity starts before its launch: the clocks do not agree"


def test_a_runtime_thread_is_the_python_thread_that_made_the_call() -> None:
    context = CaptureContext(Rows(), StackTable())  # type: ignore[arg-type]
    number = context.threads.current()
    low = threading.get_ident() & 0xFFFFFFFF
    signed = low - (1 << 32) if low >= 1 << 31 else low
    assert context.threads.native(abs(signed)) == number
    assert context.threads.native(12345) == context.threads.native(12345) != number
