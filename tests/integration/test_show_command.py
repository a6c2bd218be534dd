"""`syncscope show` in a subprocess: formats, filters, encodings, terminals."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import pty
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
CommandOf = Callable[[Sequence[str | Path]], list[str]]

UPLOAD = Path(__file__).resolve().parents[1] / "data" / "h200" / "upload_bound"


def sites_as_json(result: subprocess.CompletedProcess[str]) -> list[dict[str, object]]:
    assert result.returncode == 0, result.stderr
    sites: list[dict[str, object]] = json.loads(result.stdout)["sites"]
    return sites


def without(*names: str, **settings: str) -> dict[str, str]:
    """The environment without some variables and with others."""
    return {key: value for key, value in os.environ.items() if key not in names} | settings


def read_all(descriptor: int) -> bytes:
    """What was written to a terminal until its other end was closed."""
    output = b""
    with contextlib.suppress(OSError):  # that is how the end is told
        while chunk := os.read(descriptor, 65_536):
            output += chunk
    os.close(descriptor)
    return output


def test_piped_text_is_plain_and_does_not_depend_on_a_terminal(syncscope_command: Run) -> None:
    result = syncscope_command("show", UPLOAD, env=without("COLUMNS"))
    assert (result.returncode, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    head = (
        "examples/upload_bound.py --steps 8 --size large · recorded on NVIDIA H200 · torch "
        "2.11.0+cu130 · 6 steady steps (8 recorded)"
    )
    assert result.stdout.replace("\n", " ").startswith(head)
    narrow = syncscope_command("show", UPLOAD, env=without(COLUMNS="40"))
    assert narrow.stdout.startswith("examples/upload_bound.py --steps 8\n--size large · ")


@pytest.mark.parametrize(
    ("encoding", "format"),
    [("ascii", "text"), ("cp1252", "text"), ("utf-8", "text"), ("ascii", "json"), ("ascii", "csv")],
)
def test_an_encoding_that_lacks_characters_does_no_harm(
    syncscope_command: Run, encoding: str, format: str
) -> None:
    environment = os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C"}
    result = syncscope_command(
        "show", UPLOAD, "--format", format, env=environment, encoding="utf-8", errors="replace"
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert "to(device)" in result.stdout


@pytest.mark.parametrize(
    ("settings", "coloured"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_that_want_them(
    command_of: CommandOf, settings: dict[str, str], coloured: bool
) -> None:
    ours, theirs = pty.openpty()
    environment = without("NO_COLOR", "TERM", "COLUMNS", **settings)
    process = subprocess.Popen(command_of(["show", UPLOAD]), env=environment, stdout=theirs)
    os.close(theirs)
    output = read_all(ours)
    assert process.wait(timeout=120) == 0
    assert b"clean = " in output
    assert (b"\x1b[33m" in output or b"\x1b[1;33m" in output) == coloured


def test_progress_is_shown_on_a_terminal_and_leaves_nothing(command_of: CommandOf) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command_of(["show", UPLOAD, "--format", "csv"]),
        env=without("NO_COLOR", TERM="xterm"),
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    shown = read_all(ours)
    content, _ = process.communicate(timeout=120)
    assert b"analysing" in shown
    assert shown.rstrip().endswith(b"\x1b[2K")  # the line is erased
    assert content.startswith(b"id,verdict,")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--owner", "me"], "user, library, torch"),
        (["--cause", "magic"], "scalar_readback"),
        (["--format", "xml"], "text, json, csv"),
    ],
)
def test_an_unknown_value_is_told_the_choices_in_one_line(
    syncscope_command: Run, arguments: list[str], named: str
) -> None:
    result = syncscope_command("show", UPLOAD, *arguments)
    assert result.returncode == 2
    assert result.stdout == ""
    [line] = result.stderr.splitlines()
    assert line.startswith(f"syncscope: {arguments[0]} cannot be {arguments[1]!r}; choose one of: ")
    assert named in line


def test_filters_choose_among_the_sites_in_every_format(syncscope_command: Run) -> None:
    every = sites_as_json(syncscope_command("show", UPLOAD, "--format", "json"))
    torch = [site["id"] for site in every if site["owner"] == "torch"]
    assert torch
    assert len(torch) < len(every)
    options = ["--owner", "torch"]
    chosen = sites_as_json(syncscope_command("show", UPLOAD, "--format", "json", *options))
    assert [site["id"] for site in chosen] == torch
    table = syncscope_command("show", UPLOAD, "--format", "csv", *options).stdout
    assert {row["id"] for row in csv.DictReader(io.StringIO(table))} == set(torch)
    text = syncscope_command("show", UPLOAD, *options, "--all").stdout
    assert text.count(" in train") == len([site for site in chosen if site["function"] == "train"])


def test_a_cause_may_be_written_as_it_is_shown(syncscope_command: Run) -> None:
    result = syncscope_command("show", UPLOAD, "--cause", "pageable batch", "--file", "*bound.py")
    assert "frames[step % len(frames)].to(device)" in result.stdout
    assert "clip_grad_norm_" not in result.stdout.partition(" 1. ")[2]


def test_top_and_all(syncscope_command: Run) -> None:
    one = syncscope_command("show", UPLOAD, "--top", "1").stdout
    assert " 1. " in one
    assert " 2. " not in one
    assert "not shown" in one
    every = syncscope_command("show", UPLOAD, "--all").stdout
    assert "not shown" not in every
    assert "Not flagged" not in every


def test_help_names_the_exit_codes(syncscope_command: Run) -> None:
    text = " ".join(syncscope_command("--help").stdout.split())
    assert "Exit codes: run ends with the program's own" in text


def test_a_program_that_uses_no_gpu_is_told_so_at_once(
    syncscope_command: Run, tmp_path: Path
) -> None:
    (tmp_path / "cpu.py").write_text("import torch\ntorch.ones(3).sum().item()\n")
    result = syncscope_command("run", "--device", "shadow", "-o", "rec", "cpu.py")
    assert result.returncode == 0
    assert "The program never used the GPU" in result.stderr
    shown = syncscope_command("show", "rec").stdout
    assert "The program never used the GPU" in shown
    assert "No line was flagged" not in shown


@pytest.mark.parametrize("named", [(), ("syncscope-runs",), ("syncscope-runs/old",)])
def test_without_a_run_the_latest_is_shown_and_named(
    syncscope_command: Run, tmp_path: Path, named: tuple[str, ...]
) -> None:
    for age, name in enumerate(("new", "old")):
        folder = tmp_path / "syncscope-runs" / name
        shutil.copytree(UPLOAD, folder)
        os.utime(folder / "manifest.json", (2e9 - age, 2e9 - age))
    result = syncscope_command("show", *named)
    assert result.returncode == 0
    said = "" if "old" in "".join(named) else f"syncscope: {Path('syncscope-runs', 'new')} is the"
    assert result.stderr.startswith(said)
    assert bool(result.stderr) == bool(said)


def test_recordings_of_nothing_are_passed_over_if_there_is_another(
    syncscope_command: Run, tmp_path: Path
) -> None:
    runs = tmp_path / "syncscope-runs"
    for age, name in enumerate(("empty-2", "empty-1", "full")):
        shutil.copytree(UPLOAD, runs / name)
        os.utime(runs / name / "manifest.json", (2e9 - age, 2e9 - age))
        if name != "full":
            shutil.rmtree(runs / name / "rank-0")
    said = f"syncscope: {Path('syncscope-runs', 'full')} is the latest recording in syncscope-runs"
    result = syncscope_command("show", "--format", "csv")
    assert result.stderr == f"{said} but for empty-2, empty-1, where nothing was recorded\n"
    assert "upload_bound.py" in result.stdout
    shutil.rmtree(runs / "full")
    assert syncscope_command("show").stderr == said.replace("full", "empty-2") + "\n"


def test_where_there_is_no_run_it_says_so(syncscope_command: Run) -> None:
    result = syncscope_command("report")
    assert result.returncode == 2
    assert result.stderr == "syncscope: name a recording: there is none in syncscope-runs\n"


def test_the_causes_that_can_be_chosen_are_listed(syncscope_command: Run) -> None:
    text = "".join(syncscope_command("show", "--help", env=without(COLUMNS="200")).stdout.split())
    assert "scalar_readback" in text
    assert "pageable_batch" in text
