"""What each blocking runtime call waits for: the activities that had to be done before.

The runtime calls name no stream and no event. Which it was follows from what was done when
the call returned: nothing that ran on after it can have been waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints, first_at
from syncscope.analysis.replay_work import (
    COPIES,
    NEVER,
    USUAL_NS,
    Numbers,
    Work,
    last_launched,
    launched_by,
)
from syncscope.analysis.texts import coded, is_any, matches, which
from syncscope.analysis.waits import nested
from syncscope.analysis.windows import int64
from syncscope.recording.cuda_names import blocks_host, drains_device, runtime_kind

CLOCK_TOLERANCE_NS = 5_000
"""How far an activity may end after the call that waited for it, by the clocks."""

STAGED_BYTES = 64 * 1024
"""Up to this size an upload from pageable memory is staged, and its call does not wait
(CUDA C++ API reference, "API synchronization behavior")."""

FULL_QUEUE = 256
"""A launch may wait for room only behind this many activities; drivers hold about 1024."""

SLOW_LAUNCH_NS = 100_000
"""A launch that takes longer than this waited for something."""

_OWN, _STREAM, _EVENT, _DEVICE, _ROOM, _MALLOC = range(6)


@dataclass(frozen=True, slots=True)
class Waits:
    """Calls that wait, in their order.

    Wait i ends at max(its start + fixed_ns, end of each of its targets + after_ns); an after_ns
    of NEVER is that of a call that only takes time. `call` is its position in the table of
    runtime calls. Targets are activities of `Work`: target[first[i]:first[i + 1]].
    """

    call: Ints
    lane: Ints
    start_ns: Ints
    end_ns: Ints
    fixed_ns: Ints
    after_ns: Ints
    first: Ints
    target: Ints


def inside_copies(runtime: pd.DataFrame, activity: pd.DataFrame) -> Bools:
    """Which runtime calls last until the copy that they start is done.

    Copies that are not asynchronous, and those from or to pageable memory that do not fit
    into the driver's staging buffer; but none that returned before its copy was done, or,
    for an upload, had begun: the host stages the last part and returns a little earlier.
    """
    calls = np.flatnonzero(is_any(runtime["kind"], ["memcpy"]))
    copies = np.flatnonzero(
        is_any(activity["direction"], COPIES) & (int64(activity, "correlation_id") > 0)
    )
    correlation = int64(runtime, "correlation_id")[calls]
    place = first_at(correlation, int64(activity, "correlation_id")[copies])
    calls, copies = calls[place >= 0], copies[place[place >= 0]]
    reads = is_any(activity["direction"], ["d2h"])[copies]
    large = reads | (int64(activity, "size_bytes")[copies] > STAGED_BYTES)
    pageable = is_any(activity["memory"], ["pageable"])[copies]
    limit = np.where(reads, int64(activity, "end_ns")[copies], int64(activity, "start_ns")[copies])
    over = limit <= int64(runtime, "end_ns")[calls] + CLOCK_TOLERANCE_NS
    named = which(runtime["name"], blocks_host)[calls]
    waits = np.zeros(len(runtime), dtype=np.bool_)
    waits[calls] = over & (named | (pageable & large))
    return waits


def waits_of(runtime: pd.DataFrame, lane: Numbers, work: Work, copy_waits: Bools) -> Waits:
    """The blocking calls, each with what it waited for; calls without any of it are left out.

    - a copy that waits: its own copy;
    - a stream's wait: all that was launched on the stream that its lane used last, or on
      the one that became empty as the call returned;
    - an event's wait: what had just been done when the call returned, of all that was
      launched before the last event was recorded;
    - a wait for the device, or a call that frees memory: all of the device; one that gets
      memory as well, if it did wait: cudaMalloc need not;
    - a launch that took very long behind a full queue: room in it.
    """
    kinds = _kinds(runtime, copy_waits)
    call = np.flatnonzero(kinds >= 0)
    call = call[np.argsort(int64(runtime, "start_ns")[call], kind="stable")]
    owner, target = _targets(runtime, lane, work, call, kinds[call])
    order = np.argsort(owner, kind="stable")
    owner, target = owner[order], target[order]
    kept, counts = np.unique(owner, return_counts=True)
    call = call[kept]
    start, end = int64(runtime, "start_ns")[call], int64(runtime, "end_ns")[call]
    first = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    done = np.full(len(call), NEVER, dtype=np.int64)
    if len(call):
        done = np.maximum.reduceat(work.end_ns[target], first[:-1])
    late = done > start
    after = np.where(late, end - done, end - start)
    fixed = np.clip(after, 0, end - start)
    after = np.where((kinds[call] == _MALLOC) & ~late, NEVER, after)
    return Waits(
        call=call, lane=lane[call].astype(np.int64), start_ns=start, end_ns=end,
        fixed_ns=fixed, after_ns=after,
        first=first, target=target,
    )  # fmt: skip


def _kinds(runtime: pd.DataFrame, copy_waits: Bools) -> npt.NDArray[np.int8]:
    """What each runtime call may wait for; -1 for nothing."""
    code, names = coded(runtime["name"])
    by_name = np.full(len(names) + 1, -1, dtype=np.int8)
    for number, name in enumerate(names):
        if drains_device(name) and "Host" not in name:
            by_name[number] = _MALLOC if runtime_kind(name) == "malloc" else _DEVICE
        elif blocks_host(name) and "Memcpy" not in name:
            stream, event = "Stream" in name, "Event" in name
            by_name[number] = _STREAM if stream else _EVENT if event else _DEVICE
    kinds = by_name[code]
    kinds[copy_waits] = _OWN
    slow = int64(runtime, "end_ns") - int64(runtime, "start_ns") > SLOW_LAUNCH_NS
    kinds[slow & is_any(runtime["kind"], ["launch"])] = _ROOM
    candidates = np.flatnonzero(kinds >= 0)
    own = runtime[["thread_id", "start_ns", "end_ns"]].iloc[candidates]
    own = own.set_axis(candidates).sort_values(["thread_id", "start_ns"], kind="stable")
    kinds[own.index[nested(own)]] = -1
    return kinds


def _targets(
    runtime: pd.DataFrame, lane: Numbers, work: Work, call: Ints, kind: npt.NDArray[np.int8]
) -> tuple[Ints, Ints]:
    """Pairs (index into `call`, activity)."""
    starts, ends = int64(runtime, "start_ns")[call], int64(runtime, "end_ns")[call]
    limit = np.where(kind == _EVENT, _last_record(runtime, lane, call), starts)
    last = _launched_before(work, limit)
    seen = ends + CLOCK_TOLERANCE_NS
    event = (kind == _EVENT) | (kind == _ROOM)
    last[event] = _done_before(work, last[event], seen[event])
    done = np.where(last >= 0, work.end_ns[last], NEVER)
    possible = (last >= 0) & (done <= seen[:, None])
    recent = _recent_queue(work, lane[call], starts)
    rows = np.arange(len(call))
    latest = np.where(possible, done, NEVER).argmax(axis=1)
    chosen = np.where(
        kind == _STREAM, _stream(possible, done, recent, latest, starts, ends), latest
    )
    single = possible[rows, chosen] & np.isin(kind, (_STREAM, _EVENT, _ROOM))
    single &= (kind != _ROOM) | _was_full(work, last[rows, chosen], starts)
    drains = np.isin(kind, (_DEVICE, _MALLOC))
    same = work.device[None, :] == work.device[recent][:, None]
    drained, queue = np.nonzero(possible & drains[:, None] & same)
    own, copied = _own_copies(work, call, np.flatnonzero(kind == _OWN))
    alone = np.flatnonzero(single)
    return (
        np.concatenate((alone, drained, own)),
        np.concatenate((last[alone, chosen[alone]], last[drained, queue], copied)),
    )


def _own_copies(work: Work, call: Ints, own: Ints) -> tuple[Ints, Ints]:
    """Pairs (index into `call`, the last activity that this call launched)."""
    mine = np.zeros(call.max(initial=0) + 2, dtype=np.bool_)
    mine[call[own]] = True
    launched = np.flatnonzero(mine[np.minimum(work.call, len(mine) - 1)])[::-1]
    place = first_at(call[own], work.call[launched].astype(np.int64))
    return own[place >= 0], launched[place[place >= 0]]


def _last_record(runtime: pd.DataFrame, lane: Numbers, call: Ints) -> Ints:
    """When an event was last recorded on the lane of each call; the call itself if never."""
    starts = int64(runtime, "start_ns")
    limit = starts[call].copy()
    records = np.flatnonzero(matches(runtime["name"], "EventRecord"))
    for number in np.unique(lane[call]):
        times = np.sort(starts[records[lane[records] == number]])
        mine = np.flatnonzero(lane[call] == number)
        place = np.searchsorted(times, limit[mine]) - 1
        mine, place = mine[place >= 0], place[place >= 0]
        limit[mine] = times[place]
    return limit


def _launched_before(work: Work, times: Ints) -> Ints:
    """Per time and queue the last activity launched until then, or -1."""
    last = np.empty((len(times), work.queues), dtype=np.int64)
    for queue, (low, high) in enumerate(pairwise(work.bounds.tolist())):
        place = np.searchsorted(work.launch_ns[low:high], times, side="right")
        last[:, queue] = np.where(place > 0, low + place - 1, -1)
    return last


def _done_before(work: Work, last: Ints, times: Ints) -> Ints:
    """Per time and queue the last activity done by then, no later than `last`."""
    found = last.copy()
    for queue, (low, high) in enumerate(pairwise(work.bounds.tolist())):
        place = np.searchsorted(work.end_ns[low:high], times, side="right")
        found[:, queue] = np.minimum(last[:, queue], np.where(place > 0, low + place - 1, -1))
    return found


def _recent_queue(work: Work, lane: Numbers, times: Ints) -> Ints:
    """Queue of the last launch of a lane before each time; the first if none."""
    queue = np.zeros(len(times), dtype=np.int64)
    for number in np.unique(lane).tolist():
        mine = np.flatnonzero(lane == number)
        own = launched_by(work.lane, work.bounds, number)
        launch = last_launched(work.launch_ns, own, times[mine], "right")
        queue[mine[launch >= 0]] = work.queue_of(launch[launch >= 0])
    return queue


def _stream(
    possible: Bools, done: Ints, recent: Ints, latest: Ints, starts: Ints, ends: Ints
) -> Ints:
    """The queue that a stream's wait was about: the one used last, unless the call returned
    long after that was done and another explains it."""
    rows = np.arange(len(starts))
    late = np.maximum(starts, done[rows, recent]) < ends - USUAL_NS
    other = possible[rows, latest] & (done[rows, latest] > starts)
    return np.where(possible[rows, recent] & ~(late & other), recent, latest)


def _was_full(work: Work, last: Ints, starts: Ints) -> Bools:
    """Whether a queue held FULL_QUEUE activities that had not begun when a launch was called."""
    waiting = np.zeros(len(starts), dtype=np.bool_)
    for low, high in pairwise(work.bounds.tolist()):
        mine = np.flatnonzero((last >= low) & (last < high))
        launched = np.searchsorted(work.launch_ns[low:high], starts[mine])
        begun = np.searchsorted(work.start_ns[low:high], starts[mine])
        waiting[mine] = launched - begun >= FULL_QUEUE
    return waiting
