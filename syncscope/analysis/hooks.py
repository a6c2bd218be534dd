"""What the hooks saw, brought into one table: intervals, moments and scopes."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints, innermost
from syncscope.analysis.texts import is_any
from syncscope.analysis.windows import int64, touching
from syncscope.recording.manifest import Manifest

HOOK_COLUMNS = {
    "thread_id": np.int64,
    "start_ns": np.int64,
    "end_ns": np.int64,
    "stack_id": np.int64,
    "source": object,
    "op": object,
    "kind": object,
    "direction": object,
    "size_bytes": np.int64,
    "memory": object,
    "non_blocking": np.bool_,
    "explicit": np.bool_,
    "cause": object,
    "origin_stack_id": np.int64,
    "twin": np.bool_,
}


def hook_events(
    blocking: pd.DataFrame, transfers: pd.DataFrame, windows: tuple[Ints, Ints]
) -> pd.DataFrame:
    """Rows of both tables that touch the windows, with the columns of HOOK_COLUMNS.

    Sorted by thread and time. Rows from `transfers` have the source "transfer" and the
    kind "transfer". `twin` marks blocking rows that span, or lie in, a transfer of the same
    stack: what two hooks saw. They count only with waits that the transfer does not explain.
    """
    waits = blocking.assign(
        direction="",
        size_bytes=-1,
        memory="",
        non_blocking=False,
        origin_stack_id=-1,
        twin=False,
    )
    copies = transfers.assign(source="transfer", kind="transfer", explicit=False, twin=False)
    frames = [frame[list(HOOK_COLUMNS)] for frame in (waits, copies) if len(frame)]
    if not frames:
        return pd.DataFrame({name: np.empty(0, dtype=t) for name, t in HOOK_COLUMNS.items()})
    events = pd.concat(frames, ignore_index=True)
    ends = np.maximum(int64(events, "end_ns"), int64(events, "start_ns"))
    events = events.assign(end_ns=ends)[touching(int64(events, "start_ns"), ends, windows)]
    events = events.sort_values(["thread_id", "start_ns"], kind="stable", ignore_index=True)
    return events.assign(twin=_twins(events))


def _twins(events: pd.DataFrame) -> Bools:
    """Implicit waits that span a transfer of their own stack, or are spanned by one."""
    twice = np.zeros(len(events), dtype=np.bool_)
    is_copy = (events["source"] == "transfer").to_numpy()
    waits = (events["kind"] == "sync") & ~events["explicit"] & events["source"].isin(INTERVALS)
    candidates = waits & events["stack_id"].isin(events.loc[is_copy, "stack_id"])
    for _, group in events[candidates | is_copy].groupby(["thread_id", "stack_id"]):
        copy = (group["source"] == "transfer").to_numpy()
        if copy.all() or not copy.any():
            continue
        starts, ends = int64(group, "start_ns"), int64(group, "end_ns")
        middle = (starts + ends) // 2
        spanned = innermost(middle[~copy], starts[copy], ends[copy]) >= 0
        order = np.argsort(starts[~copy], kind="stable")
        owner = innermost(middle[copy], starts[~copy][order], ends[~copy][order])
        spanned[order[owner[owner >= 0]]] = True
        twice[group.index.to_numpy()[~copy][spanned]] = True
    return twice


INTERVALS = ("explicit", "import", "shadow")
"""Sources whose rows span the call that they saw, as transfers do."""


def main_thread(hooks: pd.DataFrame, runtime: pd.DataFrame, manifest: Manifest) -> int:
    """The thread that runs the program: it launches most, of those that Python knows.

    Falls back on the thread with the most hook events; -1 where there is neither.
    """
    native = native_threads(manifest)
    launching = is_any(runtime["kind"], _LAUNCHING)
    for own in (int64(runtime, "thread_id")[launching], int64(hooks, "thread_id")):
        threads, counts = np.unique(own, return_counts=True)
        if len(threads):
            counts = np.where(np.isin(threads, list(native)), 0, counts)
            return int(threads[counts.argmax()])
    return -1


_LAUNCHING = ("launch", "memcpy", "memset")


def native_threads(manifest: Manifest) -> frozenset[int]:
    """Threads that Python did not start: autograd's, NCCL's. Known by the names they got."""
    pattern = re.compile(r"(native thread|Dummy-)\b")
    return frozenset(thread.id for thread in manifest.threads if pattern.match(thread.name))
