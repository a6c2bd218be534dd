"""Programs on a real GPU whose profiling interface another tool holds.

    python tests/gpu/neighbours.py compute_sanitizer FOLDER

Prints what it saw as its last line; an AssertionError says what was not as promised. The
promise: every wait has its line, the program ends as it would, and the manifest says why
there is no GPU activity, if the tool leaves none.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import syncscope
from syncscope.recording.reader import Recording

PROGRAM = """\
import sys
import torch
x = torch.arange(8.0, device="cuda")
total = 0.0
for _ in range(10):
    for _ in range(5):
        x.mul_(1.0)
    total += x.sum().item()
    kept = x[x > 3]
print("total", total)
print("no warning", file=sys.stderr)
sys.exit(3)
"""
WAITS = {"x.sum().item()": 10, "x[x > 3]": 10}


def cupti_taken(folder: Path) -> object:
    """Another library of this process subscribed to CUPTI before us."""
    import torch

    torch.cuda.init()
    cupti = ctypes.CDLL(_loaded("libcupti"))
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int] * 2, ctypes.c_void_p)
    nothing = callback(lambda *_: None)
    subscriber = ctypes.c_void_p()
    code = cupti.cuptiSubscribe(ctypes.byref(subscriber), nothing, None)
    assert code == 0, f"CUPTI refuses us too: {code}"
    x = torch.arange(8.0, device="cuda")
    with syncscope.record(folder):
        for _ in range(10):
            x.sum().item()
            x[x > 3]
    return seen(folder)


def nsight_compute(folder: Path) -> object:
    """The command under Nsight Compute, which profiles one kernel of it."""
    tool = found("ncu", "/opt/nvidia/nsight-compute/*/ncu")
    return under([tool, "--clock-control", "none", "--launch-count", "1"], folder)


def nsight_systems(folder: Path) -> object:
    """The command under Nsight Systems, which traces CUDA of all its processes."""
    tool = found("nsys", "/opt/nvidia/nsight-*/*/host/target-linux-x64/nsys")
    report = str(folder.parent / "nsys-report")
    return under([tool, "profile", "--trace=cuda", "-o", report], folder)


def compute_sanitizer(folder: Path) -> object:
    """The command under the memory checker."""
    tool = found("compute-sanitizer", "/usr/local/cuda*/bin/compute-sanitizer")
    return under([tool, "--target-processes", "all"], folder)


def under(tool: list[str], folder: Path) -> object:
    """Run the program with syncscope under a tool."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    script = folder.parent / f"{folder.name}.py"
    script.write_text(PROGRAM)
    # Not in the repository, whose folder syncscope/ lacks the command where it is not installed.
    ran = subprocess.run(
        [*tool, sys.executable, "-m", "syncscope", "run", "-o", str(folder), str(script)],
        cwd=folder.parent, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    print(ran.returncode, ran.stdout, ran.stderr, sep="\n---\n", flush=True)
    assert ran.returncode == 3, ran.returncode
    assert "total 280.0" in ran.stdout, "the program did not run to its end"
    assert ran.stderr.startswith("no warning\n"), "something else is on its stderr"
    return seen(folder)


def seen(folder: Path) -> dict[str, object]:
    """What a recording holds, all waits with their lines."""
    run = syncscope.load(folder)
    waits = {site.expression: site.count for site in run.summary().sites}
    assert {name: waits.get(name) for name in WAITS} == WAITS, waits
    states = {c.name: f"{c.state} {c.reason}".strip() for c in run.analysis.manifest.collectors}
    activity, rows = states["activity"], len(Recording(folder).table("activity"))
    if not rows:
        assert activity.startswith("failed torch.profiler gave no GPU activity"), activity
    others = {name for name, state in states.items() if not state.startswith("on")}
    assert others <= {"activity", "operators"}, states
    return {"waits": waits, "activity": activity, "rows": rows}


def found(name: str, pattern: str) -> str:
    """The path of a tool; a message and exit code 77 where there is none."""
    path = shutil.which(name) or next(map(str, sorted(Path("/").glob(pattern[1:]))), None)
    if path is None:
        print(f"skipped: there is no {name}")
        sys.exit(77)
    return path


def _loaded(name: str) -> str:
    """The path of a library of this process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in lines if name in line)


def main() -> int:
    """Run one program."""
    program: Callable[[Path], object] = globals()[sys.argv[1]]
    print(json.dumps(program(Path(sys.argv[2]).resolve()), default=str))
    return 0


if __name__ == "__main__":
    sys.exit(main())
