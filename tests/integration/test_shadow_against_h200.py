"""The shadow GPU names the same places of the examples as the recordings of an H200 do.

How often a place waits may differ: games end, and text goes on, as random numbers of another
device have it.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import syncscope

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).resolve().parents[2]
RECORDINGS = ROOT / "tests" / "data" / "h200"
EXAMPLES = sorted(path.name for path in RECORDINGS.iterdir() if path.is_dir())


def places(folder: Path) -> set[tuple[int, int, bool, str | None]]:
    """Line range, whether the host waits there, and the direction, of each flagged site."""
    sites = syncscope.load(folder).summary().sites
    return {(s.line, s.end_line, s.blocking, s.direction) for s in sites if s.flagged}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_places_are_those_of_the_real_gpu(
    name: str, tmp_path: Path, syncscope_command: Run
) -> None:
    steps = "8" if name.startswith("upload_bound") else "6"
    options = ("--device", "shadow", "-o", tmp_path / "run")
    script = f"examples/{name}.py"
    result = syncscope_command("run", *options, script, "--steps", steps, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    assert places(tmp_path / "run") == places(RECORDINGS / name)
