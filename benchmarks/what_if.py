"""What the replay predicts for a cure, and what the cure truly gains.

For each pair of steps in `what_if_pairs.py`:

- the step before the cure and the step after it run in turns in one process without a
  profiler: blocks of the one between blocks of the other, because host time drifts by 20 %
  within a minute; the gain is the median over the turns;
- the step before the cure is recorded with syncscope, and the gain of the lines marked
  `CURED` is predicted from that recording alone;
- the step after the cure is recorded as well.

CUPTI makes each call into the runtime dearer, so a recorded step is longer than a bare one,
by up to x1.4 where launching bounds it. The prediction is therefore compared three times, each
time as part of the step before the cure:

  recorded  the recorded gain: both steps under the profiler, the prediction as the report
            shows it
  bare      the bare gain, and that same prediction
  priced    the bare gain, and the prediction with CUPTI's price taken off each call: so
            much that the replayed step before the cure is as long as the bare one. The
            step after the cure plays no part in that.

Where there is no GPU a shadow T4 plays it, with tiny shapes: the recorded comparison is then
one of the replay with the simulation.

    python benchmarks/what_if.py --out FOLDER [--only NAME ...] [--turns 8] [--steps 24]
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import itertools
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from what_if_pairs import PAIRS, Pair, Step

import syncscope
from syncscope.analysis.replay import Program
from syncscope.analysis.replay_cures import Cure, WhatIf, cure_of
from syncscope.analysis.result import Analysis

WARM_STEPS = 8
MOST_PRICE_NS = 8_000


def record(pair: Pair, which: int, args: argparse.Namespace, device: str) -> Analysis:
    """Record one step of a pair, made anew so that it also finds a shadow GPU."""
    folder = args.out / "recordings" / f"{pair.name}-{('before', 'after')[which]}"
    with syncscope.record(
        folder, device=device, shadow_gpu="T4", warmup=WARM_STEPS, detail="lines"
    ) as run:
        step = pair.make(device == "shadow")[which]
        for _ in range(WARM_STEPS + args.steps):
            step()
            syncscope.step()
    return run.analysis


def block_ms(step: Step, steps: int) -> float:
    """Mean length of a step of a block that begins and ends with an empty GPU.

    Filling and draining the queue counts: up to one step's overlap in `steps`.
    """
    step()
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start) / steps


def measure(steps: tuple[Step, Step], turns: int, length: int) -> dict[str, Any]:
    """Bare step times of both, interleaved; the gain as part of the step before."""
    for step in steps:
        block_ms(step, length)
    before, after = [], []
    for turn in range(turns):
        for which in (0, 1) if turn % 2 else (1, 0):
            (before, after)[which].append(block_ms(steps[which], length))
    gains = sorted(1.0 - b / a for a, b in zip(before, after, strict=True))
    return {
        "before_ms": statistics.median(before),
        "after_ms": statistics.median(after),
        "before_spread": (max(before) - min(before)) / statistics.median(before),
        "gain": statistics.median(gains),
        "gain_low": gains[len(gains) // 4],
        "gain_high": gains[-1 - len(gains) // 4],
    }


def cures(analysis: Analysis, pair: Pair) -> list[Cure]:
    """The cures of all flagged sites on lines of the pair that are marked CURED."""
    marked = [line for line in inspect.getsource(pair.make).splitlines() if "# CURED" in line]
    found = []
    for site in analysis.summary.sites:
        if site.flagged and any(site.expression in line for line in marked):
            cure = cure_of(site.id, site.kind, site.pageable, site.cause)
            found.append(dataclasses.replace(cure, vanishes=pair.vanishes))
    return found


def priced(what_if: WhatIf, analysis: Analysis, step_ns: float) -> tuple[WhatIf, int]:
    """The same run with each runtime call shorter by the price that makes its steps
    `step_ns` long; and that price."""
    low, high = 0, MOST_PRICE_NS
    while high - low > 10:
        middle = (low + high) // 2
        cheaper = _cheaper(what_if.program, analysis, middle)
        low, high = (middle, high) if cheaper.step_ns > step_ns else (low, middle)
    return _cheaper(what_if.program, analysis, low), low


def _cheaper(program: Program, analysis: Analysis, price_ns: int) -> WhatIf:
    starts = np.sort(program.runtime["start_ns"].to_numpy(dtype=np.int64))

    def paid(times: Any) -> Any:
        return np.asarray(times) - price_ns * np.searchsorted(starts, times, side="right")

    work, waits = program.work, program.waits
    off = work.launch_ns - paid(work.launch_ns)
    shorter = Program(
        program.activity,
        program.runtime,
        dataclasses.replace(work, launch_ns=work.launch_ns - off, arrival_ns=work.arrival_ns - off),
        dataclasses.replace(
            waits,
            start_ns=paid(waits.start_ns),
            end_ns=waits.end_ns - (waits.start_ns - paid(waits.start_ns)),
        ),
        paid(program.marks),
    )
    steady = _steady(analysis)
    steps = steady.assign(start_ns=paid(steady["start_ns"]), end_ns=paid(steady["end_ns"]))
    return WhatIf(shorter, analysis.calls, steps, analysis.summary.run.device)


def _steady(analysis: Analysis) -> Any:
    steady = {step.index for step in analysis.summary.steps if step.steady}
    return analysis.steps[analysis.steps["index"].isin(list(steady))]


def compare(pair: Pair, bare: dict[str, Any] | None, args: Any, device: str) -> dict[str, Any]:
    """Everything about one pair; times in ms, gains as part of the step before the cure."""
    row: dict[str, Any] = {"name": pair.name, "bound": pair.bound}
    before, after = (record(pair, which, args, device) for which in (0, 1))
    what_if, cured = before.what_if, cures(before, pair)
    if what_if is None or after.what_if is None or not cured:
        return row | {"failed": "no site was flagged" if what_if else "nothing to replay"}
    regime = before.summary.regime
    row |= {
        "regime": regime.kind if regime else "",
        "sites": len(cured),
        "baseline_error": what_if.baseline_error,
        "recorded_before_ms": what_if.step_ns / 1e6,
        "recorded_after_ms": after.what_if.step_ns / 1e6,
        "recorded_gain": 1.0 - after.what_if.step_ns / what_if.step_ns,
        "predicted_gain": what_if.without(cured).fraction,
    }
    row["recorded_error"] = abs(row["predicted_gain"] - row["recorded_gain"])
    if bare:
        cheaper, price = priced(what_if, before, 1e6 * bare["before_ms"])
        row |= {
            "bare": bare,
            "bare_error": abs(row["predicted_gain"] - bare["gain"]),
            "price_ns": price,
            "priced_step_ms": cheaper.step_ns / 1e6,
            "priced_gain": cheaper.without(cured).fraction,
        }
        row["priced_error"] = abs(row["priced_gain"] - bare["gain"])
    return row


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Median and largest error of each comparison; how many cures gain more than 15 %."""
    result: dict[str, Any] = {"pairs": len(rows), "failed": sum("failed" in row for row in rows)}
    for kind in ("recorded", "bare", "priced"):
        errors = [row[f"{kind}_error"] for row in rows if f"{kind}_error" in row]
        if errors:
            result[kind] = {"median_error": statistics.median(errors), "largest_error": max(errors)}
    gains = [row.get("bare", {}).get("gain", row.get("recorded_gain", 0.0)) for row in rows]
    result["gain_over_15_percent"] = sum(gain > 0.15 for gain in gains)
    return result


def show(row: dict[str, Any]) -> None:
    """One line of the table."""
    if "failed" in row:
        print(f"{row['name']:24} {row['failed']}")
        return
    bare = row.get("bare", {})
    cells = [
        f"{row['name']:24} {row['bound']:9}",
        f"{row['recorded_before_ms']:8.2f} ms",
        f"recorded {row['recorded_gain']:6.1%} predicted {row['predicted_gain']:6.1%}",
    ]
    if bare:
        cells.append(
            f"bare {bare['before_ms']:.2f} ms {bare['gain']:6.1%} "
            f"[{bare['gain_low']:.1%} .. {bare['gain_high']:.1%}] priced {row['priced_gain']:6.1%}"
        )
    print("  ".join(cells), flush=True)


def main() -> None:
    """Try the pairs, print a table, write results.json after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="a new folder for what is found")
    parser.add_argument("--only", nargs="*", default=[], help="names of pairs")
    parser.add_argument("--turns", type=int, default=8, help="blocks of each step")
    parser.add_argument("--length", type=int, default=40, help="steps in a block")
    parser.add_argument("--steps", type=int, default=24, help="steps to record")
    parser.add_argument("--seconds", type=float, default=450, help="begin no pair after this")
    args = parser.parse_args()
    chosen = [pair for pair in PAIRS if not args.only or pair.name in args.only]
    if not chosen:
        sys.exit(f"no such pair; known are {', '.join(pair.name for pair in PAIRS)}")
    device = "cuda" if torch.cuda.is_available() else "shadow"
    args.out.mkdir(parents=True, exist_ok=True)
    start, bare, rows = time.monotonic(), {}, []
    if device == "cuda":  # before CUPTI is attached: a process may stay slower after that
        for pair in chosen:
            bare[pair.name] = measure(pair.make(False), args.turns, args.length)
            print(f"{pair.name}: {bare[pair.name]}", flush=True)
    for pair in itertools.takewhile(lambda _: time.monotonic() - start < args.seconds, chosen):
        rows.append(compare(pair, bare.get(pair.name), args, device))
        show(rows[-1])
        report = {
            "device": torch.cuda.get_device_name() if device == "cuda" else "shadow",
            "torch": torch.__version__,
            "totals": totals(rows),
            "pairs": rows,
        }
        (args.out / "results.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(totals(rows)))


if __name__ == "__main__":
    main()
