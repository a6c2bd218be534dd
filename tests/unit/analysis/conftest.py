"""A builder of recordings: a few words an event, real files behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.manifest import CollectorStatus, Device, Manifest, Thread, Window
from syncscope.recording.reader import Recording
from syncscope.recording.tables import (
    ActivityRow,
    BlockingRow,
    FrameRow,
    HostRow,
    Row,
    RuntimeRow,
    StackRow,
    StepMark,
    TransferRow,
)
from syncscope.recording.writer import RecordingWriter

MAIN, AUTOGRAD = 0, 1


class RecordingBuilder:
    """Gathers rows; times are ns. `build` writes them as a recording and reads that."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, list[Row]] = {}
        self.sources: dict[str, str] = {}
        self.correlation = 0
        self.manifest = Manifest(
            run_id="test",
            argv=("train.py",),
            simulated=False,
            imported=False,
            origin_unix_ns=0,
            versions={"torch": "2.11.0"},
            devices=(Device(0, "NVIDIA H200"),),
            collectors=(CollectorStatus("activity", "on"),),
            threads=(Thread(MAIN, "MainThread"), Thread(AUTOGRAD, "native thread 1")),
            state="complete",
        )

    def add(self, table: str, row: Row) -> None:
        self.rows.setdefault(table, []).append(row)

    def window(self, start: int, end: int) -> None:
        windows = (*self.manifest.windows, Window(start, end))
        self.manifest = replace(self.manifest, windows=windows)

    def line(
        self,
        expression: str,
        line: int = 1,
        *,
        file: str = "train.py",
        column: int = 1,
        inner: tuple[tuple[str, str, str], ...] = (),
        function: str = "main",
    ) -> int:
        """A stack: a user's line and, below it, (file, function, owner) innermost first."""
        frames = self.rows.setdefault("frames", [])
        ids = []
        places = [*inner, (file, function, "user")]
        for name, where, owner in places:
            own = owner == "user"
            ids.append(len(frames))
            frames.append(
                FrameRow(
                    len(frames), name, where, line if own else 7, line if own else 7,
                    column, column + len(expression), expression if own else "inner()", owner,
                )
            )  # fmt: skip
        stacks = self.rows.setdefault("stacks", [])
        stacks.append(StackRow(len(stacks), tuple(ids)))
        return len(stacks) - 1

    def kernel(
        self, launch: int, start: int, end: int, *, thread: int = MAIN, stream: int = 7,
        device: int = 0, launched: bool = True,
    ) -> None:  # fmt: skip
        """A kernel and, unless it is missing, its launch, which takes 3 us at most."""
        self.correlation += 1
        if launched:
            self.runtime("cudaLaunchKernel", "launch", launch, min(launch + 3_000, start), thread)
        self.add(
            "activity",
            ActivityRow(device, stream, start, end, "kernel", "gemm", "", "", -1, self.correlation),
        )

    def runtime(self, name: str, kind: str, start: int, end: int, thread: int = MAIN) -> None:
        self.add("runtime", RuntimeRow(thread, start, end, name, kind, self.correlation))

    def copy_call(
        self, start: int, ran: tuple[int, int], end: int, *, direction: str = "d2h",
        size: int = 4, memory: str = "pageable", waits: bool = True, thread: int = MAIN,
    ) -> None:  # fmt: skip
        """cudaMemcpyAsync from `start`, its copy `ran` on the device, and the wait until `end`."""
        self.correlation += 1
        middle = max(start + 1, end - 1_000) if waits else end
        self.runtime("cudaMemcpyAsync", "memcpy", start, middle, thread)
        name = "Memcpy HtoD" if direction == "h2d" else "Memcpy DtoH"
        self.add(
            "activity",
            ActivityRow(0, 7, *ran, "memcpy", name, direction, memory, size, self.correlation),
        )
        if waits:
            self.correlation += 1
            self.runtime("cudaStreamSynchronize", "sync", middle, end, thread)

    def sync(self, start: int, end: int, *, thread: int = MAIN, name: str = "cudaStream") -> None:
        self.correlation += 1
        self.runtime(f"{name}Synchronize", "sync", start, end, thread)

    def warning(self, time: int, stack: int, thread: int = MAIN) -> None:
        self.add(
            "blocking", BlockingRow(thread, time, time, stack, "warning", "", "sync", False, "")
        )

    def blocking(
        self, start: int, end: int, stack: int, *, source: str = "explicit", op: str = "",
        kind: str = "sync", explicit: bool | None = None, cause: str = "", thread: int = MAIN,
    ) -> None:  # fmt: skip
        explicit = source == "explicit" if explicit is None else explicit
        self.add(
            "blocking", BlockingRow(thread, start, end, stack, source, op, kind, explicit, cause)
        )

    def transfer(
        self, start: int, end: int, stack: int, *, op: str = "Tensor.to", direction: str = "h2d",
        size: int = 1024, memory: str = "pageable", non_blocking: bool = False,
        origin: int = -1, cause: str = "", thread: int = MAIN,
    ) -> None:  # fmt: skip
        self.add(
            "transfers",
            TransferRow(
                thread, start, end, stack, op, direction, size, memory, non_blocking, 0, origin,
                cause,
            ),
        )  # fmt: skip

    def host(self, start: int, end: int, kind: str, thread: int = MAIN) -> None:
        self.add("host", HostRow(thread, start, end, kind, "next", -1))

    def mark(self, time: int, source: str = "api", name: str = "", thread: int = MAIN) -> None:
        self.add("steps", StepMark(time, thread, source, name))

    def build(self, **changes: Any) -> Recording:
        self.manifest = replace(self.manifest, **changes)
        writer = RecordingWriter(self.folder, self.manifest)
        for table, rows in self.rows.items():
            writer.rows(table).extend(rows)
        (self.folder / "sources").mkdir()
        copies = {}
        for number, (name, text) in enumerate(self.sources.items()):
            copies[name] = f"sources/{number}.py"
            (self.folder / copies[name]).write_text(text)
        writer.close(replace(self.manifest, sources=copies))
        return Recording(self.folder)


@pytest.fixture(scope="session", autouse=True)
def hypothesis_is_set_up() -> None:
    """At its first test hypothesis hangs a callback into gc: before anyone compares those."""
    given(st.none())(lambda value: None)()


@pytest.fixture
def builder(tmp_path: Path) -> RecordingBuilder:
    return RecordingBuilder(tmp_path / "run")


@pytest.fixture
def builders(tmp_path: Path) -> Callable[[], RecordingBuilder]:
    """A factory for tests that need several recordings, hypothesis' among them."""
    counter = iter(range(1 << 30))
    return lambda: RecordingBuilder(tmp_path / f"run-{next(counter)}")
