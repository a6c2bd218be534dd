"""Which line made which call: hook events matched to runtime calls, per thread.

Runtime calls come from CUPTI without a stack, hook events from Python with one. What a
hook interval spans is its own; sync warnings, which torch delivers when a binding returns,
claim the waits just before them; a backward pass is charged with what the threads of
autograd did meanwhile. What is left over gets the line of a sample of the stack that was
taken while it ran, or stays without one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from syncscope.analysis.hooks import INTERVALS
from syncscope.analysis.intervals import Bools, Ints, innermost
from syncscope.analysis.samples import ask_samples
from syncscope.analysis.stacks import Stacks
from syncscope.analysis.waits import CLOCK_TOLERANCE_NS, owners
from syncscope.analysis.windows import int64

READBACK_BYTES = 64
"""A copy to the host of at most this size is a value that the program looked at."""

_COPYING_OPS = r"(?:^|[.:])(?:to|cpu|cuda|copy_|_to_copy|_copy_from|type|pin_memory)(?:\.\w+)?$"


@dataclass(frozen=True, slots=True)
class Matches:
    """What claims each runtime call (by row), and what each hook event came to."""

    event: Ints
    """Row of the hook event whose stack a runtime call has, or -1."""
    spent: Bools
    """Warnings that tell of something which another row of the result tells already."""


def match(
    waits: pd.DataFrame, hooks: pd.DataFrame, stacks: Stacks, native: frozenset[int]
) -> Matches:
    """Match `waits.runtime_waits` to `hooks.hook_events`. Never guesses by nearness alone."""
    event = int64(waits, "hook").copy()
    moments = (hooks["source"] == "warning").to_numpy()
    spent = moments & (owners(hooks, hooks) >= 0)
    scopes = hooks[hooks["source"] == "scope"]
    late = _late(hooks, scopes, stacks, moments & ~spent)
    for kind in ("sync", "allocator"):
        kind_of_wait = (waits["kind"] == "allocator") == (kind == "allocator")
        claimable = kind_of_wait & (waits["stream_wait"] | (kind == "allocator"))
        told = moments & ~spent & (hooks["kind"] == kind).to_numpy()
        _claim(event, waits, claimable.to_numpy(), hooks, told & (late < 0))
    _forgive_clocks(event, waits, hooks)
    counts = _charge_scopes(event, waits, scopes, native)
    for scope, count in counts.items():
        mine = np.flatnonzero(late == scope)
        spent[mine[max(0, len(mine) - count) :]] = True
    rest = (late >= 0) & ~spent
    _claim(event, waits, waits["stream_wait"].to_numpy(), hooks, rest)
    ask_samples(event, waits, hooks)
    return Matches(event, spent)


def _claim(
    event: Ints, waits: pd.DataFrame, claimable: Bools, hooks: pd.DataFrame, told: Bools
) -> None:
    """Let the warnings `told` claim free waits: k warnings in a row the last k before them.

    Waits and warnings of a thread in order fall into runs "waits, then warnings". Within a
    run they are matched from its end. A wait is placed at its middle, which lies between
    the warning before it and its own however the clocks disagree.
    """
    wait = np.flatnonzero(claimable & (event < 0))
    moment = np.flatnonzero(told)
    middle = (int64(waits, "start_ns") + int64(waits, "end_ns")) // 2
    order = pd.DataFrame(
        {
            "row": np.concatenate((wait, moment)),
            "warning": np.repeat([False, True], [len(wait), len(moment)]),
            "thread": np.concatenate(
                (int64(waits, "thread_id")[wait], int64(hooks, "thread_id")[moment])
            ),
            "time": np.concatenate((middle[wait], int64(hooks, "start_ns")[moment])),
        }
    ).sort_values(["thread", "time", "warning"], kind="stable", ignore_index=True)
    warning, thread = order["warning"].to_numpy(), order["thread"].to_numpy()
    begins = np.ones(len(order), dtype=np.bool_)
    begins[1:] = (thread[1:] != thread[:-1]) | (warning[:-1] & ~warning[1:])
    order["run"] = np.cumsum(begins)
    order["rank"] = order.groupby(["run", "warning"]).cumcount(ascending=False)
    told_rows, free_rows = order[warning], order[~warning]
    pairs = told_rows.merge(free_rows, on=["run", "rank"], suffixes=("_hook", "_wait"))
    event[pairs["row_wait"].to_numpy(dtype=np.int64)] = pairs["row_hook"].to_numpy(dtype=np.int64)


def _forgive_clocks(event: Ints, waits: pd.DataFrame, hooks: pd.DataFrame) -> None:
    """Give free waits to a hook interval close by that has none, though it should.

    The clocks of hooks and runtime calls may disagree by CLOCK_TOLERANCE_NS.
    """
    empty = hooks[~hooks.index.isin(event) & ~hooks["twin"] & _waits_by_hook(hooks)]
    free = np.flatnonzero((event < 0) & waits["blocking"].to_numpy())
    near = owners(waits.iloc[free], empty, CLOCK_TOLERANCE_NS)
    event[free[near >= 0]] = near[near >= 0]


def _late(hooks: pd.DataFrame, scopes: pd.DataFrame, stacks: Stacks, moments: Bools) -> Ints:
    """For each warning that arrived with the line of a scope around it, the scope; or -1.

    torch hands the warnings of autograd's threads to the thread that called backward.
    """
    late = np.full(len(hooks), -1, dtype=np.int64)
    index = np.flatnonzero(moments)
    times, threads = int64(hooks, "start_ns")[index], int64(hooks, "thread_id")[index]
    for thread, group in scopes.groupby("thread_id"):
        mine = np.flatnonzero(threads == thread)
        ends = int64(group, "end_ns") + CLOCK_TOLERANCE_NS
        found = innermost(times[mine], int64(group, "start_ns"), ends)
        inside = found >= 0
        late[index[mine[inside]]] = group.index.to_numpy()[found[inside]]
    stack_ids = int64(hooks, "stack_id")
    for row in np.flatnonzero(late >= 0):
        told, scope = (stacks.place(int(stack_ids[index])) for index in (row, late[row]))
        if told.frame.id != scope.frame.id:
            late[row] = -1
    return late


def _charge_scopes(
    event: Ints, waits: pd.DataFrame, scopes: pd.DataFrame, native: frozenset[int]
) -> dict[int, int]:
    """Charge the free waits of native threads to the scope they lie in; how many each got.

    Where no thread is known as native (an imported trace), threads without a scope of
    their own and without hook events count as such.
    """
    threads = waits["thread_id"]
    foreign = threads.isin(list(native)) if native else ~threads.isin(_python(event, waits))
    foreign &= ~threads.isin(scopes["thread_id"])
    free = np.flatnonzero(foreign.to_numpy() & (event < 0) & waits["blocking"].to_numpy())
    middle = ((int64(waits, "start_ns") + int64(waits, "end_ns")) // 2)[free]
    found = innermost(
        middle,
        int64(scopes, "start_ns") - CLOCK_TOLERANCE_NS,
        int64(scopes, "end_ns") + CLOCK_TOLERANCE_NS,
    )
    inside = found >= 0
    event[free[inside]] = scopes.index.to_numpy()[found[inside]]
    charged, counts = np.unique(event[free[inside]], return_counts=True)
    return dict(zip(charged.tolist(), counts.tolist(), strict=True))


def _python(event: Ints, waits: pd.DataFrame) -> pd.Series:
    return waits.loc[event >= 0, "thread_id"]


def calls_of(waits: pd.DataFrame, hooks: pd.DataFrame, matches: Matches) -> pd.DataFrame:
    """What the host did with the device, one row an occurrence, sorted by start.

    Columns: thread_id, start_ns, end_ns, blocked_ns, stack_id (-1: nobody knows), hook (source
    of the hook event, "" if none), name, op, kind, direction, size_bytes, memory,
    non_blocking, blocking, explicit, cause, origin_stack_id, frees (whether memory was
    given back to the driver), runtime_calls (how many waits of the runtime it stands for).

    All that a hook interval spans is one call, but for allocator calls inside something
    else, which stay apart. Hook events without a runtime call make calls of their own.
    """
    event = matches.event
    source = hooks["source"].to_numpy(dtype=object)
    of_interval = np.isin(source[event], [*INTERVALS, "transfer"]) if len(source) else event >= 0
    foreign_alloc = (waits["kind"] == "allocator").to_numpy(dtype=np.bool_)
    if len(hooks):
        foreign_alloc = foreign_alloc & (hooks["kind"].to_numpy(dtype=object)[event] != "allocator")
    grouped = (event >= 0) & of_interval & ~foreign_alloc
    spans = hooks[hooks["source"].isin([*INTERVALS, "transfer"]) & (hooks["kind"] != "race")]
    races = hooks[hooks["kind"] == "race"]
    told = (hooks["source"] == "warning").to_numpy() & ~matches.spent
    told[event[event >= 0]] = False
    parts = [
        _interval_calls(spans, waits[grouped], event[grouped], bool(len(waits))),
        _wait_calls(waits[~grouped], hooks, event[~grouped]),
        _hook_calls(hooks[told], blocking=True),
        _hook_calls(races, blocking=False),
    ]
    filled = [part for part in parts if len(part)] or parts[:1]
    calls = pd.concat(filled, ignore_index=True)
    calls = calls.assign(
        kind=_kinds(calls), name=calls["op"].where(calls["op"] != "", calls["name"])
    )
    return calls.sort_values("start_ns", kind="stable", ignore_index=True)


def _interval_calls(
    spans: pd.DataFrame, waits: pd.DataFrame, event: Ints, measured: bool
) -> pd.DataFrame:
    """Calls of hook intervals, with what their runtime calls know where there are any."""
    calls = _hook_calls(spans, blocking=False).set_index(spans.index)
    waiting = np.where(waits["blocking"], int64(waits, "blocked_ns"), 0)
    grouped = waits.assign(
        blocked_ns=waiting, size_bytes=np.maximum(int64(waits, "size_bytes"), 0),
        direction=waits["direction"].where(waits["direction"] != ""),
        memory=waits["memory"].where(waits["memory"].isin(["pageable", "pinned"])),
    ).groupby(event)  # fmt: skip
    own = grouped.agg(
        start_ns=("start_ns", "min"), end_ns=("end_ns", "max"), blocked_ns=("blocked_ns", "sum"),
        size_bytes=("size_bytes", "sum"), blocking=("blocking", "any"), frees=("frees", "any"),
        runtime_calls=("blocking", "sum"), direction=("direction", "first"),
        memory=("memory", "first"), name=("name", "first"),
    ).reindex(calls.index)  # fmt: skip
    kept = own["start_ns"].notna() | ~spans["twin"]
    calls, own, spans = calls[kept], own[kept], spans[kept]
    seen = own["start_ns"].notna()
    by_hook = _waits_by_hook(spans) & ~((spans["source"] == "explicit") & measured)
    span = calls["end_ns"] - calls["start_ns"]
    size = calls["size_bytes"].where(calls["size_bytes"] >= 0, own["size_bytes"].fillna(-1))
    return calls.assign(
        start_ns=own["start_ns"].fillna(calls["start_ns"]).astype(np.int64),
        end_ns=own["end_ns"].fillna(calls["end_ns"]).astype(np.int64),
        blocked_ns=own["blocked_ns"].fillna(span.where(by_hook, 0)).astype(np.int64),
        blocking=np.where(seen, own["blocking"].eq(True), by_hook),
        frees=np.where(seen, own["frees"].eq(True), calls["frees"]),
        runtime_calls=own["runtime_calls"].fillna(0).astype(np.int64),
        size_bytes=size.astype(np.int64),
        direction=calls["direction"].where(calls["direction"] != "", own["direction"].fillna("")),
        memory=own["memory"].fillna(calls["memory"]),
        name=own["name"].fillna(""),
    ).reset_index(drop=True)  # fmt: skip


def _waits_by_hook(spans: pd.DataFrame) -> pd.Series:
    """Whether a hook interval waits, for all that the hook itself knows."""
    is_copy = spans["source"] == "transfer"
    reads_pageable = (spans["direction"] == "d2h") & (spans["memory"] == "pageable")
    orders_streams = spans["op"].str.contains(r"Work\.wait|query|wait_event|wait_stream")
    return (is_copy & (~spans["non_blocking"] | reads_pageable)) | (~is_copy & ~orders_streams)


def _wait_calls(waits: pd.DataFrame, hooks: pd.DataFrame, event: Ints) -> pd.DataFrame:
    """Calls that are one runtime call each, with the stack of the event that claims them."""
    claimed = hooks.reindex(event)
    known = event >= 0
    stack = claimed["stack_id"].fillna(-1).to_numpy(dtype=np.int64)
    origin = claimed["origin_stack_id"].fillna(-1).to_numpy(dtype=np.int64)
    own_kind = known & (claimed["source"] == "warning").to_numpy()
    blocked = np.where(waits["blocking"], int64(waits, "blocked_ns"), 0)
    return waits.drop(columns=["stream_wait", "hook"]).assign(
        blocked_ns=blocked, stack_id=stack, origin_stack_id=origin,
        hook=claimed["source"].fillna("").to_numpy(dtype=object),
        op=np.where(own_kind, claimed["op"].fillna("").to_numpy(dtype=object), ""),
        cause=np.where(own_kind, claimed["cause"].fillna("").to_numpy(dtype=object), ""),
        non_blocking=~waits["blocking"].to_numpy(),
        explicit=False, runtime_calls=waits["blocking"].to_numpy(dtype=np.int64),
    )  # fmt: skip


def _hook_calls(hooks: pd.DataFrame, *, blocking: bool) -> pd.DataFrame:
    """Calls known from hooks alone; what they cost is known only of intervals."""
    return hooks.assign(
        blocked_ns=(hooks["end_ns"] - hooks["start_ns"]).where(hooks["kind"] != "race", 0),
        hook=hooks["source"],
        name="",
        blocking=blocking,
        frees=hooks["op"].str.contains("free|retry", case=False),
        runtime_calls=0,
    ).drop(columns=["source", "twin"])


def _kinds(calls: pd.DataFrame) -> pd.Series:
    """sync, transfer, allocator or race, by what the call turned out to be.

    A readback of a few bytes is a wait, unless the program asked for a copy by name.
    """
    copies = calls["direction"].isin(["h2d", "d2h"]) & ~calls["explicit"]
    asked = calls["op"].str.contains(_COPYING_OPS)
    small = (calls["direction"] == "d2h") & (calls["size_bytes"] <= READBACK_BYTES) & ~asked
    fixed = calls["kind"].isin(["allocator", "race"])
    kind = pd.Series(np.where(copies & ~small, "transfer", "sync"), index=calls.index)
    return kind.where(~fixed, calls["kind"])
