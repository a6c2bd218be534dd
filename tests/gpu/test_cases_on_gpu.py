"""The labelled programs on a real GPU: every tagged line is reported, no look-alike is."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import syncscope

Run = Callable[..., subprocess.CompletedProcess[str]]
CASES = Path(__file__).resolve().parents[1] / "data" / "cases"
# Without a wait there is nothing to see for hooks: races are the shadow GPU's business.
NAMES = sorted(path.stem for path in CASES.glob("[0-9]*.py"))

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]


@pytest.mark.parametrize("name", NAMES)
def test_tagged_lines_are_flagged_and_others_are_not(
    name: str, tmp_path: Path, syncscope_command: Run
) -> None:
    driver = tmp_path / "driver.py"
    driver.write_text(
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('case', {str(CASES / name)!r} + '.py')\n"
        "case = importlib.util.module_from_spec(spec)\nspec.loader.exec_module(case)\n"
        "case.main('cuda')\n"
    )
    folder = Path(os.environ.get("SYNCSCOPE_KEEP_CASES", tmp_path)) / name
    result = syncscope_command("run", "-o", folder, driver)
    assert result.returncode == 0, result.stderr
    lines = (CASES / f"{name}.py").read_text().splitlines()
    waits, copies = set(), set()
    for site in syncscope.load(folder).summary().sites:
        if site.flagged and site.file.endswith(f"{name}.py"):
            span = set(range(site.line, site.end_line + 1))
            waits |= span if site.blocking else set()
            copies |= span if site.kind == "transfer" else set()
    wrong = {}
    for number, line in enumerate(lines, 1):
        tags = line.partition("#")[2]
        if "SYNC" in tags and number not in waits:
            wrong[number] = "a wait was missed"
        if "COPY" in tags and number not in copies:
            wrong[number] = "a copy was missed"
        if "# OK" in line and number in waits | copies:
            wrong[number] = "a look-alike was flagged"
    assert not wrong, json.dumps({f"{n}: {lines[n - 1].strip()}": w for n, w in wrong.items()})
