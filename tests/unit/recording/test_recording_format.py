"""Writer, reader and manifest: what is written comes back, also after a crash."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_type_hints

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from syncscope.errors import RecordingError, UsageError
from syncscope.recording.manifest import (
    FORMAT_VERSION,
    MANIFEST_NAME,
    CollectorStatus,
    Device,
    Exit,
    Manifest,
    Thread,
    Window,
    read_manifest,
    write_manifest,
)
from syncscope.recording.reader import Recording
from syncscope.recording.tables import TABLES, Row, StepMark, columns
from syncscope.recording.writer import RecordingWriter, arrow_schema, read_stream_batches

MANIFEST = Manifest(
    run_id="r", argv=("train.py",), simulated=False, imported=False, origin_unix_ns=5, versions={}
)

ANY_VALUE: dict[str, st.SearchStrategy[Any]] = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "bool": st.booleans(),
    "string": st.text(max_size=20),
    "float64": st.floats(allow_nan=False),
    "list<int64>": st.lists(st.integers(0, 2**40), max_size=4).map(tuple),
}


def rows_of(table: str) -> st.SearchStrategy[list[Row]]:
    """Rows of a table with arbitrary values."""
    row = st.tuples(*(ANY_VALUE[column.arrow_type] for column in columns(table).values()))
    return st.lists(row.map(TABLES[table]._make), max_size=5)


def marks(*times: int) -> list[StepMark]:
    """Step marks at some times."""
    return [StepMark(time, 1, "api", f"step {time}") for time in times]


def read_back(frame: pd.DataFrame) -> list[tuple[Any, ...]]:
    """Rows of a data frame as the tuples that were written."""
    return [
        tuple(tuple(v.tolist()) if hasattr(v, "tolist") and v.ndim else v for v in row)
        for row in frame.itertuples(index=False, name=None)
    ]


def finished(folder: Path, table: str = "steps", rows: Sequence[Row] | None = None) -> Path:
    """A complete recording with some rows."""
    writer = RecordingWriter(folder, MANIFEST)
    writer.rows(table).extend(marks(1, 2, 3) if rows is None else rows)
    writer.close(replace(MANIFEST, state="complete"))
    assert not writer.failure
    return folder


@settings(deadline=None)
@given(st.sampled_from(sorted(TABLES)).flatmap(lambda t: st.tuples(st.just(t), rows_of(t))))
def test_rows_come_back_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[str, list[Row]]
) -> None:
    table, rows = case
    folder = tmp_path_factory.mktemp("round")
    frame = Recording(finished(folder, table, rows)).table(table)
    assert read_back(frame) == [tuple(row) for row in rows]


@pytest.mark.parametrize("table", TABLES)
def test_a_table_without_rows_has_its_columns_and_types(table: str, tmp_path: Path) -> None:
    frame = Recording(finished(tmp_path, rows=[])).table(table)
    assert list(frame.columns) == list(columns(table))
    assert len(frame) == 0
    types = {"int64": "i", "int32": "i", "bool": "b", "float64": "f"}
    for name, column in columns(table).items():
        assert frame[name].dtype.kind == types.get(column.arrow_type, frame[name].dtype.kind)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_declared_with_a_type_that_arrow_knows(table: str) -> None:
    assert arrow_schema(table).names == list(get_type_hints(TABLES[table]))


def test_a_complete_recording_holds_parquet_files_only(tmp_path: Path) -> None:
    folder = finished(tmp_path)
    assert [path.name for path in (folder / "rank-0").iterdir()] == ["steps.parquet"]
    assert not Recording(folder).truncated


def test_an_unknown_table_is_a_key_error(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        Recording(finished(tmp_path)).table("nonsense")


def test_text_that_is_no_unicode_is_kept_readable(tmp_path: Path) -> None:
    rows: list[Row] = [StepMark(1, 1, "api", "caf\udce9"), StepMark(2, 1, "api", "good")]
    frame = Recording(finished(tmp_path, rows=rows)).table("steps")
    assert frame["name"].tolist() == ["caf?", "good"]


# what a crash leaves behind


@pytest.fixture(scope="session")
def flushed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes, list[int]]:
    """A running recording, the bytes of its steps and where each of three batches ends."""
    folder = tmp_path_factory.mktemp("live")
    writer = RecordingWriter(folder, MANIFEST)
    stream, ends = folder / "rank-0" / "steps.arrows", []
    for times in ((1, 2), (3,), (4, 5, 6)):
        writer.rows("steps").extend(marks(*times))
        writer.flush()
        ends.append(stream.stat().st_size)
    content = stream.read_bytes()
    writer.close(MANIFEST)
    return folder, content, ends


def test_a_running_recording_is_readable_up_to_its_last_flush(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path, MANIFEST)
    writer.rows("steps").extend(marks(1, 2))
    writer.flush()
    writer.rows("steps").extend(marks(3))
    recording = Recording(tmp_path)
    assert recording.truncated
    assert recording.table("steps")["time_ns"].tolist() == [1, 2]
    writer.close(MANIFEST)


def read_torn(folder: Path, content: bytes) -> list[int]:
    """Times of the step marks in a recording whose stream holds only this."""
    (folder / "rank-0").mkdir(parents=True)
    write_manifest(folder, MANIFEST)
    (folder / "rank-0" / "steps.arrows").write_bytes(content)
    times: list[int] = Recording(folder).table("steps")["time_ns"].tolist()
    return times


def test_a_stream_torn_anywhere_keeps_its_whole_batches(
    flushed: tuple[Path, bytes, list[int]], tmp_path: Path
) -> None:
    _, content, ends = flushed
    for cut in range(0, len(content), 7):
        whole = sum(end <= cut for end in ends)
        expected = [[], [1, 2], [1, 2, 3], [1, 2, 3, 4, 5, 6]][whole]
        assert read_torn(tmp_path / str(cut), content[:cut]) == expected


@settings(max_examples=60, deadline=None)
@given(data=st.data(), tail=st.binary(max_size=64))
def test_rubbish_after_a_tear_never_costs_a_whole_batch(
    flushed: tuple[Path, bytes, list[int]],
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    tail: bytes,
) -> None:
    _, content, ends = flushed
    whole = data.draw(st.integers(1, 3))
    times = read_torn(tmp_path_factory.mktemp("torn") / "run", content[: ends[whole - 1]] + tail)
    assert times[: (2, 3, 6)[whole - 1]] == [1, 2, 3, 4, 5, 6][: (2, 3, 6)[whole - 1]]


def test_a_killed_writer_keeps_what_it_flushed(tmp_path: Path) -> None:
    program = f"""
        import sys, time
        from pathlib import Path
        from syncscope.recording.manifest import Manifest
        from syncscope.recording.tables import StepMark
        from syncscope.recording.writer import RecordingWriter
        manifest = Manifest("r", (), False, False, 0, {{}})
        writer = RecordingWriter(Path({str(tmp_path / "run")!r}), manifest)
        for number in range(10):
            writer.rows("steps").append(StepMark(number, 1, "api", ""))
            writer.flush()
        writer.rows("steps").append(StepMark(99, 1, "api", ""))
        print("flushed", flush=True)
        time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "flushed\n"
        process.send_signal(signal.SIGKILL)
    recording = Recording(tmp_path / "run")
    assert recording.truncated
    assert recording.table("steps")["time_ns"].tolist() == list(range(10))


def test_a_background_flush_needs_nobody_to_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("syncscope.recording.writer.FLUSH_INTERVAL_S", 0.01)
    writer = RecordingWriter(tmp_path, MANIFEST)
    written = iter(range(1_000))
    writer.before_flush.append(lambda: writer.rows("steps").extend(marks(next(written))))
    writer.start()
    while not (tmp_path / "rank-0" / "steps.arrows").exists():
        pass
    writer.close(MANIFEST)
    times = Recording(tmp_path).table("steps")["time_ns"].tolist()
    assert times == list(range(next(written)))


# a disk that is full


class FullDisk:
    """A file on a disk that takes only so many bytes."""

    def __init__(self, file: Any, room: int) -> None:
        self._file, self._room = file, room
        self.closed = False

    def write(self, data: Any) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return int(self._file.write(data))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()
        self.closed = True


def test_a_full_disk_stops_the_recording_but_not_the_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "syncscope.recording.writer.open",
        lambda *args: FullDisk(open(*args), 3_000),  # noqa: SIM115
        raising=False,
    )
    writer = RecordingWriter(tmp_path, MANIFEST)
    for number in range(50):
        writer.rows("steps").extend(marks(*range(10 * number, 10 * number + 10)))
        writer.flush()
    assert writer.failure == "No space left on device"
    assert writer.rows("steps") == []
    writer.close(replace(MANIFEST, state="complete"))
    times = Recording(tmp_path).table("steps")["time_ns"].tolist()
    assert 10 <= len(times) < 500
    assert times == list(range(len(times)))


def test_a_disk_that_fills_up_at_the_end_costs_no_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = RecordingWriter(tmp_path, MANIFEST)
    writer.rows("steps").extend(marks(1, 2))
    monkeypatch.setattr(pq.ParquetWriter, "write_batch", full)
    writer.close(replace(MANIFEST, state="complete"))
    assert writer.failure == "No space left on device"
    assert Recording(tmp_path).table("steps")["time_ns"].tolist() == [1, 2]
    assert [path.name for path in (tmp_path / "rank-0").iterdir()] == ["steps.arrows"]


def test_a_manifest_that_cannot_be_written_is_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    writer = RecordingWriter(tmp_path / "a", MANIFEST)
    monkeypatch.setattr("syncscope.recording.writer.write_manifest", full)
    writer.close(replace(MANIFEST, state="complete"))
    assert writer.failure == "No space left on device"
    with pytest.raises(UsageError, match=r"cannot write a recording to .*: No space left"):
        RecordingWriter(tmp_path / "b", MANIFEST)


def test_a_recording_is_never_written_over(tmp_path: Path) -> None:
    finished(tmp_path / "run")
    with pytest.raises(UsageError, match="not empty"):
        RecordingWriter(tmp_path / "run", MANIFEST)
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(UsageError, match="cannot write a recording"):
            RecordingWriter(folder, MANIFEST)


def test_an_abandoned_writer_writes_nothing(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path, MANIFEST)
    writer.rows("steps").extend(marks(1))
    writer.abandon()
    writer.flush()
    assert not list((tmp_path / "rank-0").iterdir())


# folders that are none, or were changed


def test_a_damaged_parquet_file_is_one_clear_line(tmp_path: Path) -> None:
    path = finished(tmp_path) / "rank-0" / "steps.parquet"
    content = path.read_bytes()
    for damaged in (b"", content[:40], content[:-20], bytes(len(content))):
        path.write_bytes(damaged)
        with pytest.raises(RecordingError, match=r"table steps of .* is damaged") as caught:
            Recording(tmp_path).table("steps")
        assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_changed_bytes_never_raise_anything_but_a_recording_error(
    flushed: tuple[Path, bytes, list[int]],
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
) -> None:
    folder = finished(tmp_path_factory.mktemp("changed"))
    path = folder / "rank-0" / "steps.parquet"
    content = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        path.unlink()
        path, content = path.with_suffix(".arrows"), bytearray(flushed[1])
    start = data.draw(st.integers(0, len(content) - 1))
    piece = data.draw(st.binary(min_size=1, max_size=8))
    content[start : start + len(piece)] = piece
    path.write_bytes(content)
    with contextlib.suppress(RecordingError):
        assert list(Recording(folder).table("steps").columns) == list(columns("steps"))


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = finished(tmp_path) / "rank-0" / "steps.parquet"
    pq.write_table(pq.ParquetFile(path).read().drop(["source"]), path)
    with pytest.raises(RecordingError, match=r"table steps of .* lacks the column source"):
        Recording(tmp_path).table("steps")


@pytest.mark.parametrize("values", [["a", "b"], [1, None]])
def test_a_column_of_another_type_is_refused(values: list[Any], tmp_path: Path) -> None:
    path = finished(tmp_path, rows=marks(1, 2)) / "rank-0" / "steps.parquet"
    table = pq.ParquetFile(path).read()
    pq.write_table(table.set_column(0, "time_ns", pa.array(values)), path)
    with pytest.raises(RecordingError, match=r"table steps of .* has columns of another type"):
        Recording(tmp_path).table("steps")


def test_columns_of_a_later_version_are_ignored(tmp_path: Path) -> None:
    path = finished(tmp_path) / "rank-0" / "steps.parquet"
    table = pq.ParquetFile(path).read()
    pq.write_table(table.append_column("later", pa.array([1, 2, 3])), path)
    assert list(Recording(tmp_path).table("steps").columns) == list(columns("steps"))


def test_the_name_of_the_folder_is_no_data(tmp_path: Path) -> None:
    folder = finished(tmp_path / "source=lr" / "time_ns=x")
    assert Recording(folder).table("steps")["source"].tolist() == ["api"] * 3


def test_a_folder_that_is_no_recording_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path, tmp_path / "file"):
        with pytest.raises(RecordingError, match="is not a recording"):
            Recording(folder)
    with pytest.raises(RecordingError, match="none does not exist"):
        Recording(tmp_path / "none")


def test_a_newer_format_asks_for_an_update(tmp_path: Path) -> None:
    write_manifest(tmp_path, replace(MANIFEST, format_version=FORMAT_VERSION + 1))
    with pytest.raises(RecordingError, match="Update syncscope"):
        Recording(tmp_path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b'{"format_version": 1}',
        b'{"format_version": "1"}',
        b'{"format_version": true}',
        b"[" * 100_000,
        b'{"format_version": 1, "run_id": "\xff"}',
    ],
)
def test_a_damaged_manifest_is_one_clear_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / MANIFEST_NAME).write_bytes(content)
    with pytest.raises(RecordingError) as caught:
        Recording(tmp_path)
    assert "\n" not in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    manifest = replace(
        MANIFEST,
        devices=(Device(0, "NVIDIA H200"),),
        windows=(Window(1, 2),),
        collectors=(CollectorStatus("nvml", "failed", "no driver", 3),),
        threads=(Thread(0, "main"),),
        exit=Exit(1, "ValueError"),
        overhead={"flush": 0.5},
        sources={"train.py": "sources/train.py"},
        notes=("a note",),
    )
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    assert json.loads((tmp_path / MANIFEST_NAME).read_text())["format_version"] == FORMAT_VERSION


def test_sources_outside_the_recording_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    folder = finished(tmp_path / "run")
    (folder / "own.py").write_text("x = 1")
    sources = {"own.py": "own.py", "a": "../secret", "b": str(tmp_path / "secret"), "c": "none"}
    write_manifest(folder, replace(MANIFEST, sources=sources))
    assert Recording(folder).sources == {"own.py": "x = 1"}


def test_batches_of_a_missing_stream_are_an_error_not_an_empty_table(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(read_stream_batches(tmp_path / "steps.arrows"))
