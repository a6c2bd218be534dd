"""Read a recording, whole or cut short; every table is checked against its declaration."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from syncscope.errors import RecordingError
from syncscope.recording.manifest import Manifest, read_manifest
from syncscope.recording.processes import runs
from syncscope.recording.tables import columns
from syncscope.recording.writer import arrow_schema, read_stream_batches


class Recording:
    """The tables and the manifest of one recording folder. Nothing in it is unpickled.

    Raises RecordingError (exit code 3) with one clear line when the folder is no recording,
    was written by a newer syncscope, or a table is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.manifest: Manifest = read_manifest(self.folder)
        self._tables: dict[str, pd.DataFrame] = {}

    @property
    def truncated(self) -> bool:
        """Whether the recording has not been closed: the run was killed, or goes on."""
        return self.manifest.state != "complete"

    @property
    def live(self) -> bool | None:
        """Whether the run goes on; None where that cannot be told, as on another host."""
        process = self.manifest.process
        if not self.truncated or process is None:
            return False
        if process.pid == os.getpid() and self.manifest.command != tuple(sys.orig_argv):
            return False  # it became another program before the recording was closed
        return runs(process)

    def table(self, name: str) -> pd.DataFrame:
        """A table as a data frame with exactly the declared columns; empty if not recorded.

        Texts of `activity` and `runtime` are categories, as few of them differ.

        The frame is shared: do not change it. Raises KeyError for an unknown table.
        """
        if name not in self._tables:
            self._tables[name] = self._read(name)
        return self._tables[name]

    @cached_property
    def sources(self) -> dict[str, str]:
        """Text of each source file that was kept, by the name that frames use."""
        texts = {}
        for file, copy in self.manifest.sources.items():
            path = (self.folder / copy).resolve()
            if path.is_relative_to(self.folder.resolve()) and path.is_file():
                texts[file] = path.read_text(encoding="utf-8", errors="replace")
        return texts

    def _read(self, name: str) -> pd.DataFrame:
        """Column by column, so that only one is held twice: as Arrow has it and as pandas."""
        with self._told(name, "is damaged"):
            present, read = self._open(name)
        missing = [column for column in columns(name) if column not in present]
        if missing:
            raise RecordingError(f"the table {name} of {self.folder} lacks the column {missing[0]}")
        arrays = {}
        for field in _read_schema(name):
            with self._told(name, "is damaged"):
                column = read(field.name)
            with self._told(name, "has columns of another type"):
                arrays[field.name] = column.cast(pa.schema([field])).column(0).to_pandas().array
        pa.default_memory_pool().release_unused()  # else it keeps room for one more such table
        with self._told(name, "is damaged"):
            return pd.DataFrame(arrays, copy=False)

    def _open(self, name: str) -> tuple[list[str], Callable[[str], pa.Table]]:
        """The names of a table's columns, and what reads one of them."""
        base, schema = self.folder / "rank-0" / name, arrow_schema(name)
        if base.with_suffix(".parquet").exists():
            file = pq.ParquetFile(base.with_suffix(".parquet"), read_dictionary=_texts(name))
            return file.schema_arrow.names, lambda column: file.read([column], use_threads=False)
        table = schema.empty_table()
        if base.with_suffix(".arrows").exists():
            batches = list(read_stream_batches(base.with_suffix(".arrows")))
            table = pa.Table.from_batches(batches, batches[0].schema if batches else schema)
        return table.column_names, lambda column: table.select([column])

    @contextlib.contextmanager
    def _told(self, name: str, what: str) -> Iterator[None]:
        try:
            yield
        except _DAMAGE as error:
            raise RecordingError(
                f"the table {name} of {self.folder} {what}: {_first_line(error)}"
            ) from None


_DAMAGE = (OSError, pa.ArrowException, ValueError, MemoryError)
"""What pyarrow raises for damaged files; ValueError for nulls and for text that is none.

MemoryError: a damaged length asks for any amount of memory.
"""


_LARGE = ("activity", "runtime")
"""Tables of millions of rows and few different texts: these are read as categories."""


def _texts(table: str) -> list[str]:
    """The columns of a table that become categories."""
    texts = (name for name, column in columns(table).items() if column.arrow_type == "string")
    return list(texts) if table in _LARGE else []


def _read_schema(table: str) -> pa.Schema:
    schema, code = arrow_schema(table), pa.dictionary(pa.int32(), pa.string())
    for name in _texts(table):
        schema = schema.set(schema.get_field_index(name), pa.field(name, code))
    return schema


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
