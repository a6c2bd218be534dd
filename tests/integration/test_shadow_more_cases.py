"""More programs, written to find what the labelled ones do not touch, against an H200.

Run as a script, this file records them all: `test_shadow_more_cases.py FOLDER`.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import syncscope

CASES = Path(__file__).parents[1] / "data" / "more_cases"
MEASURED = json.loads((CASES / "measured_h200.json").read_text())

Sites = set[tuple[int, str, bool]]
"""Line, direction ("" where nothing is copied), and whether the host waits there."""

ONLY_THERE: dict[str, Sites] = {
    "25_losses": {(11, "d2h", True)},
    "34_cuda_graphs": {(22, "", False)},
    "37_distributed_one": {(35, "", True)},
}
"""Torch 2.13 no longer selects by a mask there; a graph's `empty_cache` that had something to
free; the end of NCCL, which comes after the work.
"""
ONLY_HERE: dict[str, Sites] = {
    "06_unique_sorted": {(12, "d2h", True), (14, "d2h", True)},
    "34_cuda_graphs": {(29, "", True)},
    "40_module_moves": {(48, "d2h", True)},
}
"""Waits that no hook sees on a real GPU: inside thrust, and one that CUDA refuses to do. Torch 2.13
draws again in `trunc_normal_` until all numbers are within the bounds, which 2.11 did not."""


def record_all(folder: Path) -> None:
    """One recording per program, one after the other in this process."""
    for name in MEASURED:
        with syncscope.record(folder / name, device="shadow"):
            spec = importlib.util.spec_from_file_location(name, CASES / f"{name}.py")
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            module.main("cuda")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("more_cases")
    command = [sys.executable, "-W", "ignore", __file__, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    return folder


@pytest.mark.parametrize("name", MEASURED)
def test_the_sites_are_those_of_the_real_gpu(name: str, recordings: Path) -> None:
    sites = syncscope.load(recordings / name).summary().sites
    found = {
        (site.line, site.direction or "", site.blocking)
        for site in sites
        if site.flagged and site.kind != "race"
    }
    measured = {tuple(site) for site in MEASURED[name]}
    assert measured - found == ONLY_THERE.get(name, set())
    assert found - measured == ONLY_HERE.get(name, set())


@pytest.mark.parametrize("name", ["32_async_readback_races", "33_pinned_reuse"])
def test_missing_waits_are_on_the_lines_that_say_so(name: str, recordings: Path) -> None:
    lines = (CASES / f"{name}.py").read_text().splitlines()
    tagged = {number for number, line in enumerate(lines, 1) if "# RACE" in line}
    sites = syncscope.load(recordings / name).summary().sites
    assert {site.line for site in sites if site.kind == "race"} == tagged


if __name__ == "__main__":
    record_all(Path(sys.argv[1]))
