"""`syncscope diff`, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]
H200 = Path(__file__).resolve().parents[1] / "data" / "h200"
OLD, NEW = H200 / "upload_bound", H200 / "upload_bound_fixed"

PROGRAM = """
import torch
w = torch.ones(1 << 20, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(8):
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    {line}
"""


def test_the_repaired_program_is_better(syncscope_command: Run) -> None:
    result = syncscope_command("diff", OLD, NEW, "--fail")
    assert result.returncode == 0, result.stderr
    assert "shorter" in result.stdout
    assert "frames[step % len(frames)].to(device)" in result.stdout
    assert result.stderr == ""


def test_the_other_way_round_it_fails_if_asked_to(syncscope_command: Run) -> None:
    assert syncscope_command("diff", NEW, OLD).returncode == 0
    result = syncscope_command("diff", NEW, OLD, "--fail", "--format", "json")
    assert result.returncode == 1
    content = json.loads(result.stdout)
    assert content["schema"] == 1
    assert content["worse"] is True
    assert content["step"]["outcome"] == "worse"
    assert syncscope_command("diff", OLD, OLD, "--fail").returncode == 0


def test_a_page_is_written_where_it_is_asked_for(tmp_path: Path, syncscope_command: Run) -> None:
    result = syncscope_command("diff", OLD, NEW, "-o", "diff.html")
    assert (result.returncode, result.stdout) == (0, "diff.html\n")
    assert "</html>" in (tmp_path / "diff.html").read_text(encoding="utf-8")
    assert syncscope_command("diff", OLD, NEW, "-o", "no/diff.html").returncode == 2


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        ((OLD, "missing"), 3, "missing does not exist"),
        ((OLD, H200), 3, "is not a recording"),
        ((OLD, NEW, "--format", "xml"), 2, "xml"),
        ((OLD,), 2, "NEW"),
    ],
)
def test_a_mistake_is_one_clear_line(
    syncscope_command: Run, args: tuple[str | Path, ...], code: int, words: str
) -> None:
    result = syncscope_command("diff", *args)
    assert result.returncode == code
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_output_fits_a_terminal_that_knows_only_ascii(syncscope_command: Run) -> None:
    plain = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "60"}
    result = syncscope_command("diff", OLD, NEW, env=plain)
    assert result.returncode == 0, result.stderr
    assert result.stdout.isascii()


def test_a_wait_that_was_added_is_found_on_the_shadow_gpu(
    tmp_path: Path, syncscope_command: Run
) -> None:
    for name, line in (
        ("clean", "pass"),
        ("again", "# nothing new\n    pass"),
        ("slow", "loss.item()"),
    ):
        (tmp_path / f"{name}.py").write_text(PROGRAM.format(line=line))
        run = syncscope_command("run", "--device", "shadow", "-o", f"r/{name}", f"{name}.py")
        assert run.returncode == 0, run.stderr
    same = syncscope_command("diff", "r/clean", "r/again", "--fail")
    assert same.returncode == 0
    assert "within noise" in same.stdout
    added = json.loads(syncscope_command("diff", "r/clean", "r/slow", "--format", "json").stdout)
    new = [each for each in added["code"] if each["status"] == "new" and each["flagged"]]
    assert [each["expression"] for each in new] == ["loss.item()"]
