"""The recorder on a real GPU, played by fakes: windows, detail steps, calibration, failures."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from syncscope.capture import gpu_activity, nvml
from syncscope.context import CaptureContext
from syncscope.errors import UsageError
from syncscope.options import RecordOptions
from syncscope.recorder import Recorder
from syncscope.recording.manifest import Manifest
from syncscope.recording.processes import this_process
from syncscope.recording.reader import Recording
from syncscope.recording.tables import RuntimeRow
from syncscope.schedule import CALIBRATION_STEPS

MODE = {"value": 0}


class Activity:
    """Plays torch.profiler: every window has one runtime call."""

    name = "activity"
    verdict = ("on", "")
    lost = 0
    log: list[str]
    fails = ""
    capturing = False

    def __init__(self, context: CaptureContext, interrupted: Callable[[], None]) -> None:
        self.context = context
        self.running = False
        self.thread = -1

    def begin(self) -> int:
        self.log.append("begin")
        if self.fails == "begin":
            raise RuntimeError("CUPTI is taken")
        self.running, self.thread = True, threading.get_ident()
        return self.context.now()

    def end(self, *, exiting: bool) -> tuple[int, list[RuntimeRow]]:
        self.log.append("end exiting" if exiting else "end")
        self.running = False
        if self.fails == "end":
            raise OSError("disk full")
        now = self.context.now()
        return now, [RuntimeRow(0, now - 10, now, "cudaFree", "free", 1)]

    @property
    def can_switch(self) -> bool:
        here = not self.running or threading.get_ident() == self.thread
        if self.fails == "can_switch":
            raise RuntimeError("device-side assert")
        return here and not self.capturing

    def discard(self) -> None:
        self.log.append("discard")
        self.running = False

    def abandon(self) -> None:
        self.running = False


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretend that there is a GPU; gives what its profiler is asked to do."""
    Activity.log, Activity.fails, Activity.capturing = [], "", False
    MODE["value"] = 0
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Played")
    for name, fake in {
        "_cuda_set_sync_debug_mode": lambda mode: MODE.update(value=mode),
        "_cuda_get_sync_debug_mode": lambda: MODE["value"],
        "_cuda_synchronize": lambda: None,
    }.items():
        monkeypatch.setattr(torch._C, name, fake, raising=False)
    monkeypatch.setattr(gpu_activity, "GpuActivity", Activity)
    monkeypatch.setattr(nvml.pynvml, "nvmlInit", lambda: None)
    monkeypatch.setattr(nvml.pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(nvml.pynvml, "nvmlDeviceGetCount", lambda: 0)
    return Activity.log


@contextlib.contextmanager
def recorded(folder: Path, **options: object) -> Iterator[Recorder]:
    recorder = Recorder(folder, RecordOptions(device="cuda", **options))  # type: ignore[arg-type]
    try:
        recorder.start()
        yield recorder
    finally:
        recorder.stop()


def steps(recorder: Recorder, count: int) -> None:
    for _ in range(count):
        torch.ones(2).sum()
        recorder.mark_step()


def manifest_of(folder: Path) -> Manifest:
    return Recording(folder).manifest


def states(folder: Path) -> dict[str, str]:
    return {c.name: c.state for c in manifest_of(folder).collectors}


def test_one_window_from_start_to_end(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        steps(recorder, 3)
        assert MODE["value"] == 1
    assert log == ["begin", "end"]
    assert MODE["value"] == 0
    assert len(manifest_of(tmp_path / "r").windows) == 1
    assert states(tmp_path / "r") == {
        "activity": "on", "explicit_waits": "on", "host_events": "on", "nvml": "on",
        "operators": "off", "races": "on", "sampler": "on", "steps": "on",
        "sync_warnings": "on", "transfers": "on",
    }  # fmt: skip


def test_an_amd_gpu_is_recorded_without_nvml(
    log: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.4")
    with recorded(tmp_path / "r") as recorder:
        steps(recorder, 3)
    manifest = manifest_of(tmp_path / "r")
    assert manifest.versions["hip"] == "6.4"
    off = {c.name: c.reason for c in manifest.collectors if c.state != "on"}
    assert off.pop("operators")
    assert off == {"nvml": "an AMD GPU has none"}


def test_windows_come_again_and_hold_the_marks_at_both_ends(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r", warmup=2, steps=2, every=5) as recorder:
        steps(recorder, 10)
    recording = Recording(tmp_path / "r")
    marks = recording.table("steps")["time_ns"].tolist()
    windows = [(w.start_ns, w.end_ns) for w in recording.manifest.windows]
    assert log == ["begin", "end"] * 2
    inside = [[i + 1 for i, mark in enumerate(marks) if a <= mark <= b] for a, b in windows]
    assert inside == [[2, 3, 4], [7, 8, 9]]


def test_detail_steps_end_before_the_window_begins(log: list[str], tmp_path: Path) -> None:
    depths = []
    with recorded(tmp_path / "r", warmup=4, steps=2) as recorder:
        for _ in range(7):
            depths.append(torch._C._len_torch_dispatch_stack())
            steps(recorder, 1)
    assert depths == [0, 0, 1, 1, 0, 0, 0]
    manifest = manifest_of(tmp_path / "r")
    ((detail,), (window,)) = manifest.details, manifest.windows
    assert detail.end_ns <= window.start_ns


def test_detail_ops_ends_with_the_recording(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r", detail="ops"):
        assert torch._C._len_torch_dispatch_stack() == 1
    assert torch._C._len_torch_dispatch_stack() == 0
    assert len(manifest_of(tmp_path / "r").details) == 1


def test_a_calibration_leaves_the_program_bare_in_between(log: list[str], tmp_path: Path) -> None:
    item, bare = vars(torch.Tensor).get("item"), []
    with recorded(tmp_path / "r", warmup=1, steps=2, calibrate=True) as recorder:
        for _ in range(CALIBRATION_STEPS + 5):
            bare.append(vars(torch.Tensor).get("item") is item)
            steps(recorder, 1)
    assert sum(bare) == 7 * 4
    assert log == ["begin", "discard"] * 3 + ["begin", "end"]
    overhead = manifest_of(tmp_path / "r").overhead
    assert {"ratio_free", "ratio_full", "ratio_recovered", "ratio_full_high"} <= set(overhead)


def test_a_calibration_that_is_cut_short_puts_everything_back(
    log: list[str], tmp_path: Path
) -> None:
    with recorded(tmp_path / "r", calibrate=True) as recorder:
        steps(recorder, 4 * 7 + 2)  # into the first full block
    assert log == ["begin", "discard"]
    assert manifest_of(tmp_path / "r").notes


@pytest.mark.parametrize("when", ["begin", "end"])
def test_activity_that_fails_is_noted_and_the_run_goes_on(
    log: list[str], tmp_path: Path, when: str
) -> None:
    Activity.fails = when
    with recorded(tmp_path / "r") as recorder:
        steps(recorder, 2)
    assert states(tmp_path / "r")["activity"] == "failed"
    assert len(manifest_of(tmp_path / "r").windows) == 1
    assert not [t for t in threading.enumerate() if t.name == "syncscope-sampler"]


def test_what_was_asked_for_and_did_not_happen_is_noted(log: list[str], tmp_path: Path) -> None:
    for name, options, words in (
        ("a", {"steps": 9}, "9 steps were asked for; the program made 3"),
        ("b", {"warmup": 9}, "made only 3 of the 9 warm-up steps; the figures are those of the "),
        ("e", {"warmup": 9}, "the whole run, without GPU activity"),
        ("f", {"calibrate": True}, "made only 3 of the 52 steps of warm-up and calibration"),
        ("c", {"start_after_s": 1e6}, "no step ended after"),
        ("d", {"seconds": 60.0}, "60 s were asked for; 0"),
    ):
        with recorded(tmp_path / name, **options) as recorder:
            steps(recorder, 3)
        (note,) = manifest_of(tmp_path / name).notes
        assert words in note


def test_a_warm_up_that_no_step_ended_is_told_from_one_that_was_too_long(
    log: list[str], tmp_path: Path
) -> None:
    with recorded(tmp_path / "r", warmup=9, gpu_activity=False):
        pass
    assert manifest_of(tmp_path / "r").notes == (
        "no window was opened: 9 warm-up steps come first, and no step ended (syncscope.step() "
        "marks where one does); the figures are those of the whole run",
    )


@pytest.mark.parametrize("options", [{"device": "cuda"}, {"calibrate": True}])
def test_a_recorder_that_could_not_start_leaves_no_folder(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    (tmp_path / "kept").mkdir()
    for folder in ("runs/deep/a", "kept"):
        recorder = Recorder(tmp_path / folder, RecordOptions(**options))
        with pytest.raises(UsageError, match="no CUDA device here"):
            recorder.start()
        recorder.stop(1)
    assert list(tmp_path.rglob("*")) == [tmp_path / "kept"]


def test_what_others_put_into_a_folder_of_nothing_stays(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "runs" / "a", RecordOptions())
    (tmp_path / "runs" / "a" / "log.txt").write_text("mine")
    recorder.stop()
    assert [path.name for path in (tmp_path / "runs" / "a").iterdir()] == ["log.txt"]


def test_a_shadow_gpu_is_not_calibrated() -> None:
    with pytest.raises(UsageError, match="needs a real GPU"):
        RecordOptions(device="shadow", calibrate=True)


def test_the_manifest_says_which_process_records(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r"):
        assert Recording(tmp_path / "r").live is True
        assert manifest_of(tmp_path / "r").process == this_process()
    assert Recording(tmp_path / "r").live is False


def test_start_after_counts_from_the_first_step_that_ends_late_enough(
    log: list[str], tmp_path: Path
) -> None:
    with recorded(tmp_path / "r", start_after_s=100.0, warmup=1, steps=1) as recorder:
        steps(recorder, 3)
        assert log == []
        recorder.context.origin_unix_ns -= 100 * 10**9
        steps(recorder, 1)
        assert log == []
        steps(recorder, 1)
        assert log == ["begin"]
        steps(recorder, 1)
    assert log == ["begin", "end"]


def wait(count: int = 1) -> None:
    """The hook of `torch.cuda.synchronize`, which is one of those that see the host wait."""
    for _ in range(count):
        torch._C._cuda_synchronize()


def pass_seconds(recorder: Recorder, seconds: float) -> None:
    recorder.context.origin_unix_ns -= int(1e9 * seconds)


def test_a_long_window_ends_by_itself_after_seconds_and_steps(
    log: list[str], tmp_path: Path
) -> None:
    with recorded(tmp_path / "r") as recorder:
        pass_seconds(recorder, 11)  # a first step that compiles, say
        steps(recorder, 9)
        assert log == ["begin"]
        assert recorder.context.after_wait is not None
        steps(recorder, 1)
        assert log == ["begin", "end"]
        assert recorder.context.after_wait is None
        steps(recorder, 50)
    assert log == ["begin", "end"]
    manifest = manifest_of(tmp_path / "r")
    (note,) = manifest.notes
    told = re.match(r"the figures are those of ([\d.]+) s of the ([\d.]+) s that the program", note)
    assert told
    assert 11 <= float(told[1]) <= float(told[2]) < 60
    assert len(manifest.windows) == 1


def test_many_steps_do_not_end_a_window_before_its_seconds(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        steps(recorder, 100)
    assert log == ["begin", "end"]
    assert manifest_of(tmp_path / "r").notes == ()


def test_where_no_step_ends_waits_bound_the_window(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        wait(999)
        pass_seconds(recorder, 61)
        assert log == ["begin"]
        thread = threading.Thread(target=wait, args=(5,))
        thread.start()
        thread.join()
        assert log == ["begin"], "it cannot be closed on that thread"
        wait()
        assert log == ["begin", "end"]
        wait(3)
    assert log == ["begin", "end"]


@pytest.mark.parametrize(
    ("options", "window_s"),
    [
        ({"seconds": 2.0}, 3),
        ({"seconds": math.inf}, 103),
        ({"seconds": 2.0, "gpu_activity": False}, 3),
        ({"gpu_activity": False}, 103),
        ({"steps": 1000}, 103),
    ],
)
def test_what_was_asked_for_bounds_the_window_instead(
    log: list[str], tmp_path: Path, options: dict[str, object], window_s: int
) -> None:
    with recorded(tmp_path / "r", **options) as recorder:
        steps(recorder, 20)
        pass_seconds(recorder, 3)
        steps(recorder, 1)
        pass_seconds(recorder, 100)
        steps(recorder, 20)
        assert log == ([] if "gpu_activity" in options else ["begin", "end"][: 1 + (window_s == 3)])
    manifest = manifest_of(tmp_path / "r")
    (window,) = manifest.windows
    assert window_s <= (window.end_ns - window.start_ns) / 1e9 < window_s + 50
    assert len(manifest.notes) == ("steps" in options)
    assert all("were asked for" in note for note in manifest.notes)


def steps_captured(recorder: Recorder, count: int) -> None:
    """Steps that end while a CUDA graph is captured."""
    Activity.capturing = True
    steps(recorder, count)
    Activity.capturing = False


def test_no_window_begins_or_ends_while_a_graph_is_captured(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r", warmup=2, steps=2) as recorder:
        steps_captured(recorder, 2)
        assert log == []
        steps(recorder, 1)
        assert log == ["begin"]
        steps_captured(recorder, 2)
        assert log == ["begin"]
        steps(recorder, 1)
        assert log == ["begin", "end"]


def test_no_calibration_block_begins_while_a_graph_is_captured(
    log: list[str], tmp_path: Path
) -> None:
    with recorded(tmp_path / "r", calibrate=True) as recorder:
        steps(recorder, 4 * 7 - 1)  # the last bare step before the first full block
        steps_captured(recorder, 2)
        assert log == []
        steps(recorder, 1)
        assert log == ["begin"]


def test_a_window_that_never_could_be_opened_is_noted(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r", warmup=2, steps=2) as recorder:
        steps_captured(recorder, 6)
    assert log == []
    (note,) = manifest_of(tmp_path / "r").notes
    assert note.startswith("no window could be opened")


def test_a_device_that_fails_does_not_reach_the_program(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r", steps=2) as recorder:
        Activity.fails = "can_switch"
        steps(recorder, 4)
        wait()
    assert log == ["begin", "end"]


def test_a_window_that_the_program_ended_is_not_called_long(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        recorder._windows.interrupted()
        pass_seconds(recorder, 11)
        steps(recorder, 12)
    assert log == ["begin", "end"]
    assert manifest_of(tmp_path / "r").notes == ()


def test_without_gpu_activity_nothing_needs_a_bound(log: list[str], tmp_path: Path) -> None:
    Activity.fails = "begin"
    with recorded(tmp_path / "r") as recorder:
        pass_seconds(recorder, 100)
        steps(recorder, 20)
    (window,) = manifest_of(tmp_path / "r").windows
    assert window.end_ns - window.start_ns > 90e9


def test_detail_ends_with_the_window(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r", detail="ops", seconds=5.0) as recorder:
        assert torch._C._len_torch_dispatch_stack() == 1
        pass_seconds(recorder, 6)
        steps(recorder, 1)
        assert torch._C._len_torch_dispatch_stack() == 0


def test_an_interrupt_waits_until_a_window_is_closed(
    log: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = Activity.end

    def interrupted(self: Activity, *, exiting: bool) -> object:
        signal.raise_signal(signal.SIGINT)
        return end(self, exiting=exiting)

    monkeypatch.setattr(Activity, "end", interrupted)
    with recorded(tmp_path / "r", steps=2) as recorder:
        with pytest.raises(KeyboardInterrupt):
            steps(recorder, 3)
        assert not [t for t in threading.enumerate() if t.name == "syncscope-sampler"]
    assert log == ["begin", "end"]
    assert len(manifest_of(tmp_path / "r").windows) == 1


def test_a_second_interrupt_does_not_wait_and_loses_no_window(
    log: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Activity, *, exiting: bool) -> object:
        self.running = False
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the second interrupt did not come through")

    monkeypatch.setattr(Activity, "end", interrupted)
    with recorded(tmp_path / "r", steps=2) as recorder:
        with pytest.raises(KeyboardInterrupt):
            steps(recorder, 3)
        assert not [t for t in threading.enumerate() if t.name == "syncscope-sampler"]
    assert len(manifest_of(tmp_path / "r").windows) == 1


def test_a_window_stays_open_until_it_can_be_closed(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r", steps=2) as recorder:
        thread = threading.Thread(target=steps, args=(recorder, 3))
        thread.start()
        thread.join()
        assert log == ["begin"]
        steps(recorder, 1)
        assert log == ["begin", "end"]


def test_a_forked_child_lets_go(log: list[str], tmp_path: Path) -> None:
    with recorded(tmp_path / "r") as recorder:
        flights = recorder._flights
        assert flights is not None
        flights._take_off(torch.ones(2), lambda: True, upload=True)
        child = os.fork()
        assert not flights._pending  # CUDA's events must not end in the child
        if not child:
            free = "item" not in vars(torch.Tensor) and MODE["value"] == 0
            os._exit(0 if free else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        steps(recorder, 2)
    assert log == ["begin", "end"]
    assert manifest_of(tmp_path / "r").state == "complete"
