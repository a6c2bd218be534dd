"""The example programs run, and each repaired twin computes what the original computes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
MARK = re.compile(r"  # (SYNC|COPY)( # COPY)?$")
STEPS = {
    "balance_pole": 3,
    "classify_digits": 5,
    "detect_postprocess": 2,
    "train_gpt": 3,
    "upload_bound": 5,
}
TWINS = [pytest.param(name, steps, id=name) for name, steps in STEPS.items()]


def final_figures(script: Path, *options: str) -> list[str]:
    """The lines with which a program ends; it must succeed and complain about nothing."""
    run = subprocess.run(
        [sys.executable, script, "--device", "cpu", *options],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Warning" not in run.stderr
    return [line for line in run.stdout.splitlines() if line.startswith("final ")]


def marked_lines(script: Path) -> list[int]:
    lines = script.read_text().splitlines()
    return [number for number, line in enumerate(lines, 1) if MARK.search(line)]


def test_every_example_has_its_twin() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == {*STEPS, *(f"{name}_fixed" for name in STEPS)}


@pytest.mark.parametrize(("name", "steps"), TWINS)
def test_the_twin_ends_with_the_same_figures(name: str, steps: int) -> None:
    options = ("--steps", str(steps), "--seed", "3")
    original = final_figures(EXAMPLES / f"{name}.py", *options)
    twin = final_figures(EXAMPLES / f"{name}_fixed.py", *options)
    assert original
    assert twin == original


@pytest.mark.parametrize("name", STEPS)
def test_only_the_original_marks_mistakes(name: str) -> None:
    assert len(marked_lines(EXAMPLES / f"{name}.py")) >= 3
    twin = (EXAMPLES / f"{name}_fixed.py").read_text()
    assert not re.search(r"# (SYNC|COPY|OK)", twin)


@pytest.mark.parametrize("name", STEPS)
def test_each_mark_ends_its_line(name: str) -> None:
    code = (EXAMPLES / f"{name}.py").read_text().split('"""', 2)[2]
    tagged = [line for line in code.splitlines() if re.search(r"# ?(SYNC|COPY)", line)]
    assert [line for line in tagged if not MARK.search(line)] == []
