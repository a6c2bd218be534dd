"""`syncscope run` leaves the program alone: its output, arguments, exit code and exceptions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from syncscope.recording.manifest import Exit
from syncscope.recording.reader import Recording

Run = Callable[..., subprocess.CompletedProcess[str]]
CommandOf = Callable[[Sequence[str | Path]], list[str]]

STEPS = """
import sys, time, torch
w = torch.ones(8, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range({steps}):
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item(), flush=True)
    {then}
"""


def script(folder: Path, text: str, name: str = "prog.py") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_arguments_names_and_paths_are_what_python_makes_them(
    tmp_path: Path, syncscope_command: Run
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "neighbour.py").write_text("VALUE = 7\n")
    text = (
        "import sys, json, os, neighbour\n"
        "main = sys.modules['__main__']\n"
        "print(json.dumps([sys.argv, __name__, __file__, os.path.realpath(sys.path[0]),\n"
        "    neighbour.VALUE, main.__dict__ is globals(), __spec__ is None, __package__]))\n"
    )
    path = script(tmp_path / "sub", text)
    bare = subprocess.run(
        [sys.executable, path, "-o", "x", "--steps", "3"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    ours = syncscope_command("run", path, "-o", "x", "--steps", "3")
    assert json.loads(ours.stdout) == json.loads(bare.stdout)
    assert ours.returncode == 0


def test_a_module_runs_as_with_python_dash_m(tmp_path: Path, syncscope_command: Run) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").write_text("")
    text = "import sys\nprint(sys.argv[1:], __name__, __package__, __spec__.name)\nsys.exit(4)\n"
    script(package, text, "tool.py")
    bare = subprocess.run(
        [sys.executable, "-m", "pkg.tool", "a", "-b"], capture_output=True, text=True, cwd=tmp_path
    )
    ours = syncscope_command("run", "-m", "pkg.tool", "a", "-b")
    assert (ours.stdout, ours.returncode) == (bare.stdout, bare.returncode)
    assert bare.stdout


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("sys.exit(3)", 3),
        ("sys.exit('no')", 1),
        ("sys.exit()", 0),
        ("raise SystemExit(300)", 44),
        ("raise ValueError('its own')", 1),
        ("def f(:", 1),
    ],
)
def test_exit_code_and_traceback_are_the_programs_own(
    tmp_path: Path, syncscope_command: Run, statement: str, code: int
) -> None:
    path = script(tmp_path, f"import sys\nprint('before')\n{statement}\n")
    bare = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
    ours = syncscope_command("run", "-o", "rec", path)
    assert bare.returncode == code
    assert (ours.returncode, ours.stdout) == (bare.returncode, bare.stdout)
    assert ours.stderr.startswith(bare.stderr)
    assert not (tmp_path / "rec").exists(), "nothing was recorded"


def test_a_recording_names_the_line_and_the_report_is_written(
    tmp_path: Path, syncscope_command: Run
) -> None:
    path = script(tmp_path, STEPS.format(steps=4, then="pass"))
    result = syncscope_command("run", "--device", "shadow", "-o", "rec", path)
    assert result.returncode == 0, result.stderr
    assert "report.html" in result.stderr
    assert (tmp_path / "rec" / "report.html").stat().st_size > 1_000_000
    summary = json.loads((tmp_path / "rec" / "summary.json").read_text())
    flagged = [site for site in summary["sites"] if site["flagged"]]
    assert [(site["expression"], site["count"]) for site in flagged] == [("loss.item()", 4)]
    shown = syncscope_command("show", "rec")
    assert "loss.item()" in shown.stdout
    assert shown.returncode == 0
    assert json.loads(syncscope_command("show", "rec", "--format", "json").stdout) == summary


def test_an_exception_half_way_leaves_a_whole_recording(
    tmp_path: Path, syncscope_command: Run
) -> None:
    path = script(tmp_path, STEPS.format(steps=4, then="assert step < 2, 'half-way'"))
    result = syncscope_command("run", "-o", "rec", path)
    assert result.returncode == 1
    assert "AssertionError: half-way" in result.stderr
    assert "syncscope/" not in result.stderr.partition("AssertionError")[0]
    recording = Recording(tmp_path / "rec")
    assert recording.manifest.exit == Exit(1)
    assert len(recording.table("steps")) == 3
    again = syncscope_command("run", "-o", "rec", path)
    assert again.stderr.endswith("rec exists and is not empty; name another folder\n")
    assert again.stdout == ""


def wait_for_line(process: subprocess.Popen[str], count: int) -> None:
    assert process.stdout is not None
    for _ in range(count):
        process.stdout.readline()


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_interrupted_or_killed_leaves_a_readable_recording(
    tmp_path: Path, command_of: CommandOf, syncscope_command: Run, kind: signal.Signals
) -> None:
    path = script(tmp_path, STEPS.format(steps=1000, then="time.sleep(0.02)"))
    process = subprocess.Popen(
        command_of(["run", "-o", "rec", path]),
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_line(process, 1)
    time.sleep(2.5)
    shown = syncscope_command("show", ".")
    assert "it is still being recorded" in shown.stderr
    assert "Still being recorded: these are the figures so far." in shown.stdout
    assert "cut short" not in shown.stdout
    os.kill(process.pid, kind)
    _, error = process.communicate(timeout=120)
    assert process.returncode == -kind
    assert ("KeyboardInterrupt" in error) == (kind is signal.SIGINT)
    recording = Recording(tmp_path / "rec")
    assert recording.truncated == (kind is signal.SIGKILL)
    assert len(recording.table("steps")) >= 10
    shown = syncscope_command("show", "rec")
    assert shown.returncode == 0, shown.stderr
    assert "loss.item()" in shown.stdout
    assert ("cut short" in shown.stdout) == (kind is signal.SIGKILL)


def test_a_program_without_torch_runs_and_says_why_nothing_was_recorded(
    tmp_path: Path, syncscope_command: Run
) -> None:
    result = syncscope_command("run", script(tmp_path, "print('hi')\n"))
    assert (result.returncode, result.stdout) == (0, "hi\n")
    assert "never imported torch" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["prog.py"]


def test_threads_of_the_program_are_waited_for(tmp_path: Path, syncscope_command: Run) -> None:
    text = (
        "import threading, time\n"
        "def late():\n    time.sleep(0.3)\n    print('late')\n"
        "threading.Thread(target=late).start()\n"
    )
    result = syncscope_command("run", script(tmp_path, text))
    assert result.stdout == "late\n"


def test_torch_is_imported_by_the_program_and_not_before_it(
    tmp_path: Path, syncscope_command: Run
) -> None:
    text = "import sys\nprint('torch' in sys.modules)\nimport torch\nprint(torch.__spec__.loader)\n"
    path = script(tmp_path, text)
    bare = subprocess.run([sys.executable, path], capture_output=True, text=True, cwd=tmp_path)
    ours = syncscope_command("run", path)
    assert ours.stdout.splitlines()[0] == "False"
    assert ours.stdout.split(" object")[0] == bare.stdout.split(" object")[0]


def test_a_program_that_records_itself_runs_as_without_us(
    tmp_path: Path, syncscope_command: Run
) -> None:
    text = (
        "import torch, syncscope\n"
        "with syncscope.record('own', device='shadow'):\n"
        "    print(torch.ones(2, device='cuda').sum().item())\n"
    )
    result = syncscope_command("run", "-o", "rec", script(tmp_path, text))
    assert (result.returncode, result.stdout) == (0, "2.0\n")
    assert "record() does nothing here" in result.stderr
    assert not (tmp_path / "own").exists()
    assert len(Recording(tmp_path / "rec").table("runtime")) > 0
