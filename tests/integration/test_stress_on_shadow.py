"""What tests/gpu/stress.py asks of a real GPU, for a shorter time on the shadow GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

STRESS = Path(__file__).resolve().parents[1] / "gpu" / "stress.py"
JOBS = (
    ("threads", "--seconds", "5"),
    ("cycles", "--count", "30"),
    ("windows", "--count", "2000"),
)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job[0])
def test_a_recording_loses_nothing_leaves_nothing_and_does_not_grow(job: tuple[str, ...]) -> None:
    command = [sys.executable, str(STRESS), *job, "--device", "shadow"]
    env = os.environ | {"OMP_NUM_THREADS": "1", "GOMP_SPINCOUNT": "0"}
    result = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stdout + result.stderr
