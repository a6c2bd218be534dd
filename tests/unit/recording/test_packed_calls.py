"""Packed calls become the rows that were meant, whenever they are taken."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.manifest import Manifest
from syncscope.recording.packed import NO_ACTIVITY, NO_CALL, CallTexts, PackedCalls
from syncscope.recording.reader import Recording
from syncscope.recording.tables import ActivityRow, RuntimeRow
from syncscope.recording.writer import RecordingWriter

TEXTS = (
    CallTexts("cudaLaunchKernel", "launch", "kernel", "aten::mul"),
    CallTexts("cudaMemcpyAsync", "memcpy", "memcpy", "Memcpy", "h2d", "pageable"),
    CallTexts("cudaStreamSynchronize", "sync"),
)
NUMBER = st.integers(0, 2**60)
CALL = st.tuples(
    st.integers(-1, 5), NUMBER, NUMBER, st.integers(-1, 7), NUMBER, NUMBER, NUMBER, NUMBER,
    st.sampled_from(TEXTS),
)  # fmt: skip


def rows_of(batch: Any) -> list[tuple[Any, ...]]:
    """Rows of a batch as plain tuples."""
    return list(zip(*batch.to_pydict().values(), strict=True))


@given(st.lists(st.tuples(CALL, st.booleans()), max_size=12))
def test_rows_do_not_depend_on_when_they_are_taken(calls: list[tuple[Any, bool]]) -> None:
    packed = PackedCalls()
    runtime: list[RuntimeRow] = []
    activity: list[ActivityRow] = []
    taken: dict[str, list[tuple[Any, ...]]] = {"runtime": [], "activity": []}
    number = 0
    for call, take_now in calls:
        thread, start, end, device, stream, begin, done, size, texts = call
        packed.add(packed.pack(*call[:-1], packed.code(texts)))
        if thread != NO_CALL:
            number += 1
            runtime.append(RuntimeRow(thread, start, end, texts.call, texts.call_kind, number))
        if device != NO_ACTIVITY:
            what = (texts.kind, texts.name, texts.direction, texts.memory, size)
            activity.append(ActivityRow(device, stream, begin, done, *what, number))
        if take_now:
            for table, batch in packed.take():
                taken[table] += rows_of(batch)
    for table, batch in packed.take():
        taken[table] += rows_of(batch)
    assert taken == {"runtime": runtime, "activity": activity}
    assert packed.take() == []


def test_threads_do_not_tear_rows() -> None:
    packed = PackedCalls()
    code = packed.code(TEXTS[2])
    taken: list[tuple[Any, ...]] = []

    def add(thread: int) -> None:
        for moment in range(3000):
            packed.add(packed.pack(thread, moment, moment, NO_ACTIVITY, 0, 0, 0, 0, code))

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        taken += [row for _, table in packed.take() for row in rows_of(table)]
    taken += [row for _, table in packed.take() for row in rows_of(table)]
    assert [row[-1] for row in taken] == list(range(1, 12001))
    for number in range(4):
        assert [row[1] for row in taken if row[0] == number] == list(range(3000))


def test_the_writer_asks_for_columns(tmp_path: Path) -> None:
    manifest = Manifest("r", ("train.py",), True, False, 0, {})
    writer = RecordingWriter(tmp_path / "run", manifest)
    packed = PackedCalls()
    writer.sources.append(packed.take)
    packed.add(packed.pack(0, 5, 9, 0, 7, 11, 13, 0, packed.code(TEXTS[0])))
    writer.flush()
    packed.add(packed.pack(0, 20, 24, NO_ACTIVITY, 0, 0, 0, 0, packed.code(TEXTS[2])))
    writer.close(replace(manifest, state="complete"))
    recording = Recording(tmp_path / "run")
    assert recording.table("runtime")["name"].tolist() == [texts.call for texts in TEXTS[::2]]
    assert recording.table("activity")["correlation_id"].tolist() == [1]


def test_after_a_failure_columns_are_let_go(tmp_path: Path) -> None:
    writer = RecordingWriter(tmp_path / "run", Manifest("r", (), True, False, 0, {}))
    packed = PackedCalls()
    writer.sources.append(packed.take)
    writer.failure = "the disk is full"
    packed.add(packed.pack(0, 5, 9, 0, 7, 11, 13, 0, packed.code(TEXTS[0])))
    writer.flush()
    assert packed.take() == []
