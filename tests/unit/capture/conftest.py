"""What collectors need: a stand-in for the writer, and a context around it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from syncscope.callsite import StackTable
from syncscope.context import CaptureContext
from syncscope.recording.tables import TABLES, Row


class Rows:
    """Stands in for the writer: the lists that collectors append to."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}
        self.sources: list[object] = []
        self.flushed = 0

    def flush(self) -> None:
        self.flushed += 1

    def rows(self, table: str) -> list[Row]:
        return self.tables[table]


@pytest.fixture
def context() -> CaptureContext:
    """A context whose rows stay in memory: `context.writer.rows(table)`."""
    return CaptureContext(Rows(), StackTable(), origin_unix_ns=0)  # type: ignore[arg-type]


@pytest.fixture
def uncollected() -> Iterator[None]:
    """What only Python's collector could free stays."""
    gc.disable()
    yield
    gc.enable()
