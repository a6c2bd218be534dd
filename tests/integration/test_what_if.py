"""The benchmark of the what-ifs on the shadow GPU: predictions against what it simulates."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAIRS = ("logged_output", "created_on_host", "second_stream")


def test_predicted_gains_are_those_of_the_simulated_programs(tmp_path: Path) -> None:
    script = ROOT / "benchmarks" / "what_if.py"
    command = [sys.executable, script, "--out", tmp_path / "out", "--steps", "8", "--only", *PAIRS]
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    run = subprocess.run(command, cwd=ROOT, env=hidden, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    report = json.loads((tmp_path / "out" / "results.json").read_text())
    rows = {row["name"]: row for row in report["pairs"]}
    assert set(rows) == set(PAIRS)
    for row in rows.values():
        assert abs(row["baseline_error"]) < 0.001
        assert row["recorded_error"] < 0.03
    assert rows["created_on_host"]["predicted_gain"] > 0.15
    assert rows["logged_output"]["predicted_gain"] > 0.15
    assert abs(rows["second_stream"]["predicted_gain"]) < 0.01
