"""Stress a recording, on a real GPU or on the shadow GPU; print one line of figures as JSON.

    python tests/gpu/stress.py threads --seconds 60
    python tests/gpu/stress.py cycles --count 100
    python tests/gpu/stress.py windows --count 10000
    python tests/gpu/stress.py printing

Exits with 1 and says why when something is lost, left behind, or grows.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import gc
import json
import math
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import syncscope

GROWTH_BYTES = 96 << 20
"""How much memory a run may gain after its first fifth: lists that a flush empties."""


def rss_bytes() -> int:
    """Memory that the process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096


def calls(run: syncscope.Run) -> dict[str, int]:
    """Expression -> occurrences, of all sites but those at which memory is allocated."""
    found: collections.Counter[str] = collections.Counter()
    for site in run.summary().sites:
        if site.kind != "allocator":
            found[site.expression] += site.count
    return dict(found)


def threads(folder: Path, device: str, seconds: float, count: int) -> dict[str, object]:
    """Threads that synchronize at random: each call is found at its line, none at another."""
    made: collections.Counter[str] = collections.Counter()
    lock = threading.Lock()

    def work(seed: int, until: float) -> None:
        chooser = random.Random(seed)
        x = torch.randn(256, device="cuda")
        mine: collections.Counter[str] = collections.Counter()
        while time.monotonic() < until:
            kind = chooser.choice(("item", "nonzero", "cpu", "synchronize"))
            mine[kind] += 1
            if kind == "item":
                x[0].item()
            elif kind == "nonzero":
                x.nonzero()
            elif kind == "cpu":
                x.cpu()
            else:
                torch.cuda.synchronize()
            time.sleep(chooser.random() * 0.004)
        with lock:
            made.update(mine)

    with syncscope.record(folder / "threads", device=device, seconds=math.inf) as run:
        torch.ones(1, device="cuda")
        until = time.monotonic() + seconds
        workers = [threading.Thread(target=work, args=(seed, until)) for seed in range(count)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    lines = {"x[0].item()": "item", "x.nonzero()": "nonzero", "x.cpu()": "cpu"}
    lines["torch.cuda.synchronize()"] = "synchronize"
    found = {lines.get(line, line): count for line, count in calls(run).items()}
    assert found == dict(made), (made, found)
    unattributed = run.summary().coverage.unattributed
    return {"made": dict(made), "found": found, "unattributed": unattributed}


def cycles(folder: Path, device: str, seconds: float, count: int) -> dict[str, object]:
    """Recordings one after the other in one process: all whole, no thread and no memory stays."""
    sizes = []
    running = threading.active_count()
    item = vars(torch.Tensor).get("item")
    for number in range(count):
        with syncscope.record(folder / f"{number}", device=device) as run:
            for _ in range(3):
                torch.ones(8, device="cuda").sum().item()
        if number % max(1, count // 5) == 0:
            assert calls(run) == {'torch.ones(8, device="cuda").sum().item()': 3}, calls(run)
            gc.collect()
            sizes.append(rss_bytes())
    assert threading.active_count() <= running + 1, threading.enumerate()  # autograd's, kineto's
    assert vars(torch.Tensor).get("item") is item
    assert sizes[-1] - sizes[1] < GROWTH_BYTES, sizes
    return {"cycles": count, "rss_mb": [size >> 20 for size in sizes]}


def windows(folder: Path, device: str, seconds: float, count: int) -> dict[str, object]:
    """Many steps, recorded in windows of 5 every 200: memory stays flat."""
    sizes = []
    began = time.perf_counter()
    with syncscope.record(folder / "long", device=device, warmup=3, steps=5, every=200) as run:
        x = torch.ones(64, device="cuda")
        for step in range(count):
            x = (x * 1.0).relu()
            x[0].item()
            syncscope.step()
            if step % max(1, count // 10) == count // 20:
                sizes.append(rss_bytes())
    seconds = time.perf_counter() - began
    manifest = run.analysis.manifest
    expected = len(range(3, count + 1, 200))
    assert len(manifest.windows) == expected, (len(manifest.windows), expected)
    items = sum(site.count for site in run.summary().sites if "item" in site.expression)
    assert items == 5 * expected - max(0, 3 + 200 * (expected - 1) + 5 - count), items
    assert sizes[-1] - sizes[1] < GROWTH_BYTES, sizes
    return {
        "steps": count, "windows": expected, "seconds": round(seconds, 1),
        "rss_mb": [size >> 20 for size in sizes], "overhead": manifest.overhead,
    }  # fmt: skip


@contextlib.contextmanager
def torch_profiler() -> Iterator[None]:
    """torch.profiler by itself, and CUPTI detached after it."""
    os.environ["TEARDOWN_CUPTI"] = "1"
    try:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]):
            yield
    finally:
        del os.environ["TEARDOWN_CUPTI"]
    for _ in range(5):  # kineto detaches in a CUDA call, once a thread of its own is ready
        time.sleep(0.01)
        torch.cuda.current_stream().query()


def printing(folder: Path, device: str, seconds: float, count: int) -> dict[str, object]:
    """A print of a large tensor, thousands of readbacks for one line, costs less than twice.

    torch.profiler by itself says how much of that is CUPTI's price.
    """

    def timed(around: Callable[[], contextlib.AbstractContextManager[object]]) -> float:
        with around():
            torch.ones(1, device="cuda")
            x = torch.randn(count, device="cuda")
            torch.set_printoptions(profile="full")
            began = time.perf_counter()
            str(x)
            return time.perf_counter() - began

    fresh = iter(range(1000))
    variants: dict[str, Callable[[], contextlib.AbstractContextManager[object]]] = {
        "torch.profiler": torch_profiler,
        "free": lambda: syncscope.record(
            folder / f"p{next(fresh)}", device=device, gpu_activity=False
        ),
        "full": lambda: syncscope.record(folder / f"p{next(fresh)}", device=device),
    }
    ratios: dict[str, float] = {}
    for name, variant in variants.items():
        pairs = [(timed(contextlib.nullcontext), timed(variant)) for _ in range(7)]
        ratios[name] = round(statistics.median(ours / bare for bare, ours in pairs[1:]), 3)
    assert max(ratios.values()) < 2, ratios
    return {"elements": count, **ratios}


JOBS: dict[str, tuple[Callable[[Path, str, float, int], dict[str, object]], int]] = {
    "threads": (threads, 8),
    "cycles": (cycles, 100),
    "windows": (windows, 10_000),
    "printing": (printing, 2000),
}


def main() -> int:
    """Run one job; 0 if it kept its promises."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("job", choices=JOBS)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--count", type=int)
    args = parser.parse_args()
    job, count = JOBS[args.job]
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = job(Path(folder), args.device, args.seconds, args.count or count)
        except AssertionError as broken:
            print(f"{args.job}: {broken}", file=sys.stderr)
            return 1
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
