"""Bad input gives one clear line, exit code 2 or 3, and overwrites nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]


def one_line(result: subprocess.CompletedProcess[str], code: int) -> str:
    lines = result.stderr.strip().splitlines()
    assert result.returncode == code, result.stderr
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("syncscope: ")
    return lines[0]


def test_no_such_script(syncscope_command: Run, tmp_path: Path) -> None:
    assert "gone.py" in one_line(syncscope_command("run", "gone.py"), 2)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_script(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("\n")
    assert "empty" in one_line(syncscope_command("run", "empty.py"), 2)


def test_no_script_at_all(syncscope_command: Run) -> None:
    assert "script" in one_line(syncscope_command("run"), 2)


def test_a_device_that_is_not_there(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import torch\n")
    assert "tpu" in one_line(syncscope_command("run", "--device", "tpu", "p.py"), 2)


def test_a_calibration_without_a_gpu(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("print('ran')\nimport torch\n")
    result = syncscope_command("run", "--device", "shadow", "--calibrate", "p.py")
    assert "calibration needs a real GPU" in one_line(result, 2)
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["p.py"]


def test_an_unknown_gpu(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import torch\n")
    result = syncscope_command("run", "--device", "shadow", "--shadow-gpu", "Z9", "p.py")
    assert "H200" in one_line(result, 2)


@pytest.mark.parametrize("command", ["show", "report"])
def test_a_folder_that_is_no_recording(
    syncscope_command: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "folder").mkdir()
    assert "not a recording" in one_line(syncscope_command(command, "folder"), 3)


@pytest.mark.parametrize(
    "command",
    [
        ("show", "gone"),
        ("report", "gone"),
        ("diff", "gone", "."),
        ("export", "gone", "--to", "csv"),
    ],
)
def test_a_recording_that_is_not_there(syncscope_command: Run, command: tuple[str, ...]) -> None:
    assert "gone does not exist. Name the folder" in one_line(syncscope_command(*command), 3)


def test_a_recording_of_a_newer_format(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "manifest.json").write_text(json.dumps({"format_version": 99}))
    assert "99" in one_line(syncscope_command("show", "rec"), 3)


def test_a_damaged_manifest(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "rec").mkdir()
    (tmp_path / "rec" / "manifest.json").write_text('{"format_version": 1, "argv"')
    assert "damaged" in one_line(syncscope_command("show", "rec"), 3)


def test_an_output_folder_that_is_in_use(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("print(1)\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("mine")
    result = syncscope_command("run", "-o", "kept", "p.py")
    assert "not empty" in one_line(result, 2)
    assert result.stdout == ""
    assert [p.name for p in (tmp_path / "kept").iterdir()] == ["file"]


def test_an_output_folder_that_cannot_be_written(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("print(1)\n")
    (tmp_path / "file").write_text("mine")
    assert "cannot write" in one_line(syncscope_command("run", "-o", "file/rec", "p.py"), 2)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("content", ["not json", "{}", '{"traceEvents": []}', ""])
def test_a_trace_that_is_none(syncscope_command: Run, tmp_path: Path, content: str) -> None:
    (tmp_path / "trace.json").write_text(content)
    result = syncscope_command("import", "trace.json", "-o", "rec")
    assert "trace.json" in one_line(result, result.returncode)
    assert result.returncode in (2, 3)
    assert not (tmp_path / "rec").exists()


TRACES = Path(__file__).resolve().parents[1] / "data" / "traces"


def test_a_trace_without_stacks_says_what_to_record(syncscope_command: Run) -> None:
    result = syncscope_command("import", TRACES / "cuda_event_sync.json.gz", "-o", "rec")
    assert result.returncode == 0
    (told,) = [line for line in result.stderr.splitlines() if line.startswith("syncscope: ")]
    assert told == (
        "syncscope: the trace holds no Python stacks, so 3 of 3 blocking calls have no line: "
        "record it with ProfilerActivity.CPU and with_stack=True"
    )


def test_a_trace_without_waits_is_not_asked_for_stacks(syncscope_command: Run) -> None:
    result = syncscope_command("import", TRACES / "ns_resolution_rank0.json.gz", "-o", "rec")
    assert result.returncode == 0
    assert "stacks" not in result.stderr


def test_a_report_that_cannot_be_written(syncscope_command: Run, tmp_path: Path) -> None:
    (tmp_path / "p.py").write_text("import torch\ntorch.ones(1, device='cuda').item()\n")
    assert syncscope_command("run", "--device", "shadow", "-o", "rec", "p.py").returncode == 0
    result = syncscope_command("report", "rec", "-o", "no/where.html")
    assert "cannot be written to no/where.html" in one_line(result, 2)


def test_help_is_quick_and_loads_neither_torch_nor_pandas() -> None:
    code = "import sys, syncscope.cli; print({'torch', 'pandas'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()"


def test_python_dash_m_is_the_same_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "syncscope", "--version"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.stdout.startswith("syncscope ")
