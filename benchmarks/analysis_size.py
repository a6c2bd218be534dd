"""How long the analysis of a large recording takes, from its folder to summary.json.

    python benchmarks/analysis_size.py [--activities 10000000] [--runs 3] [--keep FOLDER]

The recording is made up, so that all parts of the analysis have work: kernels of 2 to 12 us,
one each 10 us, on two streams, launched by the main thread and by autograd's; ten lines a step
that read a value back or upload a batch, each with its stack; steps, collections, counters.
It is made before anything is measured; `--keep` keeps it, and takes it from there the next
time. Each run is a process of its own, and time counts from after its imports, wall and CPU;
memory is the peak of the process. Prints one JSON object with the medians.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from analysis_speed import MEASURED, run
from replay_speed import MANIFEST, tables

from syncscope.recording.manifest import CollectorStatus, Device, Thread, Window, write_manifest
from syncscope.recording.writer import arrow_schema, stream_to_parquet

PIECE = 1_000_000
"""Activities that are made at a time, and then repeated."""

ROWS = 100_000
"""Rows of a batch: about what the writer finds each second."""

EVERY, STEP = 100, 1000
"""Activities from wait to wait, and in a step."""

LINES = STEP // EVERY
PAUSE_NS = 5_000_000
TIMES = ("time_ns", "start_ns", "end_ns")
AUTOGRAD = 2

WORK = MEASURED.format(
    imports="from pathlib import Path\nimport tempfile, syncscope\n"
    "from syncscope.analysis.pipeline import analyze\n"
    "from syncscope.recording.reader import Recording\n"
    "from syncscope.reports.json_report import summary_json",
    work="with tempfile.TemporaryDirectory() as folder:\n"
    "    summary = analyze(Recording(sys.argv[1])).summary\n"
    "    (Path(folder) / 'summary.json').write_bytes(summary_json(summary))",
)


def made_up(count: int) -> dict[str, pd.DataFrame]:
    """All tables of a recording of `count` activities, a whole number of steps."""
    activity, runtime = tables(count, EVERY)
    number = np.arange(count)
    waits = runtime[runtime["kind"] == "sync"].sort_values("correlation_id", ignore_index=True)
    reads = np.flatnonzero(number % EVERY == EVERY - 1)
    starts = runtime.set_index("correlation_id")["start_ns"].loc[reads + 1].to_numpy()
    made = {
        "activity": _activity(activity, number),
        "runtime": _runtime(runtime, count),
        **_hooks(starts, waits["end_ns"].to_numpy() + 1_000, runtime),
        **_code(),
    }
    middle = made["steps"]["time_ns"].iloc[len(made["steps"]) // 2]
    return {name: _paused(table, middle) for name, table in made.items()}


def _paused(table: pd.DataFrame, at_ns: int) -> pd.DataFrame:
    """The table with a pause of the host after a moment, which makes that step odd."""
    times = table.columns.intersection(TIMES)
    return table.assign(**{name: table[name] + PAUSE_NS * (table[name] > at_ns) for name in times})


def _activity(activity: pd.DataFrame, number: np.ndarray) -> pd.DataFrame:
    """With a second stream, whose kernels wait for nothing but their launch; and uploads."""
    other = number % 10 == 3
    length = activity["end_ns"] - activity["start_ns"]
    start = activity["start_ns"].where(~other, activity["start_ns"] - 3_000)
    copies = activity["direction"] != ""
    uploads = number % STEP == EVERY - 1
    return activity.assign(
        stream=np.where(other, 13, 7),
        start_ns=start,
        end_ns=start + length,
        kind=np.where(copies, "memcpy", "kernel"),
        name=np.where(copies, "Memcpy", np.array([f"kernel_{n}<float>" for n in range(24)])[
            number * 7 % 24
        ]),
        direction=np.where(uploads, "h2d", activity["direction"]),
        memory=np.where(uploads, "pageable", activity["memory"]),
        size_bytes=np.where(uploads, 1 << 16, np.where(copies, 4, -1)),
    ).sort_values("start_ns", kind="stable")  # fmt: skip


def _runtime(runtime: pd.DataFrame, count: int) -> pd.DataFrame:
    """The launches of the middle of each step come from autograd's thread."""
    place = (runtime["correlation_id"] - 1) % count % STEP
    backward = place.between(STEP // 2, STEP * 8 // 10) & (runtime["kind"] == "launch")
    return runtime.assign(thread_id=np.where(backward, AUTOGRAD, 0))


def _hooks(starts: np.ndarray, ends: np.ndarray, runtime: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Warnings and uploads with their stacks, steps, collections and the driver's counters."""
    line = np.arange(len(starts)) % LINES
    uploads, last = line == 0, line == LINES - 1
    launches = runtime.set_index("correlation_id")["start_ns"]
    first = launches.loc[np.arange(STEP // 2 + 1, len(starts) * EVERY, STEP)].to_numpy()
    backward_end = ends[line == LINES * 8 // 10 - 1] + 1_000
    base = {"thread_id": 0, "op": "", "explicit": False, "cause": "", "kind": "sync"}
    warnings = pd.DataFrame(
        {"start_ns": ends, "end_ns": ends, "stack_id": line, "source": "warning", **base}
    )
    scopes = pd.DataFrame(
        {"start_ns": first, "end_ns": backward_end, "stack_id": LINES, "source": "scope", **base}
    )
    transfers = pd.DataFrame(
        {
            "thread_id": 0, "start_ns": starts - 500, "end_ns": ends + 2_000, "stack_id": line,
            "op": "Tensor.to", "direction": "h2d", "size_bytes": 1 << 16, "memory": "pageable",
            "non_blocking": False, "device": 0, "origin_stack_id": -1, "cause": "",
        }
    )  # fmt: skip
    times = np.arange(0, ends[-1], 100_000_000)
    return {
        "blocking": pd.concat([warnings, scopes]).sort_values("start_ns"),
        "transfers": transfers[uploads],
        "steps": pd.DataFrame(
            {"time_ns": ends[last] + 3_000, "thread_id": 0, "source": "api", "name": ""}
        ),
        "host": pd.DataFrame(
            {
                "thread_id": 0, "start_ns": starts[last][::10] - 50_000,
                "end_ns": starts[last][::10] - 1_000, "kind": "gc", "name": "generation 0",
                "stack_id": -1,
            }
        ),
        "nvml": pd.DataFrame(
            {
                "time_ns": times, "device": 0, "gpu_percent": 70.0, "memory_used_bytes": 1 << 34,
                "sm_clock_mhz": 1980.0, "pcie_rx_bytes_per_s": 1e6, "pcie_tx_bytes_per_s": 1e6,
            }
        ),
    }  # fmt: skip


def _code() -> dict[str, pd.DataFrame]:
    """A frame and a stack for each line."""
    texts = ["batch.to(device)", *(f"loss_{n}.item()" for n in range(1, LINES)), "loss.backward()"]
    numbers = np.arange(len(texts))
    frames = pd.DataFrame(
        {
            "frame_id": numbers, "file": "train.py", "function": "train", "line": numbers + 10,
            "end_line": numbers + 10, "column": 9, "end_column": [9 + len(text) for text in texts],
            "expression": texts, "owner": "user",
        }
    )  # fmt: skip
    stacks = pd.DataFrame({"stack_id": numbers, "frame_ids": [[number] for number in numbers]})
    return {"frames": frames, "stacks": stacks}


def write(folder: Path, activities: int) -> None:
    """Write a recording with as many activities, in whole pieces."""
    piece = made_up(min(activities, PIECE))
    length_ns = int(piece["steps"]["time_ns"].max())
    pieces = -(-activities // PIECE)
    (folder / "rank-0").mkdir(parents=True)
    for name, table in piece.items():
        repeated = 1 if name in ("frames", "stacks") else pieces
        schema, path = arrow_schema(name), folder / "rank-0" / f"{name}.arrows"
        with pa.ipc.new_stream(path, schema) as stream:
            for number in range(repeated):
                later = _later(table, number, length_ns)
                arrow = pa.Table.from_pandas(later, schema, preserve_index=False)
                stream.write_table(arrow, max_chunksize=ROWS)
        stream_to_parquet(path)
    manifest = dataclasses.replace(
        MANIFEST,
        simulated=False,
        argv=("train.py",),
        versions={"torch": "2.11.0"},
        devices=(Device(0, "NVIDIA H200"),),
        collectors=(CollectorStatus("activity", "on"),),
        threads=(Thread(0, "MainThread"), Thread(AUTOGRAD, "native thread 2")),
        windows=(Window(0, length_ns * pieces),),
    )
    write_manifest(folder, manifest)


def _later(table: pd.DataFrame, number: int, length_ns: int) -> pd.DataFrame:
    shifts = {**dict.fromkeys(TIMES, length_ns), "correlation_id": 2 * PIECE}
    moved = {name: table[name] + number * by for name, by in shifts.items() if name in table}
    return table.assign(**moved)


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--activities", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--keep", type=Path, help="folder of the recording")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.keep or Path(scratch) / "run"
        if not folder.exists():
            write(folder, args.activities)
        rounds = [run(sys.executable, WORK, folder) for _ in range(args.runs)]
    medians = {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
    rows = pq.read_metadata(folder / "rank-0" / "activity.parquet").num_rows
    print(json.dumps({"activities": rows, **{key: round(v, 2) for key, v in medians.items()}}))


if __name__ == "__main__":
    main()
