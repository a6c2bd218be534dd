"""How long a step of each example takes: on a GPU, and by the shadow GPU's clock.

    python benchmarks/step_times.py --measure OUT       # on a machine with a GPU
    python benchmarks/step_times.py [MEASURED.json]     # on the shadow GPU, beside the former

Measured in one process with the collectors that cost nothing, round after round over all
examples, because the speed of hosts drifts; a step's time is the median over the rounds of
the median over the steps. After the rounds each example is recorded in full into OUT.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import runpy
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MEASURED = ROOT / "tests" / "data" / "h200" / "step_times.json"
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
ROUNDS, STEPS = 5, 30
RECORDED = {"upload_bound": ["--steps", "8", "--size", "large"]}


def record(name: str, folder: Path, arguments: list[str], *, gpu_activity: bool) -> float:
    """Run one example under the recorder in this process; returns the ms of its median step."""
    import syncscope

    script, argv, path = f"examples/{name}.py", sys.argv, list(sys.path)
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            syncscope.record(folder, gpu_activity=gpu_activity),
        ):
            runpy.run_path(str(ROOT / script), run_name="__main__")
    finally:
        sys.argv, sys.path[:] = argv, path
    return syncscope.load(folder).summary().run.step_ns / 1e6


def measure(out: Path) -> None:
    """Write step_times.json and a full recording of each example into `out`."""
    import torch

    times: dict[str, list[float]] = {name: [] for name in EXAMPLES}
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(ROUNDS):
            for name in EXAMPLES:
                folder = Path(scratch) / f"{name}-{number}"
                steps = ["--steps", str(STEPS)]
                times[name].append(record(name, folder, steps, gpu_activity=False))
    content = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "step_ms": {name: statistics.median(found) for name, found in times.items()},
        "rounds_ms": times,
    }
    (out / "step_times.json").write_text(json.dumps(content, indent=1) + "\n")
    for name in EXAMPLES:
        arguments = RECORDED.get(name.removesuffix("_fixed"), ["--steps", "6"])
        record(name, out / name, arguments, gpu_activity=True)


def predict(name: str) -> float:
    """Milliseconds of a step on the shadow GPU, in a process of its own as a user would."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "syncscope", "run", "--device", "shadow"]
        command += ["-o", f"{scratch}/run", f"examples/{name}.py", "--steps", "12"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        summary = json.loads(Path(scratch, "run", "summary.json").read_text())
    return float(summary["run"]["step_ns"]) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", type=Path, metavar="OUT")
    parser.add_argument("measured", type=Path, nargs="?", default=MEASURED)
    options = parser.parse_args()
    if options.measure:
        measure(options.measure)
        return
    measured = json.loads(options.measured.read_text())
    print(f"| example | {measured['device']}, ms | shadow GPU, ms | ratio |")
    print("|---|---|---|---|")
    for name in EXAMPLES:
        real, predicted = measured["step_ms"][name], predict(name)
        print(f"| {name} | {real:.2f} | {predicted:.2f} | {predicted / real:.2f} |")


if __name__ == "__main__":
    main()
