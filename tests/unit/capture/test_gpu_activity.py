"""Rows of a window come from torch.profiler's own trace, on the recording's clock."""

from __future__ import annotations

import gzip
import os
import tempfile
import threading
from pathlib import Path

import pytest
import torch

from syncscope.capture import gpu_activity
from syncscope.capture.gpu_activity import GpuActivity, _detaching
from syncscope.context import CaptureContext
from syncscope.recording.cuda_names import MAY_WAIT
from syncscope.recording.tables import ActivityRow, RuntimeRow
from tests.unit.capture.conftest import Rows

TRACE = Path(__file__).resolve().parents[2] / "data" / "traces" / "ns_resolution_rank0.json.gz"


def test_kernels_and_calls_of_a_trace_become_rows_after_the_origin(
    tmp_path: Path, context: CaptureContext
) -> None:
    path = tmp_path / "window.json"
    path.write_bytes(gzip.decompress(TRACE.read_bytes()))
    context.origin_unix_ns = 1_700_000_000_000_000_000
    collector = GpuActivity(context, lambda: None)
    may_wait = collector._keep(path)
    rows: dict[str, list[tuple[object, ...]]] = {"activity": [], "runtime": []}
    for table, batch in collector._take():
        rows[table] += zip(*batch.to_pydict().values(), strict=True)
    assert not list(collector._take())
    activity = [ActivityRow(*row) for row in rows["activity"]]
    runtime = [RuntimeRow(*row) for row in rows["runtime"]]
    assert may_wait == [row for row in runtime if row.kind in MAY_WAIT]
    assert may_wait
    assert {row.thread_id for row in runtime} == set(range(len(context.threads.rows())))
    assert len(rows["activity"]) + len(rows["runtime"]) == collector._seen
    assert collector.verdict == ("on", "")
    assert collector.lost == 0
    assert len(activity) > 1000
    assert len(runtime) > 1000
    launches = {row.correlation_id: row for row in runtime}
    late = [
        row
        for row in activity
        if row.correlation_id in launches and row.start_ns < launches[row.correlation_id].start_ns
    ]
    assert not late, "an activity starts before its launch: the clocks do not agree"


def test_each_window_has_correlation_ids_of_its_own(
    tmp_path: Path, context: CaptureContext
) -> None:
    """CUPTI, detached after a window, counts from 1 again in the next."""
    path = tmp_path / "window.json"
    path.write_bytes(gzip.decompress(TRACE.read_bytes()))
    collector = GpuActivity(context, lambda: None)
    windows: list[dict[str, list[int]]] = []
    for _ in range(2):
        collector._keep(path)
        ids: dict[str, list[int]] = {"activity": [], "runtime": []}
        for table, batch in collector._take():
            ids[table] += batch.column("correlation_id").to_pylist()
        windows.append(ids)
    first, second = windows
    last = max(*first["runtime"], *first["activity"])
    for table in first:
        assert second[table] == [one + last if one > 0 else one for one in first[table]]
    assert set(first["activity"]) & set(first["runtime"]), "an activity has a launch"
    assert set(first["runtime"]).isdisjoint(one for one in second["activity"] if one > 0)


def test_a_runtime_thread_is_the_python_thread_that_made_the_call(context: CaptureContext) -> None:
    number = context.threads.current()
    low = threading.get_ident() & 0xFFFFFFFF
    signed = low - (1 << 32) if low >= 1 << 31 else low
    assert context.threads.native(abs(signed)) == number
    assert context.threads.native(12345) == context.threads.native(12345) != number


def test_there_is_no_cupti_to_detach_where_torch_is_built_for_rocm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    monkeypatch.setattr(torch.cuda, "current_stream", None)
    with _detaching(wanted=True):
        assert "TEARDOWN_CUPTI" not in os.environ


@pytest.mark.parametrize("theirs", [None, "1"])
def test_kineto_says_only_errors_while_a_window_opens_unless_the_user_set_its_level(
    context: CaptureContext, monkeypatch: pytest.MonkeyPatch, theirs: str | None
) -> None:
    levels: list[str | None] = []

    class Profiler:
        def __init__(self, **_: object) -> None:
            pass

        def start(self) -> None:
            levels.append(os.environ.get("KINETO_LOG_LEVEL"))

    monkeypatch.setattr(torch.profiler, "profile", Profiler)
    monkeypatch.delenv("KINETO_LOG_LEVEL", raising=False)
    if theirs is not None:
        monkeypatch.setenv("KINETO_LOG_LEVEL", theirs)
    collector = GpuActivity(context, lambda: None)
    collector.begin()
    collector.abandon()
    assert levels == [theirs or gpu_activity.KINETO_ERRORS]
    assert os.environ.get("KINETO_LOG_LEVEL") == theirs


@pytest.mark.parametrize("anywhere", [True, False])
def test_a_window_opens_and_closes_where_that_does_no_harm(
    context: CaptureContext, monkeypatch: pytest.MonkeyPatch, anywhere: bool
) -> None:
    monkeypatch.setattr(gpu_activity, "_STOPS_ANYWHERE", anywhere)
    collector = GpuActivity(context, lambda: None)
    found = []

    def look(*_: object) -> None:
        found.append(collector.can_switch)

    def look_around() -> list[bool]:
        """Here, on another thread, and in a backward pass."""
        found.clear()
        look()
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        x = torch.ones(2, requires_grad=True)
        x.register_hook(look)
        x.sum().backward()
        return found

    assert look_around() == [True, True, anywhere]
    collector._profiler, collector._thread = object(), threading.get_ident()
    assert look_around() == [True, anywhere, anywhere]
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert look_around() == [False, False, False]


@pytest.mark.skipif(not gpu_activity._STOPS_ANYWHERE, reason="torch before 2.7 has no such option")
def test_torch_profiler_stops_on_another_thread_and_in_a_backward_pass() -> None:
    def stop(*_: object) -> None:
        profiler.stop()

    def elsewhere() -> None:
        thread = threading.Thread(target=stop)
        thread.start()
        thread.join()

    def in_backward() -> None:
        x = torch.ones(2, requires_grad=True)
        x.register_hook(stop)
        x.sum().backward()

    for end in (elsewhere, in_backward):
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU],
            experimental_config=gpu_activity._experimental_config(),
        )
        profiler.start()
        torch.ones(2).sum()
        end()
        assert not torch._C._autograd._profiler_enabled()
        assert profiler.profiler is not None
        assert profiler.profiler.kineto_results is not None
        names = {event.name() for event in profiler.profiler.kineto_results.events()}
        assert "aten::sum" in names


def test_what_torch_profiler_could_not_write_has_a_reason(context: CaptureContext) -> None:
    class Results:
        def save(self, path: str) -> None:
            Path(path).write_text('{"traceEvents": [{"ph": "X", "cat": "ker')

    class Writer(Rows):
        folder = Path(tempfile.gettempdir())

    context.writer = Writer()  # type: ignore[assignment]
    collector = GpuActivity(context, lambda: None)
    results: list[object] = [Results()]
    collector._stop = lambda **_: results.pop()  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="is the disk full"):
        collector.end(exiting=True)


def test_rows_are_written_before_a_window_is_read(context: CaptureContext) -> None:
    def stop(**_: object) -> None:
        flushed.append(writer.flushed)

    flushed: list[int] = []
    context.writer = writer = Rows()  # type: ignore[assignment]
    collector = GpuActivity(context, lambda: None)
    collector._stop = stop  # type: ignore[method-assign]
    with pytest.raises(RuntimeError, match="gave no result"):
        collector.end(exiting=False)
    assert flushed == [1]


def test_a_kill_while_a_window_is_read_leaves_nothing_large(
    context: CaptureContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Writer(Rows):
        folder = tmp_path

    def killed(self: GpuActivity, path: Path) -> object:
        files = [entry for entry in tmp_path.rglob("*") if not entry.is_dir()]
        seen.append((path.stat().st_size, [entry.lstat().st_size for entry in files]))
        raise KeyboardInterrupt

    seen: list[tuple[int, list[int]]] = []
    context.writer = Writer()  # type: ignore[assignment]
    collector = GpuActivity(context, lambda: None)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    torch.ones(2).sum()
    collector._profiler = profiler
    monkeypatch.setattr(GpuActivity, "_keep", killed)
    with pytest.raises(KeyboardInterrupt):
        collector.end(exiting=True)
    ((written, left),) = seen
    assert written > 500
    assert sum(left) < 50
    assert list(tmp_path.iterdir()) == []


def test_the_events_of_a_window_are_let_go(context: CaptureContext) -> None:
    collector = GpuActivity(context, lambda: None)
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    profiler.start()
    collector._profiler = profiler
    assert collector._stop(detach=False) is not None
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is None
