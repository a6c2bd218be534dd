"""Try all that capture promises on a real GPU, in one run; one line a check.

    python tests/gpu/verify_capture.py --out FOLDER [--seconds 470] [--only NAME ...]

Each check is a process of its own and goes on after a failure of another. Those that do not
measure time run side by side, then the others one by one, while `--seconds` last. Full
output and recordings stay in FOLDER, the lines in FOLDER/results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
CASES = sorted(path.stem for path in (ROOT / "tests" / "data" / "cases").glob("[0-9]*.py"))
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
TIMEOUT_S = 150
NOT_HERE = 77
"""Exit code of a check that needs what this machine has not."""


@dataclass(frozen=True, slots=True)
class Check:
    """A command that exits with 0 if all is well; its last line of output says what it saw.

    "{left}" in it stands for the seconds that it may take for measuring, `most_s` at most.
    """

    name: str
    command: tuple[str, ...]
    alone: bool = False
    most_s: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a check: ok, FAILED or skipped."""

    name: str
    state: str
    seconds: float
    said: str


def checks(out: Path) -> list[Check]:
    """All checks; what measures time is alone on the machine, the dearest comes last."""
    programs, python = str(HERE / "programs.py"), sys.executable
    stress = str(HERE / "stress.py")
    beside = [
        Check(name, (python, str(file), name, str(out / "runs" / name)))
        for file in (HERE / "programs.py", HERE / "neighbours.py")
        for name in programs_in(file)
        if name != "calibration"
    ]
    beside += [
        Check(f"case {name}", (python, str(HERE / "judge.py"), "case", name, str(out / "cases")))
        for name in CASES
    ]
    beside += [
        Check(
            f"example {name}",
            (python, str(HERE / "judge.py"), "example", name, str(out / "examples")),
        )
        for name in EXAMPLES
    ]
    alone = [
        Check("printing", (python, stress, "printing"), alone=True),
        Check("calibration", (python, programs, "calibration", str(out / "calibration")), True),
        Check("10,000 steps", (python, stress, "windows"), alone=True),
        Check("100 cycles", (python, stress, "cycles"), alone=True),
        Check("8 threads", (python, stress, "threads", "--seconds", "{left}"), True, most_s=60),
    ]
    benchmark = str(ROOT / "benchmarks" / "overhead.py")
    figures = str(out / "overhead.json")
    command = (python, benchmark, "--seconds", "{left}", "--json", figures)
    return [*beside, *alone, Check("overhead", command, alone=True, most_s=150)]


def programs_in(file: Path) -> list[str]:
    """The programs of a file, in its order."""
    return re.findall(r"^def (\w+)\(folder: Path\) -> object:$", file.read_text(), re.MULTILINE)


def run(check: Check, out: Path, env: dict[str, str], deadline: float) -> Outcome:
    """Run one check within what is left of the time."""
    left = deadline - time.monotonic()
    if left < 5:
        return Outcome(check.name, "skipped", 0.0, "no time left")
    limit = left if check.name == "overhead" else min(left, TIMEOUT_S)
    command = [
        part.replace("{left}", str(min(check.most_s, int(left) - 45))) for part in check.command
    ]
    log = out / "logs" / f"{check.name.replace(' ', '-')}.txt"
    began = time.monotonic()
    with log.open("w") as file:
        try:
            code = subprocess.run(
                command, cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT,
                timeout=limit,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = -1
    lines = log.read_text(errors="replace").strip().splitlines() or [""]
    state = {0: "ok", NOT_HERE: "skipped"}.get(code, "FAILED")
    said = f"no end after {limit:.0f} s" if code == -1 else lines[-1]
    return Outcome(check.name, state, round(time.monotonic() - began, 1), said)


def importable(folder: Path) -> dict[str, str]:
    """The environment, in which syncscope can be imported also where it is not installed."""
    env = dict(os.environ)
    if find_spec("syncscope") is None or find_spec("syncscope.cli") is None:
        package = folder / "syncscope"
        package.mkdir()
        for source in (ROOT / "syncscope").iterdir():
            (package / source.name).symlink_to(source)
        for name in ("cli", "reports"):
            (package / name).symlink_to(ROOT / name)
        env["PYTHONPATH"] = os.pathsep.join([str(folder), env.get("PYTHONPATH", "")])
    return env


def main() -> int:
    """Exit code 0 if no check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=470.0)
    parser.add_argument("--beside", type=int, default=6, help="how many run side by side")
    parser.add_argument("--only", nargs="*", default=None)
    args = parser.parse_args()
    deadline = time.monotonic() + args.seconds
    out = args.out.resolve()
    for name in ("logs", "runs"):
        (out / name).mkdir(parents=True, exist_ok=True)
    chosen = [c for c in checks(out) if not args.only or any(n in c.name for n in args.only)]
    outcomes = []

    def tell(outcome: Outcome) -> None:
        outcomes.append(outcome)
        print(f"{outcome.state:8}{outcome.seconds:6} s  {outcome.name}: {outcome.said}", flush=True)
        (out / "results.json").write_text(json.dumps([asdict(o) for o in outcomes], indent=1))

    with tempfile.TemporaryDirectory() as folder:
        env = importable(Path(folder))
        with ThreadPoolExecutor(args.beside) as pool:
            beside = [check for check in chosen if not check.alone]
            for outcome in pool.map(lambda check: run(check, out, env, deadline), beside):
                tell(outcome)
        for check in (check for check in chosen if check.alone):
            tell(run(check, out, env, deadline))
    _receipt(out)
    return int(any(outcome.state == "FAILED" for outcome in outcomes))


def _receipt(out: Path) -> None:
    """The share of blocking calls with a line, over all cases and examples."""
    judged = [json.loads(path.read_text()) for path in out.glob("*/*.judged.json")]
    total = sum(one["blocking_calls"] for one in judged)
    with_line = sum(one["attributed"] for one in judged)
    agreed = [sum(one["samples"][i] for one in judged) for i in (0, 1)]
    print(
        f"receipt: {with_line} of {total} blocking calls have a line; of {agreed[1]} samples "
        f"that hit a call of a hook {agreed[0]} name the same line"
    )


if __name__ == "__main__":
    sys.exit(main())
