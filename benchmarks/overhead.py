"""What recording costs: step time with and without syncscope, interleaved in one process.

Two loops: a launch-bound one (about 500 small kernels in 16 ms on an H200), the worst case
for a profiler, and a GPU-bound one. Host time drifts by 20 % within a minute on many
machines, so each block of a variant stands between two bare blocks, its ratio is taken
against the mean of those two, and the median of the ratios is reported. The variants that
attach CUPTI come last, because a process may stay slower after CUPTI was attached once.

A variant stops after its share of `--seconds`, with two blocks at least. Those that say what
syncscope costs, and what torch alone would, get a larger one.

    python benchmarks/overhead.py [--blocks 8] [--steps 24] [--seconds 170] [--json FILE]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import syncscope


class Block(nn.Module):
    """A transformer block with plain attention."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 8, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One pre-norm block, (batch, time, width) to the same."""
        normed = self.first(x)
        x = x + self.attention(normed, normed, normed, need_weights=False)[0]
        return x + self.feed(self.second(x))


def make_step(batch: int, time_steps: int, width: int) -> Callable[[], float]:
    """A training step of 8 blocks in bf16 autocast with AdamW and one `.item()`."""
    model = nn.Sequential(*(Block(width) for _ in range(8))).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(batch, time_steps, width, device="cuda")

    def step() -> float:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


@contextlib.contextmanager
def profiler(**options: bool) -> Iterator[None]:
    """torch.profiler with CUDA activity, and more as asked for."""
    activities = [torch.profiler.ProfilerActivity.CUDA]
    if options.pop("cpu", False):
        activities.append(torch.profiler.ProfilerActivity.CPU)
    os.environ["TEARDOWN_CUPTI"] = "1"  # else every later block would be slower
    with torch.profiler.profile(activities=activities, **options):
        yield
    del os.environ["TEARDOWN_CUPTI"]


@contextlib.contextmanager
def recording(**options: Any) -> Iterator[None]:
    """syncscope itself, into a folder that is thrown away."""
    with (
        tempfile.TemporaryDirectory() as folder,
        syncscope.record(Path(folder) / "run", device="cuda", **options),
    ):
        yield


class Idle(TorchDispatchMode):
    """Sees each operator and does nothing."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Carry the operator out."""
        return func(*args, **(kwargs or {}))


@contextlib.contextmanager
def sync_debug_mode() -> Iterator[None]:
    """What one writes by hand: torch's warnings, each with a formatted stack."""
    stacks: list[traceback.StackSummary] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_, **__: stacks.append(traceback.extract_stack())
        torch.cuda.set_sync_debug_mode("warn")
        yield
        torch.cuda.set_sync_debug_mode("default")


VARIANTS: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "bare": contextlib.nullcontext,
    "free collectors": lambda: recording(gpu_activity=False),
    "set_sync_debug_mode + extract_stack": sync_debug_mode,
    "TorchDispatchMode that does nothing": Idle,
    # The first third of a block, which is not timed, holds the warm-up and its detail steps.
    "detail auto, after its detail steps": lambda: recording(warmup=3),
    "torch.profiler CUDA": profiler,
    "torch.profiler CPU + CUDA": lambda: profiler(cpu=True),
    "torch.profiler CPU + CUDA with_stack": lambda: profiler(cpu=True, with_stack=True),
}


COMPARED = (
    "bare", "free collectors", "detail auto, after its detail steps", "torch.profiler CUDA",
)  # fmt: skip
WEIGHT = 4
"""How many times longer those are measured than the others."""


def time_block(step: Callable[[], float], steps: int) -> float:
    """Median seconds of a step after the first third, in which buffers are made.

    Every step ends in a readback, so host time is step time.
    """
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times[len(times) // 3 :])


def measure(
    step: Callable[[], float], variants: list[str], blocks: int, steps: int, seconds: float
) -> list[dict[str, object]]:
    """Step time of each variant and its ratio against the bare blocks around it.

    All may take `seconds`, but each gets two blocks in any case.
    """
    rows: list[dict[str, object]] = []
    weights = {name: WEIGHT if name in COMPARED else 1 for name in variants}
    for name in variants:
        ratios, times = [], []
        share = seconds * weights[name] / sum(weights.values())
        began = time.perf_counter()
        before = time_block(step, steps)
        while len(times) < blocks and (len(times) < 2 or time.perf_counter() - began < share):
            with VARIANTS[name]():
                times.append(time_block(step, steps))
            after = time_block(step, steps)
            ratios.append(2 * times[-1] / (before + after))
            before = after
        ratios.sort()
        rows.append(
            {
                "variant": name,
                "blocks": len(times),
                "step_ms": round(1e3 * statistics.median(times), 3),
                "ratio": round(statistics.median(ratios), 3),
                "low": round(ratios[len(ratios) // 4], 3),
                "high": round(ratios[-1 - len(ratios) // 4], 3),
            }
        )
    return rows


def main() -> None:
    """Measure both regimes and print a table each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seconds", type=float, default=170.0, help="for all variants together")
    parser.add_argument("--only", choices=VARIANTS, nargs="*", default=list(VARIANTS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("benchmarks/overhead.py needs a GPU: on the shadow GPU time is simulated")
    report: dict[str, object] = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    for regime, shape in {"launch-bound": (4, 256, 512), "GPU-bound": (32, 512, 1024)}.items():
        step = make_step(*shape)
        for _ in range(20):
            step()
        rows = measure(step, args.only, args.blocks, args.steps, args.seconds / 2)
        report[regime] = rows
        print(f"\n{regime}")
        for row in rows:
            print("{variant:40} {step_ms:8} ms  x{ratio:<6} [{low} .. {high}]".format(**row))
    if args.json:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
