"""The promises of capture on a real GPU: each program and each stress in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.gpu.verify_capture import NOT_HERE, programs_in

HERE = Path(__file__).resolve().parent
PROGRAMS = [
    (file, name) for file in ("programs.py", "neighbours.py") for name in programs_in(HERE / file)
]
STRESSES = (
    ("threads", "--seconds", "60"),
    ("cycles", "--count", "100"),
    ("windows", "--count", "10000"),
    ("printing",),
)

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def run(*command: str) -> None:
    result = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=280)
    if result.returncode == NOT_HERE:
        pytest.skip(result.stdout.splitlines()[-1])
    assert result.returncode == 0, result.stdout + result.stderr
    print(result.stdout)


@pytest.mark.parametrize(("file", "name"), PROGRAMS, ids=[name for _, name in PROGRAMS])
def test_a_program_is_recorded_as_promised(file: str, name: str, tmp_path: Path) -> None:
    run(str(HERE / file), name, str(tmp_path / "run"))


@pytest.mark.parametrize("stress", STRESSES, ids=lambda stress: stress[0])
def test_a_recording_stands_stress(stress: tuple[str, ...]) -> None:
    run(str(HERE / "stress.py"), *stress)
