"""What `syncscope run` finds in the examples on a real GPU, against the tags in their lines.

Run on a machine with an NVIDIA GPU:

    python -m pytest tests/gpu -m gpu
    SYNCSCOPE_KEEP=tests/data/h200 python -m pytest tests/gpu -m gpu   # keeps the recordings
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import syncscope
from syncscope.records import Site

Run = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
# Few steps, so that a recording of the whole run stays small.
ARGUMENTS = {"upload_bound": ["--steps", "8", "--size", "large"]}
DEFAULT_ARGUMENTS = ["--steps", "6"]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


def tagged_lines(path: Path, tag: str) -> set[int]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return {number for number, line in enumerate(lines, 1) if f"# {tag}" in line}


def flagged_lines(sites: tuple[Site, ...], file: str) -> set[int]:
    found: set[int] = set()
    for site in sites:
        if site.flagged and site.file == file:
            found |= set(range(site.line, site.end_line + 1))
    return found


def without_times(output: str) -> list[str]:
    """What a program prints, but for the lines in which it tells how long it took."""
    return [line for line in output.splitlines() if not re.search(r"[\d.]+ ms\b", line)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_recording_names_exactly_the_tagged_lines(
    name: str, tmp_path: Path, syncscope_command: Run
) -> None:
    script = f"examples/{name}.py"
    arguments = ARGUMENTS.get(name.removesuffix("_fixed"), DEFAULT_ARGUMENTS)
    folder = Path(os.environ.get("SYNCSCOPE_KEEP", tmp_path)) / name
    bare = subprocess.run(
        [sys.executable, script, *arguments], cwd=ROOT, capture_output=True, text=True
    )
    ours = syncscope_command("run", "-o", folder, script, *arguments, cwd=ROOT)
    assert ours.returncode == bare.returncode == 0, ours.stderr
    assert without_times(ours.stdout) == without_times(bare.stdout)
    summary = syncscope.load(folder).summary()
    tagged = tagged_lines(ROOT / script, "SYNC") | tagged_lines(ROOT / script, "COPY")
    flagged = flagged_lines(summary.sites, script)
    assert flagged == tagged, [s for s in summary.sites if s.flagged and s.line not in tagged]


def test_nothing_stays_patched_after_recording_on_a_gpu(tmp_path: Path) -> None:
    x = torch.ones(4, device="cuda")
    mode = torch.cuda.get_sync_debug_mode()

    @syncscope.record(tmp_path / "run")
    def failing() -> float:
        return x.sum().item() / 0

    with pytest.raises(ZeroDivisionError):
        failing()
    assert torch.cuda.get_sync_debug_mode() == mode
    sites = syncscope.load(tmp_path / "run").summary().sites
    assert [(site.expression, site.count) for site in sites if site.flagged] == [
        ("x.sum().item()", 1)
    ]


def test_a_program_in_error_mode_still_raises(tmp_path: Path) -> None:
    x = torch.ones(4, device="cuda")
    with syncscope.record(tmp_path / "run"):
        torch.cuda.set_sync_debug_mode("error")
        with pytest.raises(RuntimeError, match="synchronizing"):
            x.sum().item()
        torch.cuda.set_sync_debug_mode("default")
        assert torch.cuda.get_sync_debug_mode() == 0


def test_a_program_with_its_own_profiler_keeps_it(tmp_path: Path) -> None:
    x = torch.ones(1024, device="cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        with syncscope.record(tmp_path / "run"):
            (x * 2).sum().item()
        torch.cuda.synchronize()
    assert any("elementwise" in event.key for event in profiler.key_averages())
    run = syncscope.load(tmp_path / "run")
    status = {c.name: c for c in run.analysis.manifest.collectors}["activity"]
    assert status.state == "failed"
    assert "torch.profiler" in status.reason
    assert [site.expression for site in run.summary().sites] == ["(x * 2).sum().item()"]
