"""Runtime calls that wait, copy or allocate, each with what its activity row knows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from syncscope.analysis.hooks import INTERVALS
from syncscope.analysis.intervals import (
    Bools,
    Ints,
    clip,
    covered,
    first_at,
    grouped,
    innermost,
    union,
)
from syncscope.analysis.texts import is_any, matches
from syncscope.analysis.windows import int64

CLOCK_TOLERANCE_NS = 20_000
"""How far the clocks of runtime calls and of hooks may disagree."""

_WATCHED = ("sync", "memcpy", "malloc", "free")
_STREAM_WAIT = r"StreamSynchronize"
_NEVER_WAITS = r"Query|WaitEvent"
_ASYNC = r"Async"
_NO_DRAIN = r"Async|Host|Unregister"


def runtime_waits(
    runtime: pd.DataFrame,
    activity: pd.DataFrame,
    hooks: pd.DataFrame,
    windows: tuple[Ints, Ints],
) -> pd.DataFrame:
    """One row per wait, host-device copy or allocator call of the host, sorted by start.

    Columns: thread_id, start_ns, end_ns, blocked_ns, name, kind (sync, transfer,
    allocator), direction, size_bytes, memory, blocking, stream_wait (torch warns of it),
    hook (index of the hook interval it lies in, or -1).

    - A cudaMemcpyAsync directly followed by a cudaStreamSynchronize on its thread, and not
      in another hook interval, is one wait: that is how torch copies.
    - A copy alone waits if its call is not asynchronous, or if it reads into pageable
      memory; an upload from pageable memory only may block and is not counted as a wait.
    - cudaFree waits for what the device is doing, if it does anything (cudaFree(0), by which
      libraries start CUDA, comes before); cudaMalloc and calls for host memory do not wait.
    - A call inside another (the driver's in the runtime's) is not counted again.
    """
    parts = _with_copies(_watched(runtime, windows), activity)
    parts = parts[~parts["direction"].isin(["d2d", "p2p"])]
    parts = parts[~nested(parts)]
    hook = owners(parts, hooks)
    row = pd.Series(np.arange(len(parts)), index=parts.index)
    follower = parts["followed_by"].map(row).fillna(-1).to_numpy(dtype=np.int64)
    parts = parts.astype({"name": str}).reset_index(drop=True)
    return _merged(parts.assign(hook=hook, frees=_drains(parts, activity)), follower)


def _watched(runtime: pd.DataFrame, windows: tuple[Ints, Ints]) -> pd.DataFrame:
    """The calls of the kinds in _WATCHED inside the windows, by thread and start.

    `followed_by`: label of the next row on the same thread, if no other call came between
    that is of consequence; or -1.
    """
    idle = matches(runtime["name"], _NEVER_WAITS) & is_any(runtime["kind"], ["sync"])
    rows = np.flatnonzero(~(idle | is_any(runtime["kind"], ["other"])))
    own, starts, ends = clip(
        int64(runtime, "start_ns")[rows], int64(runtime, "end_ns")[rows], *windows
    )
    rows = rows[own]
    order = grouped(np.argsort(starts, kind="stable"), int64(runtime, "thread_id")[rows])
    rows, thread = rows[order], int64(runtime, "thread_id")
    place = np.flatnonzero(is_any(runtime["kind"], _WATCHED)[rows])
    following = np.minimum(place + 1, len(rows) - 1)
    same = (following > place) & (thread[rows[following]] == thread[rows[place]])
    parts = runtime.iloc[rows[place]].set_axis(place)
    return parts.assign(
        start_ns=starts[order[place]],
        end_ns=ends[order[place]],
        followed_by=np.where(same, following, -1),
    )


def _merged(parts: pd.DataFrame, follower: Ints) -> pd.DataFrame:
    """Rows with each copy and the wait that belongs to it made one."""
    kind = parts["kind"].to_numpy(dtype=object)
    name = parts["name"]
    stream_wait = (kind == "sync") & name.str.contains(_STREAM_WAIT).to_numpy(dtype=np.bool_)
    hook, starts, ends = int64(parts, "hook"), int64(parts, "start_ns"), int64(parts, "end_ns")
    paired = (kind == "memcpy") & (follower >= 0)
    close = starts[follower] - ends <= CLOCK_TOLERANCE_NS
    same = (hook[follower] == hook) | ((hook[follower] < 0) & close)
    paired &= stream_wait[follower] & same
    copy, wait = np.flatnonzero(paired), follower[paired]
    blocked = ends - starts
    blocked[copy] += blocked[wait]
    ends = ends.copy()
    ends[copy] = ends[wait]
    is_async = name.str.contains(_ASYNC).to_numpy(dtype=np.bool_)
    reads_pageable = (parts["direction"] == "d2h") & (parts["memory"] == "pageable")
    copy_waits = (kind == "memcpy") & (~is_async | reads_pageable.to_numpy())
    kinds = {"memcpy": "transfer", "malloc": "allocator", "free": "allocator"}
    merged = parts.assign(
        end_ns=ends,
        blocked_ns=blocked,
        kind=[kinds.get(value, "sync") for value in kind],
        blocking=paired | copy_waits | parts["frees"].to_numpy() | (kind == "sync"),
        stream_wait=paired | stream_wait | ((kind == "memcpy") & ~is_async),
    )
    columns = [
        "thread_id", "start_ns", "end_ns", "blocked_ns", "name", "kind", "direction",
        "size_bytes", "memory", "blocking", "stream_wait", "frees", "hook",
    ]  # fmt: skip
    kept: pd.DataFrame = merged.drop(index=wait)[columns]
    return kept.sort_values("start_ns", kind="stable", ignore_index=True)


def owners(calls: pd.DataFrame, hooks: pd.DataFrame, tolerance_ns: int = 0) -> Ints:
    """For each call the index of the innermost hook interval on its thread, or -1.

    A call lies in an interval if its middle does, give or take `tolerance_ns`.
    """
    owner = np.full(len(calls), -1, dtype=np.int64)
    spans = hooks[hooks["source"].isin([*INTERVALS, "transfer"]) & (hooks["kind"] != "race")]
    threads = calls["thread_id"].to_numpy()
    middle = (int64(calls, "start_ns") + int64(calls, "end_ns")) // 2
    for thread, group in spans.groupby("thread_id"):
        index = group.index.to_numpy()
        starts, ends = int64(group, "start_ns"), int64(group, "end_ns")
        mine = np.flatnonzero(threads == thread)
        found = innermost(middle[mine], starts - tolerance_ns, ends + tolerance_ns)
        owner[mine[found >= 0]] = index[found[found >= 0]]
    return owner


def _with_copies(parts: pd.DataFrame, activity: pd.DataFrame) -> pd.DataFrame:
    """Adds direction, size_bytes and memory of the copy that a runtime call started."""
    calls = np.flatnonzero(is_any(parts["kind"], ["memcpy"]))
    known = int64(activity, "correlation_id")
    copies = np.flatnonzero(is_any(activity["kind"], ["memcpy"]) & (known > 0))
    place = first_at(int64(parts, "correlation_id")[calls], known[copies])
    calls, copies = calls[place >= 0], copies[place[place >= 0]]
    columns: dict[str, npt.NDArray[Any]] = {}
    for name, missing in (("direction", ""), ("size_bytes", -1), ("memory", "")):
        columns[name] = np.full(len(parts), missing, dtype=np.int64 if missing else object)
        columns[name][calls] = activity[name].iloc[copies]
    return parts.assign(**columns)


def _drains(parts: pd.DataFrame, activity: pd.DataFrame) -> Bools:
    """Which calls give memory back while something runs on a device; all that give it back
    where that was not recorded."""
    drains = is_any(parts["kind"], ["free"]) & ~matches(parts["name"], _NO_DRAIN)
    if len(activity) and drains.any():
        busy = union(int64(activity, "start_ns"), int64(activity, "end_ns"))
        drains &= covered(int64(parts, "start_ns"), int64(parts, "end_ns"), *busy) > 0
    return drains


def nested(parts: pd.DataFrame) -> Bools:
    """Calls that lie inside an earlier call of the same thread."""
    ends = int64(parts, "end_ns")
    reach = parts.groupby("thread_id")["end_ns"].cummax().to_numpy(dtype=np.int64)
    previous = np.concatenate((ends[:1], reach[:-1]))
    thread = parts["thread_id"].to_numpy()
    same = np.concatenate((np.zeros(min(1, len(parts)), np.bool_), thread[1:] == thread[:-1]))
    inside: Bools = same & (ends <= previous) & (int64(parts, "start_ns") < previous)
    return inside
