"""What the shadow GPU costs: time and memory of programs against their plain run on the CPU.

Each program runs in three ways, in processes of their own and in turn: plainly on the CPU, there
under a `TorchDispatchMode` that does nothing (the floor of any such tool), and by `syncscope run
--device shadow`, analysis and report included. Medians over the rounds are compared. Each way
runs at two lengths: the difference is what a step costs, the rest is start-up, analysis and
report. Trust CPU time where others use the machine as well; memory is the highest resident set of
the process: that of the program, or of the analysis, which takes its place when it has ended.

    python benchmarks/shadow_cost.py [--rounds 3] [--only NAME ...] [--json FILE]
    python benchmarks/shadow_cost.py --flat 10000     does memory grow over so many steps?
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WAYS = ("plain", "floor", "shadow")
LENGTHS = {
    "train_gpt": (10, 60),
    "classify_digits": (20, 120),
    "upload_bound": (20, 120),
    "detect_postprocess": (4, 24),
    "balance_pole": (5, 30),
    "elementwise": (50, 550),
    "mlp": (100, 1100),
}
"""Steps of the short and of the long run. The last two programs are in this file."""


@dataclass(frozen=True)
class Cost:
    """One run: seconds, MB of 1e6 bytes, and ms a step if the program prints that."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    loop_ms: float | None


def elementwise(device: str) -> Callable[[], None]:
    """A hundred multiplications and additions of 2 by 2 tensors."""
    import torch

    a, b = torch.ones(2, 2, device=device), torch.ones(2, 2, device=device)

    def step() -> None:
        x = a
        for _ in range(100):
            x = x * 0.5 + b

    return step


def mlp(device: str) -> Callable[[], None]:
    """A training step of three layers, 64 wide, with Adam."""
    import torch
    from torch import nn

    layers = [nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.randn(64, 64, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


MICRO = {"elementwise": elementwise, "mlp": mlp}


def resident_mb() -> float:
    """Memory that this process holds now (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_micro(name: str, steps: int, device: str) -> None:
    """A program to be measured: prints its CPU time, and memory after a fifth and at the end."""
    step = MICRO[name](device)
    step()
    early = 0.0
    start = time.process_time()
    for number in range(steps):
        if number == steps // 5:
            early = resident_mb()
        step()
    seconds = time.process_time() - start
    print(f"{steps} steps, {1e3 * seconds / steps:.4f} ms each")
    print(f"memory {early:.1f} MB after a fifth, {resident_mb():.1f} MB at the end")


def run_under_mode(program: Sequence[str]) -> None:
    """Run a script under a dispatch mode that only passes operators on."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return func(*args, **(kwargs or {}))

    sys.argv[:] = program
    with Nothing():
        runpy.run_path(program[0], run_name="__main__")


def command(name: str, way: str, steps: int, folder: Path) -> list[str]:
    """How to run a program in one of the ways."""
    device = "cuda" if way == "shadow" else "cpu"
    program = [__file__, "--micro", name] if name in MICRO else [f"examples/{name}.py"]
    program += ["--device", device, "--steps", str(steps)]
    before = {
        "plain": [],
        "floor": [__file__, "--under-mode"],
        "shadow": ["-m", "syncscope", "run", "--device", "shadow", "-o", str(folder)],
    }
    return [sys.executable, *before[way], *program]


def measure(arguments: list[str]) -> tuple[Cost, str]:
    """Run to the end; raises CalledProcessError if that fails. Also returns the output."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(arguments, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode(errors="replace")
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments, text)
    unit = 1 if sys.platform == "darwin" else 1024
    found = re.search(r"([\d.]+) ms each", text)
    loop = float(found[1]) if found else None
    return Cost(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * unit / 1e6, loop), text


def compare(name: str, rounds: int) -> dict[str, dict[str, float]]:
    """Medians of each way, and the ratios to the plain one."""
    runs: dict[tuple[str, int], list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            for steps in LENGTHS[name]:
                for way in WAYS:
                    run = Path(folder) / f"{way}-{steps}-{number}"
                    cost, _ = measure(command(name, way, steps, run))
                    runs.setdefault((way, steps), []).append(cost)
    short, long = LENGTHS[name]
    figures: dict[str, dict[str, float]] = {}
    for way in WAYS:

        def median(what: str, steps: int, way: str = way) -> float:
            return statistics.median(getattr(cost, what) for cost in runs[way, steps])

        step = (median("cpu_s", long) - median("cpu_s", short)) / (long - short)
        figures[way] = {
            "wall_s": median("wall_s", long),
            "cpu_s": median("cpu_s", long),
            "step_ms": 1e3 * step,
            "fixed_s": median("cpu_s", short) - short * step,
            "peak_mb": median("peak_mb", long),
        }
        if runs[way, long][0].loop_ms is not None:
            figures[way]["loop_ms"] = median("loop_ms", long)
    return figures


def print_table(results: dict[str, dict[str, dict[str, float]]]) -> None:
    """A line for each program: the plain figure, and what the other ways make of it."""
    titles = {
        "wall_s": "wall s",
        "cpu_s": "CPU s",
        "step_ms": "CPU ms a step",
        "loop_ms": "own step, ms",
        "fixed_s": "once, CPU s",
        "peak_mb": "peak MB",
    }
    for key, title in titles.items():
        print(f"\n{title:20} {'plain':>9} {'floor':>9} {'shadow':>9}   floor/plain shadow/plain")
        for name, figures in results.items():
            if key in figures["plain"]:
                plain, floor, shadow = (figures[way][key] for way in WAYS)
                ratios = f"x{floor / plain:<10.2f} x{shadow / plain:.2f}"
                print(f"{name:20} {plain:9.3f} {floor:9.3f} {shadow:9.3f}   {ratios}")


def main() -> None:
    """Measure, print, and write JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=LENGTHS, nargs="*", default=list(LENGTHS))
    parser.add_argument("--flat", type=int, metavar="STEPS", help="only memory, over steps of mlp")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--micro", choices=MICRO, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--device", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.micro:
        run_micro(args.micro, args.steps, args.device)
        return
    if args.flat:
        with tempfile.TemporaryDirectory() as folder:
            for way in WAYS:
                cost, text = measure(command("mlp", way, args.flat, Path(folder) / way))
                line = next(line for line in text.splitlines() if line.startswith("memory"))
                print(f"{way:7} {line}; {cost.peak_mb:.1f} MB at most")
        return
    results = {}
    for name in args.only:
        results[name] = compare(name, args.rounds)
        print(f"measured {name}", file=sys.stderr)
    print_table(results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--under-mode"]:
        run_under_mode(sys.argv[2:])
    else:
        main()
