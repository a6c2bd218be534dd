"""A recording of any size made from a real one: its tables repeated in time, not quite alike.

`python tests/big_recording.py SOURCE TARGET ACTIVITIES` writes it as a folder.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from syncscope.recording.manifest import Window, write_manifest
from syncscope.recording.reader import Recording
from syncscope.recording.tables import TABLES
from syncscope.recording.writer import arrow_schema

_TIMES = ("time_ns", "start_ns", "end_ns")
_TICK_NS = 32
"""Times of the GPU's clock are multiples of this."""


def repeated(recording: Recording, target: Path, activities: int) -> Path:
    """Write at least so many activities, in as many whole repetitions of the window as it takes.

    Activities begin and end by up to 6 % of their length inwards, and repetitions move by up
    to 1 ms, so that the file does not compress better than a real one. What lies outside the
    window is left out.
    """
    (window,) = recording.manifest.windows
    length_ns = window.end_ns - window.start_ns + 1_000_000
    inside = {name: _within(recording.table(name), window) for name in TABLES}
    times = -(-activities // len(inside["activity"]))
    random = np.random.default_rng(7)
    shifts = (
        np.arange(times) * length_ns + random.integers(0, 1_000_000 // _TICK_NS, times) * _TICK_NS
    )
    (target / "rank-0").mkdir(parents=True)
    for name, table in inside.items():
        whole = table if name in ("frames", "stacks", "unmodelled") else _tiled(table, shifts)
        if name == "activity":
            whole = _varied(whole, random)
        arrow = pa.Table.from_pandas(whole, schema=arrow_schema(name), preserve_index=False)
        pq.write_table(arrow, target / "rank-0" / f"{name}.parquet")
    end_ns = int(window.start_ns + shifts[-1] + length_ns)
    manifest = replace(recording.manifest, windows=(Window(window.start_ns, end_ns),), sources={})
    write_manifest(target, manifest)
    return target


def _within(table: pd.DataFrame, window: Window) -> pd.DataFrame:
    for name in ("start_ns", "time_ns"):
        if name in table:
            return table[table[name].between(window.start_ns, window.end_ns)]
    return table


def _tiled(table: pd.DataFrame, shifts: np.ndarray) -> pd.DataFrame:
    """The table once for each shift; a correlation keeps pointing into its own repetition."""
    whole = pd.concat([table] * len(shifts), ignore_index=True)
    number = np.repeat(np.arange(len(shifts)), len(table))
    for name in set(_TIMES) & set(table.columns):
        whole[name] += shifts[number]
    if "correlation_id" in table:
        whole["correlation_id"] += 10_000_000 * number * (whole["correlation_id"] >= 0)
    return whole


def _varied(activity: pd.DataFrame, random: np.random.Generator) -> pd.DataFrame:
    """Each activity within its old bounds, a little later and shorter: order is kept."""
    ticks = ((activity["end_ns"] - activity["start_ns"]) // _TICK_NS).to_numpy()
    later, shorter = (random.integers(0, 1 + ticks // 16) * _TICK_NS for _ in range(2))
    return activity.assign(
        start_ns=activity["start_ns"] + later, end_ns=activity["end_ns"] - shorter
    )


if __name__ == "__main__":
    source, folder, count = sys.argv[1:]
    print(repeated(Recording(source), Path(folder), int(count)))
