"""What ran on the devices, as a program that can be run again: FIFO queues of work.

An activity starts when its launch has arrived, its queue is free, and what it was ordered
behind is done. What the recording shows beyond that (another process on the GPU, a kernel
that found no room) is kept as part of the activity's own length.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints, grouped
from syncscope.analysis.launches import Launches
from syncscope.analysis.texts import is_any, matches
from syncscope.analysis.windows import int64

NEVER = -(1 << 60)
"""Earlier than everything."""

USUAL_NS = 20_000
"""Latencies of launches, of queues and of the clocks differ by less than this."""

COPIES = ("h2d", "d2h")

Numbers: TypeAlias = npt.NDArray[np.int32]
"""Positions and small numbers: half the memory, where there is one for each activity."""


@dataclass(frozen=True, slots=True)
class Work:
    """The activities, by queue (a stream of a device) and in the order of each queue.

    Activity i starts at max(arrival_ns, end of i - 1 of its queue + gap_ns, end of
    after + after_gap_ns) and runs for length_ns. `launch_ns` is when the host called, on
    `lane`; it never falls within a queue, nor does `end_ns`. `after` is -1 where nothing else
    has to be done before. `row` and `call` are positions in the tables of activities and of
    runtime calls (call: -1 where the launch was not recorded). `start_ns` and `end_ns` are as
    recorded. `bounds` are where each queue begins, and the end of the last one; `device` is
    the device of each queue.
    """

    row: Numbers
    call: Numbers
    bounds: Ints
    device: Ints
    lane: Numbers
    launch_ns: Ints
    arrival_ns: Ints
    gap_ns: Ints
    length_ns: Ints
    after: Numbers
    after_gap_ns: Ints
    start_ns: Ints
    end_ns: Ints

    @property
    def queues(self) -> int:
        return len(self.device)

    def queue_of(self, activity: Ints) -> Ints:
        """The queue of some activities."""
        return _queue_of(self.bounds, activity)


@dataclass(frozen=True, slots=True)
class _Queued:
    """The activities in the order of their queues, with the launch of each."""

    row: Ints
    call: Ints
    bounds: Ints
    device: Ints
    lane: Numbers
    launch: Ints
    returned: Ints
    start: Ints
    end: Ints
    before: Ints
    """When the queue had done what came before; NEVER for its first activity."""


def work_of(
    activity: pd.DataFrame, runtime: pd.DataFrame, lane: Numbers, copy_waits: Bools
) -> Work:
    """The program of the devices. `lane` is the host lane of each runtime call.

    `copy_waits` marks the runtime calls that last until their own copy is done: what they
    copy arrives as they begin, all else as its call returns. Latency and the gap between
    queued activities are means over the recording, of what is usual. Neither table is empty.
    O(n log n); some twenty passes where the activities are sorted.
    """
    queued = _in_queues(activity, runtime, lane)
    start, end = queued.start, queued.end
    after = _ordered_after(queued, activity, runtime, lane)
    arrival, gap = _latencies(queued, _groups(queued, activity, copy_waits), after < 0)
    np.copyto(arrival, start, where=arrival - start > USUAL_NS)
    model = np.maximum(arrival, queued.before + gap)
    ordered = np.flatnonzero(after >= 0)
    waited = start[ordered] - end[after[ordered]]
    after_gap = np.zeros(len(after), dtype=np.int64)
    after_gap[ordered] = np.where(waited < USUAL_NS, waited, 0)
    behind = end[after[ordered]] + after_gap[ordered]
    model[ordered] = np.maximum(model[ordered], behind)
    held = np.subtract(start, model, out=model)
    held[np.abs(held) <= USUAL_NS] = 0
    held += end - start
    return Work(
        row=queued.row.astype(np.int32), call=queued.call.astype(np.int32),
        bounds=queued.bounds, device=queued.device, lane=queued.lane,
        launch_ns=queued.launch, arrival_ns=arrival, gap_ns=gap,
        length_ns=np.maximum(held, 0, out=held), after=after, after_gap_ns=after_gap,
        start_ns=start, end_ns=end,
    )  # fmt: skip


def _in_queues(activity: pd.DataFrame, runtime: pd.DataFrame, lane: Numbers) -> _Queued:
    """Activities by queue and start; where they overlap in a queue, the rest of the later.

    Where a launch was not recorded, it came before the next one of its queue, and before the
    activity began: just then, if that was not queued behind another.
    """
    stream, device = int64(activity, "stream"), int64(activity, "device")
    order = np.lexsort((int64(activity, "end_ns"), int64(activity, "start_ns")))
    order = grouped(grouped(order, stream), device)
    stream, device = stream[order], device[order]
    changes = (stream[1:] != stream[:-1]) | (device[1:] != device[:-1])
    bounds = np.concatenate(([0], np.flatnonzero(changes) + 1, [len(order)]))
    start, end = int64(activity, "start_ns")[order], int64(activity, "end_ns")[order]
    end = _running_max(np.maximum(end, start), bounds)
    before = np.append(NEVER, end[:-1])
    before[bounds[:-1]] = NEVER
    start = np.maximum(start, before)
    call = Launches(runtime).of(int64(activity, "correlation_id")[order])
    launch, returned = (int64(runtime, name)[call] for name in ("start_ns", "end_ns"))
    lanes, lost = lane[call], np.flatnonzero(call < 0)
    if len(lost):
        lanes[lost], launch[lost] = 0, start[lost]
        launch[lost] = _next_min(launch, bounds)[lost]
        alone = start[lost] - before[lost] > USUAL_NS
        returned[lost] = np.where(alone, start[lost], launch[lost])
    launch = _running_max(launch, bounds)
    device = device[bounds[:-1]]
    return _Queued(order, call, bounds, device, lanes, launch, returned, start, end, before)


def _running_max(values: Ints, bounds: Ints) -> Ints:
    """The largest value so far in each queue."""
    reached = np.empty_like(values)
    for low, high in pairwise(bounds.tolist()):
        np.maximum.accumulate(values[low:high], out=reached[low:high])
    return reached


def _next_min(values: Ints, bounds: Ints) -> Ints:
    """The smallest value from here on in each queue."""
    return -_running_max(-values[::-1], bounds[-1] - bounds[::-1])[::-1]


_QUICK, _MOVE, _INSIDE, _LOST = range(4)


def _groups(queued: _Queued, activity: pd.DataFrame, copy_waits: Bools) -> npt.NDArray[np.int8]:
    """What each is: a kernel, a copy, a copy in a call that waits for it, without a launch."""
    group = is_any(activity["direction"], COPIES)[queued.row].astype(np.int8)
    group[copy_waits[queued.call]] = _INSIDE
    group[queued.call < 0] = _LOST
    return group


def _latencies(queued: _Queued, group: npt.NDArray[np.int8], free: Bools) -> tuple[Ints, Ints]:
    """When each launch arrives, and how long its queue takes from one activity to the next.

    Learnt from those that are `free` of other queues.
    """
    arrival = np.where(group == _INSIDE, queued.launch, queued.returned)
    early = queued.before - arrival
    latency, gap = np.zeros(4, dtype=np.int64), np.zeros(4, dtype=np.int64)
    for number in (_QUICK, _MOVE, _INSIDE):
        mine = free & (group == number)
        idle = np.flatnonzero(mine & (queued.before < queued.launch))
        latency[number] = _usual(queued.start[idle] - arrival[idle])
        busy = np.flatnonzero(mine & (early > max(latency[number], 0) + USUAL_NS // 4))
        gap[number] = _usual(queued.start[busy] - queued.before[busy])
    arrival += latency[group]
    np.copyto(arrival, queued.start, where=group == _LOST)
    return arrival, gap[group]


def _usual(values: Ints) -> int:
    """The mean of the values close to the median; 0 where there are none."""
    if not len(values):
        return 0
    near = values[np.abs(values - np.median(values)) <= USUAL_NS]
    return round(float(near.mean())) if len(near) else int(np.median(values))


def _ordered_after(
    queued: _Queued, activity: pd.DataFrame, runtime: pd.DataFrame, lane: Numbers
) -> Numbers:
    """The activity of another queue that each has to wait for, or -1."""
    after = np.full(len(queued.row), -1, dtype=np.int32)
    if len(queued.device) == 1:
        return after
    for direction in COPIES:
        copies = np.flatnonzero(is_any(activity["direction"], [direction])[queued.row])
        queue = _queue_of(queued.bounds, copies)
        for number in np.unique(queued.device):
            mine = queued.device[queue] == number
            _one_engine(after, queued, copies[mine], queue[mine])
    name = runtime["name"]
    waits = np.flatnonzero(matches(name, "StreamWaitEvent"))
    records = np.flatnonzero(matches(name, "EventRecord"))
    starts = int64(runtime, "start_ns")
    for number in np.unique(lane[waits]).tolist():
        times = (np.sort(starts[rows[lane[rows] == number]]) for rows in (waits, records))
        _events(after, queued, number, *times)
    later = np.flatnonzero(after >= 0)
    later = later[queued.launch[after[later]] >= queued.launch[later]]
    after[later] = -1
    return after


def _one_engine(after: Numbers, queued: _Queued, copies: Ints, queue: Ints) -> None:
    """Copies of one direction share an engine where the recording shows none overlapping."""
    order = np.argsort(queued.start[copies], kind="stable")
    copies, queue = copies[order], queue[order]
    first, second = copies[:-1], copies[1:]
    other = (queue[:-1] != queue[1:]) & (queued.end[first] <= queued.start[second])
    after[second[other]] = first[other]


def _events(after: Numbers, queued: _Queued, lane: int, waits: Ints, records: Ints) -> None:
    """cudaStreamWaitEvent: what is launched next waits for what was launched before the
    event was recorded. Calls do not name their stream and event, so this is their order on
    one host lane; what the recording contradicts is left out.
    """
    if not len(records):
        return
    record = np.searchsorted(records, waits) - 1
    waits, records = waits[record >= 0], records[record[record >= 0]]
    own = launched_by(queued.lane, queued.bounds, lane)
    source = last_launched(queued.launch, own, records, "left")
    target = _next_launched(queued.launch, own, waits)
    known = (source >= 0) & (target >= 0)
    source, target = source[known], target[known]
    proven = _queue_of(queued.bounds, source) != _queue_of(queued.bounds, target)
    proven &= queued.end[source] <= queued.start[target]
    after[target[proven]] = source[proven]


def _queue_of(bounds: Ints, activity: Ints) -> Ints:
    return np.searchsorted(bounds, activity, side="right") - 1


def launched_by(lanes: Numbers, bounds: Ints, lane: int) -> list[Ints]:
    """The activities that a lane launched, by queue, for all queues that have some."""
    own = (low + np.flatnonzero(lanes[low:high] == lane) for low, high in pairwise(bounds.tolist()))
    return [mine for mine in own if len(mine)]


def last_launched(
    launch: Ints, own: list[Ints], times: Ints, side: Literal["left", "right"]
) -> Ints:
    """Which of a lane's `own` was launched last before each time ("right": or just then), or -1."""
    found, latest = np.full(len(times), -1), np.full(len(times), NEVER)
    for mine in own:
        place = np.searchsorted(launch[mine], times, side) - 1
        row = mine[place]
        later = (place >= 0) & (launch[row] >= latest)
        found[later], latest[later] = row[later], launch[row[later]]
    return found


def _next_launched(launch: Ints, own: list[Ints], times: Ints) -> Ints:
    """Which of a lane's `own` was launched first from each time on, or -1."""
    found, earliest = np.full(len(times), -1), np.full(len(times), -NEVER)
    for mine in own:
        place = np.searchsorted(launch[mine], times, side="left")
        row = mine[np.minimum(place, len(mine) - 1)]
        sooner = (place < len(mine)) & (launch[row] < earliest)
        found[sooner], earliest[sooner] = row[sooner], launch[row[sooner]]
    return found
