"""Write a recording: append-only Arrow streams while the run is alive, Parquet at its end.

Collectors append rows to plain lists (one C call, no lock, no I/O on their thread); a
daemon thread turns what has gathered into Arrow batches about once a second.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from syncscope.errors import UsageError
from syncscope.own_threads import start_own
from syncscope.recording.arrow_columns import array_of
from syncscope.recording.manifest import MANIFEST_NAME, Manifest, write_manifest
from syncscope.recording.tables import TABLES, Row, columns

FLUSH_INTERVAL_S = 1.0


def arrow_schema(table: str) -> pa.Schema:
    """Arrow schema of a table, with each column's unit in its metadata."""
    types = {"list<int64>": pa.list_(pa.int64())}
    return pa.schema(
        [
            pa.field(
                name,
                types.get(column.arrow_type) or pa.type_for_alias(column.arrow_type),
                nullable=False,
                metadata={"unit": column.unit},
            )
            for name, column in columns(table).items()
        ]
    )


def create_folder(path: Path) -> list[Path]:
    """Make the recording's folder; returns the folders that were made, innermost first.

    Raises UsageError if it cannot be made or is in use.
    """
    tables = path / "rank-0"
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UsageError(f"{path} exists and is not empty; name another folder")
        tables.mkdir()
    except OSError as error:
        raise UsageError(f"cannot write a recording to {path}: {error.strerror}") from error
    return [tables, *missing]


class RecordingWriter:
    """Owns the folder of a recording from its first byte to its last.

    `rows(table)` is the list that a collector appends to. `before_flush` are called on
    the flushing thread first; they may append rows as well (call stacks are resolved so).
    `watchers` are shown the rows of each table once they are written.
    `sources` are asked on that thread for tables and batches of what they have gathered as
    columns.
    When the disk is full or gone, the program runs on: `failure` says what happened and
    the rows from then on are lost. The folder is kept as an absolute path, because the
    program may change its working folder.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        folder = folder.absolute()
        self._made = create_folder(folder)
        self.folder = folder
        self.manifest = manifest
        self.failure = ""
        self.before_flush: list[Callable[[], None]] = []
        self.sources: list[Callable[[], Iterable[tuple[str, pa.RecordBatch]]]] = []
        self.watchers: list[Callable[[dict[str, list[Row]]], None]] = []
        self._rows: dict[str, list[Row]] = {name: [] for name in TABLES}
        self._streams: dict[str, tuple[Any, Any]] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            write_manifest(folder, manifest)
        except OSError as error:
            raise UsageError(f"cannot write a recording to {folder}: {error.strerror}") from error

    def rows(self, table: str) -> list[Row]:
        """The list to append rows of a table to. It stays the same object for the whole run."""
        return self._rows[table]

    def start(self) -> None:
        """Start flushing in the background."""
        self._thread = start_own(self._loop, "writer")

    def flush(self) -> None:
        """Write all rows that have gathered. Safe from any thread; cost grows with the rows."""
        with self._lock:
            if self.failure:
                for rows in self._rows.values():
                    rows.clear()
                for source in self.sources:
                    source()
                return
            try:
                for hook in self.before_flush:
                    hook()
                gathered = {table: rows[:] for table, rows in self._rows.items()}
                for table, taken in gathered.items():
                    self._write(table, taken)
                for source in self.sources:
                    for table, batch in source():
                        self._write_batch(table, batch)
                for watcher in self.watchers:
                    watcher(gathered)
            except Exception as error:  # noqa: BLE001  (the program must go on)
                self.failure = _reason(error)

    def close(self, manifest: Manifest) -> None:
        """Flush, turn the streams into Parquet files and write the final manifest.

        Parquet files appear one by one under their final names, and a stream is removed
        only when its Parquet file is whole: a kill in between loses nothing.
        """
        self._stopped.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()
        self.flush()
        with self._lock:
            for sink, stream in self._streams.values():
                for closable in (stream, sink):
                    with contextlib.suppress(Exception):
                        closable.close()
            try:
                for table in self._streams:
                    stream_to_parquet(self._path(table))
            except Exception as error:  # noqa: BLE001  (the program's end is its own)
                self.failure = self.failure or _reason(error)
            self._streams.clear()
        self.publish(manifest)

    def discard(self) -> None:
        """Take the folders back that were made, instead of closing a recording of nothing.

        What others have put there stays.
        """
        self._stopped.set()
        with contextlib.suppress(OSError):
            (self.folder / MANIFEST_NAME).unlink()
            for folder in self._made:
                folder.rmdir()

    def publish(self, manifest: Manifest) -> None:
        """Write the manifest as it is now; a failure is noted, not raised."""
        try:
            write_manifest(self.folder, manifest)
        except OSError as error:
            self.failure = self.failure or _reason(error)

    def abandon(self) -> None:
        """Forget everything without writing: for a forked child, which owns no recording."""
        self._stopped.set()
        self.failure = "abandoned in a forked child"
        self._lock = threading.Lock()
        # Collectors that are started in the child (torch imported after the fork) get these.
        self._rows = {name: _Forgotten() for name in TABLES}

    def _path(self, table: str) -> Path:
        return self.folder / "rank-0" / f"{table}.arrows"

    def _write(self, table: str, taken: list[Row]) -> None:
        if not taken:
            return
        schema = arrow_schema(table)
        arrays = [
            array_of(values, field.type)
            for values, field in zip(zip(*taken, strict=True), schema, strict=True)
        ]
        self._write_batch(table, pa.record_batch(arrays, schema=schema))
        del self._rows[table][: len(taken)]

    def _write_batch(self, table: str, batch: pa.RecordBatch) -> None:
        if table not in self._streams:
            sink = open(self._path(table), "wb")  # noqa: SIM115  (closed in close())
            self._streams[table] = (sink, pa.ipc.new_stream(sink, batch.schema))
        sink, stream = self._streams[table]
        stream.write_batch(batch)
        sink.flush()

    def _loop(self) -> None:
        while not self._stopped.wait(FLUSH_INTERVAL_S):
            self.flush()


class _Forgotten(list[Row]):
    """Rows of a forked child."""

    def append(self, row: Row) -> None:
        """Forget the row."""


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return f"{type(error).__name__}: {error}"


def read_stream_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """Batches of an Arrow stream up to the last whole one; a torn tail is left out."""
    with path.open("rb") as file:
        try:
            reader = pa.ipc.open_stream(file)
            while True:
                yield reader.read_next_batch()
        except (StopIteration, pa.ArrowException, OSError, ValueError, MemoryError):
            return


def stream_to_parquet(path: Path) -> None:
    """Replace `table.arrows` by `table.parquet`, batch by batch; all or nothing.

    Texts repeat and get a dictionary. Integers are times and ids that grow: as differences they
    take half the time to write and to read, and less room.
    """
    draft, final = path.with_suffix(".parquet.tmp"), path.with_suffix(".parquet")
    schema = arrow_schema(path.stem)
    options = {
        "compression": "zstd",
        "use_dictionary": [f.name for f in schema if pa.types.is_string(f.type)],
        "column_encoding": {
            f.name: "DELTA_BINARY_PACKED" for f in schema if pa.types.is_integer(f.type)
        },
    }
    try:
        with pq.ParquetWriter(draft, schema, **options) as writer:
            for batch in read_stream_batches(path):
                writer.write_batch(batch)
        os.replace(draft, final)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    path.unlink()
