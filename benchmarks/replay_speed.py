"""How long one what-if takes: a recording of a given size is replayed without its waits.

    python benchmarks/replay_speed.py [--activities 1000000] [--every 100]

The recording is made up: a host that launches a kernel of 2 to 12 us each 10 us and reads a
value back every so often. Prints seconds for making the program and for one what-if.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import pandas as pd

from syncscope.analysis.replay_program import program_of
from syncscope.recording.manifest import Manifest

MANIFEST = Manifest(
    run_id="made up", argv=(), simulated=True, imported=False, origin_unix_ns=0,
    versions={}, devices=(), collectors=(), threads=(), state="complete",
)  # fmt: skip


def tables(count: int, every: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Activity and runtime calls; every `every`-th activity is a readback with its wait. Texts
    are categories, as those of a recording are."""
    length = np.random.default_rng(0).integers(2_000, 12_000, count)
    number = np.arange(count)
    reads = number % every == every - 1
    arrival = 10_000 * number + 5_000
    total = np.cumsum(length)
    end = np.maximum.accumulate(arrival - total + length) + total
    lag = np.maximum.accumulate(np.where(reads, end - arrival, 0))  # the host waited so long
    start = 10_000 * number + np.concatenate(([0], lag[:-1]))
    end = np.maximum.accumulate(start + 5_000 - total + length) + total
    activity = pd.DataFrame(
        {
            "device": 0, "stream": 7, "start_ns": end - length, "end_ns": end,
            "direction": np.where(reads, "d2h", ""), "memory": np.where(reads, "pinned", ""),
            "size_bytes": 4, "correlation_id": number + 1,
        }
    )  # fmt: skip
    launches = pd.DataFrame(
        {
            "thread_id": 0, "start_ns": start, "end_ns": start + 3_000,
            "name": np.where(reads, "cudaMemcpyAsync", "cudaLaunchKernel"),
            "kind": np.where(reads, "memcpy", "launch"), "correlation_id": number + 1,
        }
    )  # fmt: skip
    waits = launches[reads].assign(
        start_ns=start[reads] + 3_500, end_ns=np.maximum(start[reads] + 4_000, end[reads] + 1_000),
        name="cudaStreamSynchronize", kind="sync", correlation_id=count + number[reads] + 1,
    )  # fmt: skip
    runtime = pd.concat([launches, waits], ignore_index=True).sort_values("start_ns")
    return (
        activity.astype(dict.fromkeys(("direction", "memory"), "category")),
        runtime.astype(dict.fromkeys(("name", "kind"), "category")),
    )


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--activities", type=int, default=1_000_000)
    parser.add_argument("--every", type=int, default=100, help="activities from wait to wait")
    args = parser.parse_args()
    activity, runtime = tables(args.activities, args.every)
    end = int(activity["end_ns"].max())
    windows = np.array([0]), np.array([end])
    steps = pd.DataFrame({"index": [0], "start_ns": [0], "end_ns": [end]})
    start = time.perf_counter()
    program = program_of(activity, runtime, windows, steps, MANIFEST, 0)
    assert program is not None
    made = time.perf_counter()
    gone, twice = np.ones(len(program.waits.call), dtype=bool), program.work.length_ns * 2
    program.replay(gone, twice)
    replayed = time.perf_counter()
    report = {
        "activities": args.activities,
        "waits": len(program.waits.call),
        "program_s": round(made - start, 3),
        "what_if_s": round(replayed - made, 3),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
