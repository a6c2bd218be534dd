"""A shadow GPU whose rows stay in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch._dynamo  # noqa: F401  (optimizers import it, which changes warning filters)

from syncscope.callsite import StackTable
from syncscope.context import CaptureContext
from syncscope.recording.manifest import Manifest
from syncscope.recording.tables import TABLES
from syncscope.recording.writer import RecordingWriter
from syncscope.shadow.gpu import ShadowGpu


class Session:
    """A running ShadowGpu and what it has written."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.writer = RecordingWriter(folder, Manifest("unit", (), True, False, 0, {}))
        self.context = CaptureContext(self.writer, StackTable())
        self.gpu = ShadowGpu(self.context, **options)

    def take(self, table: str) -> list[Any]:
        """Rows of a table since the last call."""
        self._gather()
        rows = self.writer.rows(table)
        taken = [TABLES[table](*row) for row in rows]
        rows.clear()
        return taken

    def forget(self) -> None:
        """Drop all rows so far."""
        self._gather()
        for table in ("blocking", "transfers", "runtime", "activity"):
            self.writer.rows(table).clear()

    def _gather(self) -> None:
        for source in self.writer.sources:
            for table, batch in source():
                self.writer.rows(table).extend(zip(*batch.to_pydict().values(), strict=True))

    def waits(self) -> list[tuple[str, str]]:
        """Operator and cause of what blocked since the last call, transfers included."""
        blocking = [(row.op, row.cause) for row in self.take("blocking")]
        return blocking + [
            (row.op, row.cause) for row in self.take("transfers") if not row.non_blocking
        ]


@pytest.fixture
def make_session(tmp_path: Path) -> Iterator[Callable[..., Session]]:
    """Start shadow GPUs; they are stopped at the end."""
    made: list[Session] = []

    def make(**options: Any) -> Session:
        session = Session(tmp_path / f"run-{len(made)}", **options)
        made.append(session)
        session.gpu.start()
        return session

    yield make
    for session in made:
        session.gpu.stop()


@pytest.fixture
def session(make_session: Callable[..., Session]) -> Session:
    """One shadow H200."""
    return make_session()
