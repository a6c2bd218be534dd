"""Where the events of an analysis go in a trace viewer: a process for the host, one a device.

A track is what the trace-event format calls a thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from syncscope.analysis.result import Analysis
from syncscope.reports.sites import DIRECTIONS
from syncscope.reports.visible_text import visible

Integers = npt.NDArray[np.int64]

HOST = 1
FIRST_GPU = 2
_COPIES = DIRECTIONS | {"d2d": "within the GPU", "p2p": "between GPUs"}


@dataclass
class Tracks:
    """Numbers for tracks, in the order in which they are first asked for.

    They are distinct over all processes: trace viewers may know a thread by its number alone.
    """

    numbers: dict[tuple[int, str], int] = field(default_factory=dict)

    def number(self, process: int, name: str) -> int:
        """The track of this name in a process."""
        return self.numbers.setdefault((process, name), len(self.numbers) + 1)

    def of_rows(
        self, table: pd.DataFrame, by: list[str], place: Callable[..., tuple[int, str]]
    ) -> Integers:
        """The track of each row of a table that is sorted by start.

        `place` says the process and the name from the values of the columns `by`. Events of
        one track have to nest. Where events of one name overlap, further tracks "name (2)"
        and so on take what does not fit.
        """
        group = table.groupby(by, sort=False).ngroup().to_numpy()
        places: dict[tuple[int, str], list[int]] = {}
        for number, key in enumerate(table[by].drop_duplicates().itertuples(index=False)):
            places.setdefault(place(*key), []).append(number)
        found = np.zeros(len(table), dtype=np.int64)
        starts, ends = table["start_ns"].to_numpy(), table["end_ns"].to_numpy()
        for process, name in sorted(places):
            rows = np.flatnonzero(np.isin(group, places[process, name]))
            lanes = lanes_of(starts[rows], ends[rows])
            labels = [name, *(f"{name} ({lane + 1})" for lane in range(1, int(lanes.max()) + 1))]
            numbers = [self.number(process, label) for label in labels]
            found[rows] = np.array(numbers, dtype=np.int64)[lanes]
        return found


def lanes_of(starts: Integers, ends: Integers) -> Integers:
    """For events sorted by start, the first lane in which the last event is over."""
    lanes = np.zeros(len(starts), dtype=np.int64)
    if not (starts[1:] < np.maximum.accumulate(ends)[:-1]).any():
        return lanes
    over: list[int] = []
    for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
        lane = next((number for number, time in enumerate(over) if time <= start), len(over))
        over[lane : lane + 1] = [end]
        lanes[row] = lane
    return lanes


def call_tracks(analysis: Analysis, tracks: Tracks) -> Integers:
    """The track of each row of `calls`: its thread's."""
    names = _threads(analysis)
    return tracks.of_rows(analysis.calls, ["thread_id"], lambda thread: (HOST, names[int(thread)]))


def host_tracks(analysis: Analysis, tracks: Tracks) -> Integers:
    """The track of each row of `host`: one beside its thread's."""
    names = _threads(analysis)
    return tracks.of_rows(
        analysis.host,
        ["thread_id"],
        lambda thread: (HOST, f"{names[int(thread)]}: collections and input"),
    )


def gap_tracks(gaps: pd.DataFrame, tracks: Tracks) -> Integers:
    """The track of each row of `gaps`: one for each device."""
    return tracks.of_rows(gaps, ["device"], lambda device: (FIRST_GPU + int(device), "idle"))


def activity_tracks(activity: pd.DataFrame, tracks: Tracks) -> Integers:
    """The track of each row of `activity`: a copy engine's, or that of its stream."""

    def place(device: int, kind: str, direction: str, stream: int) -> tuple[int, str]:
        copies = f"copies {_COPIES.get(direction, 'of unknown direction')}"
        return FIRST_GPU + int(device), copies if kind == "memcpy" else f"stream {stream}"

    return tracks.of_rows(activity, ["device", "kind", "direction", "stream"], place)


def _threads(analysis: Analysis) -> dict[int, str]:
    """Names of all threads; those without one are numbered."""
    used = {*analysis.calls["thread_id"].unique(), *analysis.host["thread_id"].unique()}
    named = {thread.id: visible(thread.name, 60) for thread in analysis.manifest.threads}
    return {int(thread): f"thread {thread}" for thread in used} | named
