"""What ran on the devices, as a program that can be run again: FIFO queues of work.

An activity starts when its launch has arrived, its queue is free, and what it was ordered
behind is done. What the recording shows beyond that (another process on the GPU, a kernel
that found no room) is kept as part of the activity's own length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints
from syncscope.analysis.windows import int64

NEVER = -(1 << 60)
"""Earlier than everything."""

USUAL_NS = 20_000
"""Latencies of launches, of queues and of the clocks differ by less than this."""

COPIES = ("h2d", "d2h")


@dataclass(frozen=True, slots=True)
class Work:
    """The activities, by queue (a stream of a device) and in the order of each queue.

    Activity i starts at max(arrival_ns, end of i - 1 of its queue + gap_ns, end of
    after + after_gap_ns) and runs for length_ns. `launch_ns` is when the host called, on
    `lane`; it never falls within a queue. `after` is -1 where nothing else has to be done
    before. `row` and `call` are positions in the tables of activities and of runtime calls
    (call: -1 where the launch was not recorded). `start_ns` and `end_ns` are as recorded.
    """

    row: Ints
    call: Ints
    queue: Ints
    device: Ints
    lane: Ints
    launch_ns: Ints
    arrival_ns: Ints
    gap_ns: Ints
    length_ns: Ints
    after: Ints
    after_gap_ns: Ints
    start_ns: Ints
    end_ns: Ints

    @property
    def queues(self) -> int:
        return int(self.queue[-1]) + 1 if len(self.queue) else 0

    def bounds(self) -> Ints:
        """Where each queue begins, and the end of the last one."""
        return np.searchsorted(self.queue, np.arange(self.queues + 1))


@dataclass(frozen=True, slots=True)
class _Queued:
    """The activities in the order of their queues, with the launch of each."""

    row: Ints
    call: Ints
    queue: Ints
    lane: Ints
    launch: Ints
    returned: Ints
    start: Ints
    end: Ints
    before: Ints
    """When the queue had done what came before; NEVER for its first activity."""


def work_of(activity: pd.DataFrame, runtime: pd.DataFrame, lane: Ints, copy_waits: Bools) -> Work:
    """The program of the devices. `lane` is the host lane of each runtime call.

    `copy_waits` marks the runtime calls that last until their own copy is done: what they
    copy arrives as they begin, all else as its call returns. Latency and the gap between
    queued activities are means over the recording, of what is usual. O(n log n).
    """
    queued = _in_queues(activity, runtime, lane)
    inside = (queued.call >= 0) & copy_waits[queued.call] if len(copy_waits) else queued.call >= 0
    base = np.where(inside, queued.launch, queued.returned)
    moves = activity["direction"].isin(COPIES).to_numpy()[queued.row]
    group = np.where(inside, 2, np.where(moves, 1, 0))
    device = int64(activity, "device")[queued.row]
    after = _ordered_after(queued, activity, runtime, lane, device)
    arrival, gap = _latencies(queued, base, group, after < 0)
    waited = np.where(after >= 0, queued.start - queued.end[after], 0)
    after_gap = np.where(waited < USUAL_NS, waited, 0)
    behind = np.where(after >= 0, queued.end[after] + after_gap, NEVER)
    early = arrival - queued.start > USUAL_NS
    arrival = np.where(early, queued.start, arrival)
    model = np.maximum(np.maximum(arrival, queued.before + gap), behind)
    held = queued.start - model
    held = np.where(np.abs(held) > USUAL_NS, held, 0)
    return Work(
        row=queued.row, call=queued.call, queue=queued.queue, device=device, lane=queued.lane,
        launch_ns=queued.launch, arrival_ns=arrival, gap_ns=gap,
        length_ns=np.maximum(queued.end - queued.start + held, 0),
        after=after, after_gap_ns=after_gap, start_ns=queued.start, end_ns=queued.end,
    )  # fmt: skip


def _in_queues(activity: pd.DataFrame, runtime: pd.DataFrame, lane: Ints) -> _Queued:
    """Activities by queue and start; where they overlap in a queue, the rest of the later.

    Where a launch was not recorded, it came before the next one of its queue, and before the
    activity began: just then, if that was not queued behind another.
    """
    streams = activity.groupby(["device", "stream"], sort=True)
    queue = np.asarray(streams.ngroup(), dtype=np.int64)
    order = np.lexsort((int64(activity, "end_ns"), int64(activity, "start_ns"), queue))
    queue = queue[order]
    start, end = int64(activity, "start_ns")[order], int64(activity, "end_ns")[order]
    end = running_max(np.maximum(end, start), queue)
    before = _previous(end, queue)
    start = np.maximum(start, before)
    call = _launches(int64(activity, "correlation_id")[order], runtime)
    found = call >= 0
    launch = start.copy()
    launch[found] = int64(runtime, "start_ns")[call[found]]
    later = (queue.max(initial=0) - queue)[::-1]
    launch = np.where(found, launch, -running_max(-launch[::-1], later)[::-1])
    returned = np.where(start - before > USUAL_NS, start, launch)
    returned[found] = int64(runtime, "end_ns")[call[found]]
    lanes = np.zeros(len(order), dtype=np.int64)
    lanes[found] = lane[call[found]]
    launch = running_max(launch, queue)
    return _Queued(order, call, queue, lanes, launch, returned, start, end, before)


def _launches(correlation: Ints, runtime: pd.DataFrame) -> Ints:
    """Position of the runtime call that launched each activity; -1 where there is none."""
    known = int64(runtime, "correlation_id")
    launching = runtime["kind"].isin(["launch", "memcpy", "memset", "other"]).to_numpy()
    index = np.flatnonzero(launching & (known > 0))
    index = index[np.argsort(known[index], kind="stable")]
    place = np.searchsorted(known[index], correlation)
    call = np.append(index, -1)[place]
    return np.where((call >= 0) & (known[call] == correlation), call, -1) if len(known) else call


def running_max(values: Ints, group: Ints) -> Ints:
    """The largest value so far in each group; groups are consecutive and numbered upwards."""
    if not len(values):
        return values
    low = int(values.min())
    span = int(values.max()) - low + 1
    if span * (int(group[-1]) + 1) < 1 << 62:
        return np.maximum.accumulate(values - low + group * span) - group * span + low
    return pd.Series(values).groupby(group).cummax().to_numpy(dtype=np.int64)


def _previous(values: Ints, group: Ints) -> Ints:
    """The value before each in its group; NEVER for the first."""
    before = np.concatenate(([NEVER], values[:-1])).astype(np.int64)[: len(values)]
    before[1:][group[1:] != group[:-1]] = NEVER
    return before


def _latencies(queued: _Queued, base: Ints, group: Ints, free: Bools) -> tuple[Ints, Ints]:
    """When each launch arrives, and how long its queue takes from one activity to the next.

    Learnt from those that are `free` of other queues.
    """
    arrival, gap = queued.start.copy(), np.zeros(len(base), dtype=np.int64)
    found = queued.call >= 0
    for number in range(3):
        mine = found & (group == number)
        idle = mine & free & (queued.before < queued.launch)
        latency = _usual(queued.start[idle] - base[idle])
        arrival[mine] = base[mine] + latency
        busy = mine & free & (queued.before > base + max(latency, 0) + USUAL_NS // 4)
        between = queued.start[busy] - queued.before[busy]
        gap[mine] = _usual(between)
    return arrival, gap


def _usual(values: Ints) -> int:
    """The mean of the values close to the median; 0 where there are none."""
    if not len(values):
        return 0
    near = values[np.abs(values - np.median(values)) <= USUAL_NS]
    return round(float(near.mean())) if len(near) else int(np.median(values))


def _ordered_after(
    queued: _Queued, activity: pd.DataFrame, runtime: pd.DataFrame, lane: Ints, device: Ints
) -> Ints:
    """The activity of another queue that each has to wait for, or -1."""
    after = np.full(len(queued.row), -1, dtype=np.int64)
    if not len(after) or queued.queue[-1] == 0:
        return after
    direction = activity["direction"].to_numpy(dtype=object)[queued.row]
    for key in COPIES:
        for number in np.unique(device):
            _one_engine(after, queued, np.flatnonzero((direction == key) & (device == number)))
    for number in np.unique(lane):
        _events(after, queued, runtime[lane == number], int(number))
    return np.where(queued.launch[after] < queued.launch, after, -1)


def _one_engine(after: Ints, queued: _Queued, copies: Ints) -> None:
    """Copies of one direction share an engine where the recording shows none overlapping."""
    copies = copies[np.argsort(queued.start[copies], kind="stable")]
    first, second = copies[:-1], copies[1:]
    other = (queued.queue[first] != queued.queue[second]) & (
        queued.end[first] <= queued.start[second]
    )
    after[second[other]] = first[other]


def _events(after: Ints, queued: _Queued, calls: pd.DataFrame, lane: int) -> None:
    """cudaStreamWaitEvent: what is launched next waits for what was launched before the
    event was recorded. Calls do not name their stream and event, so this is their order on
    one host lane; what the recording contradicts is left out.
    """
    names = calls["name"]
    waits = int64(calls, "start_ns")[names.str.contains("StreamWaitEvent").to_numpy()]
    records = int64(calls, "start_ns")[names.str.contains("EventRecord").to_numpy()]
    waits, records = np.sort(waits), np.sort(records)
    mine = np.flatnonzero(queued.lane == lane)
    mine = mine[np.argsort(queued.launch[mine], kind="stable")]
    if not len(mine) or not len(records):
        return
    launch = queued.launch[mine]
    record = np.searchsorted(records, waits) - 1
    source = np.searchsorted(launch, records[record]) - 1
    target = np.searchsorted(launch, waits)
    known = (record >= 0) & (source >= 0) & (target < len(mine))
    source, target = mine[source[known]], mine[target[known]]
    proven = (queued.queue[source] != queued.queue[target]) & (
        queued.end[source] <= queued.start[target]
    )
    after[target[proven]] = source[proven]
