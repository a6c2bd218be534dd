"""`syncscope.record`, `step` and `load` from inside a program."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import syncscope
from syncscope.recording.reader import Recording


def train(steps: int) -> float:
    weight = torch.ones(8, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    value = 0.0
    for _ in range(steps):
        loss = (weight * weight).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        value = loss.item()
    return value


def test_the_context_manager_gives_the_run(tmp_path: Path) -> None:
    with syncscope.record(tmp_path / "run", device="shadow") as run:
        train(3)
    sites = [site for site in run.summary().sites if site.flagged]
    assert [(site.expression, site.count) for site in sites] == [("loss.item()", 3)]
    assert run.report().read_text(encoding="utf-8").count("loss.item()") > 0
    assert syncscope.load(tmp_path / "run").summary() == run.summary()


def test_the_decorator_records_each_call_into_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    decorated = syncscope.record(device="shadow")(train)
    assert decorated(2) == decorated(2)
    counts = [
        sum(site.count for site in syncscope.load(folder).summary().sites)
        for folder in sorted((tmp_path / "syncscope-runs").iterdir())
    ]
    assert counts == [2, 2]


def test_an_exception_passes_through_and_the_recording_is_whole(tmp_path: Path) -> None:
    @syncscope.record(tmp_path / "r", device="shadow")
    def failing() -> None:
        train(1)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        failing()
    recording = Recording(tmp_path / "r")
    assert not recording.truncated
    assert recording.manifest.exit is not None
    assert recording.manifest.exit.exception == "ValueError"
    assert len(recording.table("steps")) == 1


def test_a_folder_that_holds_a_recording_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "a-2", "a-3"):
        with syncscope.record("runs/a", device="shadow") as run:
            train(1)
        assert run.folder == tmp_path / "runs" / name
        assert len(Recording(run.folder).table("steps")) == 1
        elsewhere = f"syncscope: runs/a holds a recording: this one goes to {run.folder}\n"
        assert capsys.readouterr().err == ("" if name == "a" else elsewhere)
    syncscope.record("runs/a", device="shadow")(train)(1)
    assert capsys.readouterr().err == ""
    assert len(Recording("runs/a-4").table("steps")) == 1


def test_a_folder_of_other_things_is_not_recorded_into(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    with (
        pytest.raises(syncscope.UsageError, match=r"not empty; name another folder$"),
        syncscope.record(tmp_path, device="shadow"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_step_marks_steps_and_does_nothing_outside(tmp_path: Path) -> None:
    syncscope.step()
    with syncscope.record(tmp_path / "run", device="shadow") as run:
        for _ in range(4):
            torch.ones(2, device="cuda").sum().item()
            syncscope.step()
    syncscope.step()
    assert run.summary().run.steps == 4


def test_warmup_and_steps_choose_the_window(tmp_path: Path) -> None:
    with syncscope.record(tmp_path / "run", device="shadow", warmup=2, steps=3) as run:
        train(10)
    (window,) = run.analysis.manifest.windows
    assert run.summary().run.steps == 3
    assert window.end_ns - window.start_ns == run.summary().run.window_ns
    assert sum(site.count for site in run.summary().sites) == 3


def test_a_step_with_two_kinds_of_marks_counts_once(tmp_path: Path) -> None:
    weight = torch.ones(2)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with syncscope.record(tmp_path / "run", device="shadow", warmup=2, steps=3) as run:
        for _ in range(10):
            torch.ones(2, device="cuda").sum().item()
            optimizer.step()
            syncscope.step()
    assert sum(site.count for site in run.summary().sites) == 3


def test_one_process_records_one_at_a_time(tmp_path: Path) -> None:
    with syncscope.record(tmp_path / "a", device="shadow"):
        with (
            pytest.raises(syncscope.UsageError, match="one process records one"),
            syncscope.record(tmp_path / "b", device="shadow"),
        ):
            pass
        train(1)
    assert not (tmp_path / "b").exists()
    assert len(Recording(tmp_path / "a").table("steps")) == 1


def test_the_same_program_gives_the_same_rows(tmp_path: Path) -> None:
    for name in "ab":
        with syncscope.record(tmp_path / name, device="shadow"):
            train(3)
    first, second = Recording(tmp_path / "a"), Recording(tmp_path / "b")
    for table in ("steps", "runtime", "activity", "blocking", "transfers"):
        assert len(first.table(table)) > 0 or table == "transfers"
        assert first.table(table).equals(second.table(table))


def test_loading_what_is_no_recording_says_so(tmp_path: Path) -> None:
    with pytest.raises(syncscope.RecordingError, match="not a recording"):
        syncscope.load(tmp_path)
