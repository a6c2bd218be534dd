"""`%load_ext syncscope` and `%%syncscope` in an IPython shell of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Runs the cells of argv[1] in a shell, and prints what a notebook would have displayed.
DRIVER = """
import json, sys
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="nocolor", history_manager=None)
shell.display_pub = CapturingDisplayPublisher()
results = [shell.run_cell(cell, store_history=True) for cell in json.loads(sys.argv[1])]
print("RESULT" + json.dumps({
    "displayed": [output["data"] for output in shell.display_pub.outputs],
    "success": [result.success for result in results],
    "names": sorted(name for name in shell.user_ns if not name.startswith("_")),
    "patched": type(__import__("torch").Tensor.item).__name__ if "torch" in sys.modules else "",
}))
"""
LOAD = "%load_ext syncscope"
TRAIN = """%%syncscope --device shadow -o rec
import torch
w = torch.ones(8, device="cuda", requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
for step in range(6):
    loss = (w * w).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    history = loss.item()
    batch = torch.ones(1 << 20)
    batch = batch.to("cuda")
step
"""


@pytest.fixture
def notebook(tmp_path: Path) -> Any:
    """Run cells; returns what was displayed and all that was printed."""

    def run(*cells: str) -> tuple[dict[str, Any], str]:
        result = subprocess.run(
            [sys.executable, "-c", DRIVER, json.dumps(cells)],
            capture_output=True,
            text=True,
            timeout=240,
            cwd=tmp_path,
            env=os.environ | {"IPYTHONDIR": str(tmp_path / "ipython")},
        )
        assert result.returncode == 0, result.stderr
        printed, _, content = result.stdout.rpartition("RESULT")
        return json.loads(content), printed + result.stderr

    return run


def test_a_cell_is_recorded_and_shows_its_lines(notebook: Any, tmp_path: Path) -> None:
    told, printed = notebook(LOAD, TRAIN)
    assert told["success"] == [True, True], printed
    assert {"w", "loss", "history", "step"} <= set(told["names"])
    assert "syncscope" not in told["names"]
    assert told["patched"] == "method_descriptor"
    [data] = told["displayed"]
    assert "In[2]:10" in data["text/html"]
    assert "loss.item()" in data["text/html"]
    assert 'href="rec/report.html"' in data["text/html"]
    assert "report: rec/report.html" in data["text/plain"]
    assert 'In[2]:12  batch.to("cuda")' in data["text/plain"]
    assert "Out[2]: 5" in printed
    summary = json.loads((tmp_path / "rec" / "summary.json").read_text())
    sites = [site for site in summary["sites"] if site["flagged"]]
    assert {site["stack"][-1]["file"] for site in sites} == {"In[2]"}  # IPython is hidden
    assert {(site["line"], site["count"]) for site in sites} == {(10, 6), (12, 6)}
    manifest = json.loads((tmp_path / "rec" / "manifest.json").read_text())
    kept = tmp_path / "rec" / manifest["sources"]["In[2]"]
    assert "history = loss.item()" in kept.read_text()


def test_a_cell_that_fails_is_shown_its_own_traceback_and_the_result(
    notebook: Any, tmp_path: Path
) -> None:
    cell = (
        "%%syncscope --device shadow -o rec\n"
        "import torch\n"
        "torch.ones(1, device='cuda').item()\n"
        "raise ValueError('half-way')\n"
    )
    told, printed = notebook(LOAD, cell, "1 + 1")
    assert told["success"] == [True, False, True]
    assert "ValueError: half-way" in printed
    assert "close_recorder" not in printed
    assert len(told["displayed"]) == 1
    manifest = json.loads((tmp_path / "rec" / "manifest.json").read_text())
    assert manifest["exit"] == {"code": 1, "exception": "ValueError"}
    assert told["patched"] == "method_descriptor"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--device tpu", "unknown device 'tpu'"),
        ("--steps 0", "steps is 1 or more, not 0"),
        ("--bogus", "unrecognized arguments: --bogus"),
        ("--warmup x", "invalid int value: 'x'"),
    ],
)
def test_mistakes_get_one_line(notebook: Any, tmp_path: Path, options: str, said: str) -> None:
    told, printed = notebook(LOAD, f"%%syncscope {options}\nprint('ran')")
    [line] = [line for line in printed.splitlines() if line.strip()]
    assert line.startswith("UsageError: %%syncscope: ")
    assert said in line
    assert told["displayed"] == []
    assert not (tmp_path / "syncscope-runs").exists()


def test_a_cell_that_cannot_be_recorded_leaves_nothing(notebook: Any, tmp_path: Path) -> None:
    told, printed = notebook(LOAD, "%%syncscope --device cuda -o rec\nprint('ran')")
    assert told["success"] == [True, False]
    assert "there is no CUDA device here" in printed
    assert "ran" not in printed.splitlines()
    assert told["displayed"] == []
    assert not (tmp_path / "rec").exists()


def test_a_cell_that_runs_again_is_recorded_beside(notebook: Any) -> None:
    cell = "%%syncscope --device shadow -o rec\nimport torch\ntorch.ones(1, device='cuda').item()"
    told, printed = notebook(LOAD, cell, cell)
    assert all(told["success"]), printed
    reports = [data["text/plain"].splitlines()[-1] for data in told["displayed"]]
    assert reports == ["report: rec/report.html", "report: rec-2/report.html"]


def test_a_run_displays_itself(notebook: Any) -> None:
    told, printed = notebook(
        LOAD, TRAIN, "import syncscope\nrun = syncscope.load('rec')\nrun",
        "print(run._repr_html_()[:4])\nsyncscope.load",
    )  # fmt: skip
    assert all(told["success"]), printed
    assert "Out[3]: Run('rec')" in printed
    assert "<div" in printed


def test_a_run_that_cannot_be_read_says_so_and_one_that_goes_on_shows_its_name(
    notebook: Any,
) -> None:
    told, printed = notebook(
        "import syncscope\nprint(syncscope.Run('nowhere')._repr_html_())",
        "with syncscope.record('rec', device='shadow') as run:\n    print(run._repr_html_())",
    )
    assert all(told["success"]), printed
    assert "<div>nowhere does not exist. Name the folder" in printed
    assert "None" in printed


def test_importing_syncscope_does_not_import_ipython() -> None:
    code = "import sys, syncscope; print('IPython' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "False"
