"""What detail steps know of operators, given to the calls of all steps at the same line.

In a detail step torch's dispatcher was watched: its rows name the operator, where a host
tensor was made, and for a backward operator the line of the forward pass. Times of detail
steps are used for nothing but for order; lines are the same in every step.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Ints, innermost
from syncscope.analysis.stacks import Stacks
from syncscope.analysis.windows import int64


def with_details(
    calls: pd.DataFrame, ops: pd.DataFrame, blocking: pd.DataFrame, stacks: Stacks
) -> pd.DataFrame:
    """The calls (`join.calls_of`) with op, origin and forward line where those are certain.

    `ops` and `blocking` are the tables of the recording. A line at which several operators
    wait keeps what the hooks said.
    """
    if not len(ops) or not len(calls):
        return calls
    in_backward = (ops["forward_stack_id"] >= 0).to_numpy()
    calls = _with_ops(calls, ops[~in_backward], stacks)
    scopes = blocking[blocking["source"] == "scope"].sort_values("start_ns")
    waits = ops[in_backward & ops["blocking"].to_numpy()]
    return _with_forward_lines(calls, waits, scopes, stacks)


def _with_ops(calls: pd.DataFrame, ops: pd.DataFrame, stacks: Stacks) -> pd.DataFrame:
    line, known = _lines(calls["stack_id"], stacks), _lines(ops["stack_id"], stacks)
    op = line.map(_only(known[ops["blocking"]], ops["op"]))
    origin = line.map(_only(known[ops["origin_stack_id"] >= 0], ops["origin_stack_id"]))
    silent = (calls["op"] == "") & (calls["hook"] != "") & op.notna()
    uploads = (calls["origin_stack_id"] < 0) & (calls["direction"] == "h2d") & origin.notna()
    return calls.assign(
        op=calls["op"].where(~silent, op),
        origin_stack_id=calls["origin_stack_id"].where(~uploads, origin).astype(np.int64),
    )


def _lines(stack_ids: pd.Series, stacks: Stacks) -> pd.Series:
    """The frame at which each stack is shown."""
    return stack_ids.map(lambda stack: stacks.place(int(stack)).frame.id).astype(np.int64)


def _only(lines: pd.Series, values: pd.Series) -> pd.Series:
    """By line the value that all of its rows have; lines whose rows differ are left out."""
    by_line = values[lines.index].groupby(lines)
    only: pd.Series = by_line.first()[(by_line.nunique() == 1) & (by_line.first().index >= 0)]
    return only


def _with_forward_lines(
    calls: pd.DataFrame, waits: pd.DataFrame, scopes: pd.DataFrame, stacks: Stacks
) -> pd.DataFrame:
    """Waits of a backward pass go to the forward lines, in the order of a detail step.

    If as many waited as in the detail step, each has its own line; if another number did,
    they have one only where all of the detail step's have the same.
    """
    backward = calls["hook"].isin(["warning", "scope"]) & calls["blocking"]
    rows = np.flatnonzero(backward.to_numpy())
    patterns = _patterns(waits, scopes, stacks)
    if not len(rows) or not patterns:
        return calls
    line = _lines(scopes["stack_id"], stacks).to_numpy()
    scope = _scope_of(int64(calls, "start_ns")[rows], scopes)
    stack = int64(calls, "stack_id").copy()
    at_scope = _lines(calls["stack_id"], stacks).to_numpy()[rows] == line[scope]
    for number in np.unique(scope[(scope >= 0) & at_scope]):
        mine = rows[(scope == number) & at_scope]
        pattern = patterns.get(int(line[number]), ())
        if len(pattern) == len(mine) or len(set(pattern)) == 1:
            stack[mine] = np.resize(np.array(pattern), len(mine))
    return calls.assign(stack_id=stack)


def _patterns(
    waits: pd.DataFrame, scopes: pd.DataFrame, stacks: Stacks
) -> dict[int, tuple[int, ...]]:
    """Line of each `backward` call -> forward stacks of the waits of its last detail step."""
    waits = waits.sort_values("start_ns")
    scope = _scope_of(int64(waits, "start_ns"), scopes)
    line = _lines(scopes["stack_id"], stacks).to_numpy()
    forward = int64(waits, "forward_stack_id")
    return {
        int(line[number]): tuple(forward[scope == number].tolist())
        for number in np.unique(scope[scope >= 0])
    }


def _scope_of(times: Ints, scopes: pd.DataFrame) -> Ints:
    """Position of the innermost scope around each moment, or -1."""
    return innermost(times, int64(scopes, "start_ns"), int64(scopes, "end_ns"))
