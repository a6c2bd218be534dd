"""Why a device was idle: each gap gets one cause, and the call to blame if there is one.

A gap ends with an activity that the host launched. What the host did on that thread between
the beginning of the gap and the launch is why the device waited.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from syncscope.analysis.hooks import native_threads
from syncscope.analysis.intervals import Bools, Ints, expand, first_at, flatten, union
from syncscope.analysis.launches import Launches
from syncscope.analysis.texts import is_any
from syncscope.analysis.windows import int64
from syncscope.recording.manifest import Manifest
from syncscope.records import CAUSES_OF_IDLE

LAUNCH_LATENCY_NS = 10_000
"""An activity that starts within this time of its launch was not held up on the device."""

CLOCK_TOLERANCE_NS = 5_000
"""How far the clocks of host and device may disagree."""

_CODES = {cause: code for code, cause in enumerate(CAUSES_OF_IDLE)}
_LAUNCH, _DEPENDENCY, _UNKNOWN = (
    _CODES[cause] for cause in ("launch", "device_dependency", "unknown")
)
_NAMES = pd.Index(sorted(CAUSES_OF_IDLE))
"""The categories of causes, in the order of the alphabet."""

_RANK = np.array([_NAMES.get_loc(cause) for cause in CAUSES_OF_IDLE], dtype=np.int8)

_Any = TypeVar("_Any", bound=np.generic)


@dataclass(frozen=True, slots=True)
class _Lane:
    """What one host thread did, in disjoint segments: (start, end, cause, call or -1)."""

    starts: Ints
    ends: Ints
    causes: Ints
    calls: Ints
    waited_ns: Ints
    """How long the call of a segment kept the host, all of it; 0 for pauses."""

    def near(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Per gap [low, high] the range of the segments in it, give or take the clocks."""
        first = np.searchsorted(self.ends, low - CLOCK_TOLERANCE_NS, side="left")
        return first, np.searchsorted(self.starts, np.maximum(high, low), side="right")

    def touched(self, low: Ints, high: Ints) -> Ints:
        """Which gaps have a segment near. Segments are sought among the gaps, which are more:
        a few passes where most gaps rise, as those of one device do."""
        latest = np.maximum.accumulate(np.maximum(high, low))
        earliest = np.minimum.accumulate(low[::-1])[::-1]
        begin = np.searchsorted(latest, self.starts, side="left")
        end = np.searchsorted(earliest, self.ends + CLOCK_TOLERANCE_NS, side="right")
        _, gap = expand(*union(begin, end))
        first, last = self.near(low[gap], high[gap])
        return gap[first < last]


def explain_gaps(
    gaps: pd.DataFrame,
    activity: pd.DataFrame,
    runtime: pd.DataFrame,
    calls: pd.DataFrame,
    host: pd.DataFrame,
    manifest: Manifest,
    main: int,
) -> pd.DataFrame:
    """The gaps with the columns cause (of the categories CAUSES_OF_IDLE) and call (row of
    `calls`, or -1). `activity` is clipped to the windows and sorted by start.

    - The launch of the activity that ends the gap began before the gap, and longer ago
      than a launch takes: "device_dependency".
    - Else the cause that fills most of the time from the beginning of the gap to the
      launch, on the launching thread: a wait ("sync", "transfer", "allocator"), a DataLoader
      ("dataloader"), a collection ("gc", of any thread), else "launch". A wait in which the
      gap began drained the queue: the time to refill it is its time, too, but no more than
      it kept the host: without the wait the launch would have come earlier by that much.
    - A launch that came shortly before the gap was late as well: what the host did for
      the length of the gap before it counts.
    - Without a launch (a lost row, the end of a window), what the main thread did in the
      gap counts; "unknown" if that is nothing and the launch is missing.

    Native threads (autograd's) work for the main thread: they share its lane. An imported
    trace does not tell which threads these are: there all threads share one.
    """
    lanes = native_threads(manifest)
    launch = _launches(gaps, activity, runtime)
    thread = np.where(launch.found, launch.thread, main)
    if lanes:
        thread[np.isin(thread, list(lanes))] = main
    starts, ends = int64(gaps, "start_ns"), int64(gaps, "end_ns")
    ahead = launch.found & (launch.start_ns < starts)
    low = np.where(ahead, launch.start_ns - (ends - starts), starts)
    high = np.where(launch.found & ~launch.copies, launch.start_ns, ends)
    known = launch.found | (launch.trailing & (len(runtime) > 0))
    usual = np.where(known, np.int8(_LAUNCH), np.int8(_UNKNOWN))
    cause, call = usual.copy(), np.full(len(gaps), -1, dtype=np.int64)
    drains = launch.found & ~ahead
    for number in pd.unique(thread).tolist():
        group = frozenset({number, *(lanes if number == main else ())})
        lane = _lane(calls, host, None if manifest.imported and not lanes else group)
        mine = np.flatnonzero(thread == number)
        mine = mine[lane.touched(low[mine], high[mine])]  # the others keep the usual cause
        cause[mine], call[mine] = _dominant(lane, low[mine], high[mine], drains[mine], usual[mine])
    held = _held_up(launch, starts, ends, ahead)
    cause[held], call[held] = _DEPENDENCY, -1
    return gaps.assign(cause=pd.Categorical.from_codes(_RANK[cause], _NAMES), call=call)


def _held_up(launch: _Launch, starts: Ints, ends: Ints, ahead: Bools) -> Bools:
    """Gaps whose launch was over before them, and longer ago than launches take."""
    latency = ends - launch.start_ns
    bound = _latency_bound(latency[launch.found & ~ahead])
    return ahead & (latency > bound) & (launch.end_ns <= starts)


def _latency_bound(latency: Ints) -> float:
    """Twice the time that launches to an idle device usually take here, within limits."""
    usual = float(np.median(latency)) if len(latency) else 0.0
    return float(np.clip(2.0 * usual, LAUNCH_LATENCY_NS, 5 * LAUNCH_LATENCY_NS))


@dataclass(frozen=True, slots=True)
class _Launch:
    """Per gap the runtime call that launched what ended it; figures of one that is not `found`
    mean nothing. `copies`: an upload, whose call itself may keep the device waiting;
    `trailing`: no activity follows in the window."""

    found: Bools
    thread: Ints
    start_ns: Ints
    end_ns: Ints
    copies: Bools
    trailing: Bools


def _launches(gaps: pd.DataFrame, activity: pd.DataFrame, runtime: pd.DataFrame) -> _Launch:
    ender, call = _enders(gaps, activity, Launches(runtime))
    thread, start, end = (
        _pick(int64(runtime, name), call) for name in ("thread_id", "start_ns", "end_ns")
    )
    uploads = _pick(is_any(activity["direction"], ["h2d"]), ender)
    return _Launch(call >= 0, thread, start, end, uploads, ender < 0)


def _enders(gaps: pd.DataFrame, activity: pd.DataFrame, launches: Launches) -> tuple[Ints, Ints]:
    """Per gap which activity of its device starts as it ends, and the call that launched it, or
    -1; of several activities the first whose launch is known, else the first."""
    starts, correlation = int64(activity, "start_ns"), int64(activity, "correlation_id")
    filled = int64(activity, "end_ns") > starts
    ender = np.full(len(gaps), -1, dtype=np.int64)
    ends, device = int64(gaps, "end_ns"), int64(gaps, "device")
    for number in pd.unique(device).tolist():
        mine = np.flatnonzero(device == number)
        own = np.flatnonzero(filled & (activity["device"] == number).to_numpy())
        place = first_at(ends[mine], starts[own])
        ender[mine] = np.append(own, -1)[place]
    call = np.where(ender >= 0, launches.of(_pick(correlation, ender)), -1)
    lost = np.flatnonzero((ender >= 0) & (call < 0))
    first, last = (np.searchsorted(starts, ends[lost], side) for side in ("left", "right"))
    gap, row = expand(first, last)
    other = launches.of(correlation[row])
    fits = (other >= 0) & filled[row] & (int64(activity, "device")[row] == device[lost[gap]])
    gap, first = np.unique(gap[fits], return_index=True)
    ender[lost[gap]], call[lost[gap]] = row[fits][first], other[fits][first]
    return ender, call


def _pick(values: npt.NDArray[_Any], rows: Ints) -> npt.NDArray[_Any]:
    """The values at the rows; anything for a row of -1."""
    return values[rows] if len(values) else np.zeros(len(rows), dtype=values.dtype)


def _lane(calls: pd.DataFrame, host: pd.DataFrame, threads: frozenset[int] | None) -> _Lane:
    """The host timeline of some threads (None: all). Calls lie on top of what they are in."""
    own = calls[calls["blocking"] | calls["kind"].isin(["transfer", "allocator"])]
    pauses = host = host[host["kind"].isin(CAUSES_OF_IDLE)]
    if threads is not None:
        own = own[own["thread_id"].isin(list(threads))]
        pauses = host[host["thread_id"].isin(list(threads)) | (host["kind"] == "gc")]
    kinds = [frame["kind"].map(_CODES).to_numpy(dtype=np.float64) for frame in (own, pauses)]
    causes = np.nan_to_num(np.concatenate(kinds), nan=_UNKNOWN).astype(np.int64)
    number = np.concatenate((own.index.to_numpy(), np.full(len(pauses), -1))).astype(np.int64)
    starts = np.concatenate((int64(own, "start_ns"), int64(pauses, "start_ns")))
    ends = np.concatenate((int64(own, "end_ns"), int64(pauses, "end_ns")))
    low, high, top = flatten(starts, ends, (number >= 0).astype(np.int64))
    waited = np.concatenate((cost_ns(own), np.zeros(len(pauses), dtype=np.int64)))
    return _Lane(low, high, causes[top], number[top], waited[top])


def cost_ns(calls: pd.DataFrame) -> Ints:
    """How long each call kept the host: an upper bound of what its absence gains."""
    span = int64(calls, "end_ns") - int64(calls, "start_ns")
    return np.where(calls["blocking"], int64(calls, "blocked_ns"), span)


def _dominant(
    lane: _Lane, low: Ints, high: Ints, drains: Bools, default: Ints
) -> tuple[Ints, Ints]:
    """Cause and call that fill most of [low, high], gap by gap.

    Where `drains`, the queue ran empty at `low`: the call that was waiting then owns what
    nothing else explains, until it has all the time that it kept the host.
    """
    gap, segment = expand(*lane.near(low, high))
    overlap = np.minimum(lane.ends[segment], high[gap]) - np.maximum(lane.starts[segment], low[gap])
    overlap = np.maximum(overlap, 0)
    time = np.zeros((len(low), len(CAUSES_OF_IDLE)), dtype=np.int64)
    np.add.at(time, (gap, lane.causes[segment]), overlap)
    blame = np.full(time.shape, -1, dtype=np.int64)
    order = np.lexsort((overlap, gap))
    charged = order[(overlap[order] > 0) & (lane.calls[segment[order]] >= 0)]
    blame[gap[charged], lane.causes[segment[charged]]] = lane.calls[segment[charged]]
    rows = np.arange(len(low))
    refill = np.maximum(np.maximum(high - low, 0) - time.sum(axis=1), 0)
    owner = default.copy()
    emptied = drains[gap] & (lane.calls[segment] >= 0) & (lane.starts[segment] < low[gap])
    emptied &= lane.ends[segment] >= low[gap] - CLOCK_TOLERANCE_NS
    owner[gap[emptied]] = lane.causes[segment[emptied]]
    blame[gap[emptied], owner[gap[emptied]]] = lane.calls[segment[emptied]]
    limit = np.zeros(len(low), dtype=np.int64)
    limit[gap[emptied]] = lane.waited_ns[segment[emptied]]
    refill_owned = np.minimum(refill, np.maximum(limit - time[rows, owner], 0))
    time[rows, owner] += refill_owned
    time[rows, default] += refill - refill_owned
    cause = np.where(time.sum(axis=1) > 0, time.argmax(axis=1), owner)
    return cause, blame[rows, cause]
