"""`run` with windows, detail, --start-after and --live, on the shadow GPU."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from syncscope.recording.reader import Recording

Run = Callable[..., subprocess.CompletedProcess[str]]

LOOP = """
import sys, time, torch, syncscope
x = torch.ones(8, device="cuda")
for step in range(20):
    x.sum().item()
    time.sleep(0.02)
    syncscope.step()
"""


@pytest.fixture
def recorded(tmp_path: Path, syncscope_command: Run) -> Callable[..., Recording]:
    """Run the loop with options; gives the recording."""

    def record(*options: str) -> Recording:
        (tmp_path / "loop.py").write_text(LOOP)
        done = syncscope_command("run", "--device", "shadow", "-o", "rec", *options, "loop.py")
        assert done.returncode == 0, done.stderr
        return Recording(tmp_path / "rec")

    return record


@pytest.mark.parametrize(
    ("options", "windows", "steps"),
    [
        ((), 1, 20),
        (("--seconds", "inf"), 1, 20),
        (("--warmup", "2", "--seconds", "1e-4"), 1, 1),
        (("--warmup", "5"), 1, 15),
        (("--steps", "4"), 1, 4),
        (("--warmup", "3", "--steps", "2"), 1, 2),
        (("--warmup", "2", "--steps", "2", "--every", "5"), 4, 8),
    ],
)
def test_windows_hold_the_steps_asked_for(
    recorded: Callable[..., Recording],
    syncscope_command: Run,
    options: tuple[str, ...],
    windows: int,
    steps: int,
) -> None:
    recording = recorded(*options)
    assert len(recording.manifest.windows) == windows
    shown = syncscope_command("show", "rec", "--format", "json")
    summary = json.loads(shown.stdout)
    (site,) = (s for s in summary["sites"] if s["expression"] == "x.sum().item()")
    assert (site["count"], site["per_step"]) == (steps, 1.0)
    assert summary["run"]["steps"] == steps


@pytest.mark.parametrize(
    ("seconds", "notes"),
    [("0.001", ()), ("3600", ("no step ended after the 3600 s of --start-after",))],
)
def test_counting_may_begin_later(
    recorded: Callable[..., Recording], seconds: str, notes: tuple[str, ...]
) -> None:
    assert recorded("--start-after", seconds).manifest.notes == notes


@pytest.mark.parametrize("detail", ["auto", "lines", "ops"])
def test_detail_needs_no_dispatcher_on_the_shadow_gpu(
    recorded: Callable[..., Recording], detail: str
) -> None:
    recording = recorded("--warmup", "4", "--detail", detail)
    assert recording.manifest.details == ()
    assert len(recording.table("ops")) == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--every", "5"), "--every 5 needs --steps"),
        (("--steps", "5", "--every", "5"), "--steps has to be less than --every"),
        (("--seconds", "0"), "a number above 0, or inf"),
        (("--seconds", "nan"), "a number above 0, or inf"),
        (("--seconds", "1", "--steps", "5"), "of steps or of seconds, not both"),
        (("--detail", "all"), "unknown detail 'all'"),
        (("--calibrate",), "calibration needs a real GPU"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    tmp_path: Path, syncscope_command: Run, options: tuple[str, ...], words: str
) -> None:
    (tmp_path / "loop.py").write_text(LOOP)
    done = syncscope_command("run", "--device", "shadow", *options, "loop.py")
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_live_tells_on_stderr_while_the_programs_output_stays_its_own(
    tmp_path: Path, syncscope_command: Run
) -> None:
    text = LOOP.replace("range(20)", "range(120)") + "sys.stderr = sys.stdout\nprint('mine')\n"
    (tmp_path / "loop.py").write_text(text)
    done = syncscope_command("run", "--device", "shadow", "-o", "rec", "--live", "loop.py")
    assert (done.returncode, done.stdout) == (0, "mine\n")
    told = (
        r"syncscope: \d+ steps, \S+ a second; (\S+) waits a step: loop.py:5 x.sum\(\).item\(\) \1"
    )
    live = re.findall(told, done.stderr)
    assert live
    assert all(0.8 < float(waits) < 1.2 for waits in live)
