"""Sites: calls gathered by the place in the code that made them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints
from syncscope.analysis.stacks import Place, Stacks
from syncscope.analysis.windows import int64

WARM_STEPS = 3
"""Steps in which an allocator may still grow its pool."""

FLAGGED_CAUSES = ("allocator_churn",)
"""Causes that a hook gives only to what is a problem."""


@dataclass(frozen=True, slots=True)
class Group:
    """All calls of one site, summed over the windows. Costs in ns."""

    id: str
    place: Place
    origin: Place
    kind: str
    direction: str
    explicit: bool
    op: str
    hook_cause: str
    memory: str
    non_blocking: bool
    blocking: bool
    sampled: bool
    count: int
    size_bytes: int
    blocked_ns: int
    flagged: bool

    @property
    def expression(self) -> str:
        """What is shown of it: the code, or where that is unknown the op."""
        return self.place.frame.expression or self.op


def with_sites(calls: pd.DataFrame, stacks: Stacks) -> pd.DataFrame:
    """The calls with their site_id ("" where no hook event claims a call)."""
    keys = ["stack_id", "kind", "direction", "explicit", "op"]
    codes = calls.groupby(keys, sort=False).ngroup().to_numpy()
    distinct = calls.assign(code=codes).drop_duplicates("code").sort_values("code")
    ids = [
        site_id(stacks.place(int(stack)), kind, direction, bool(explicit), op)
        for stack, kind, direction, explicit, op in distinct[keys].itertuples(index=False)
    ]
    labels = np.array(ids, dtype=object)[codes] if len(codes) else np.array([], dtype=object)
    return calls.assign(site_id=np.where(calls["hook"] == "", "", labels))


def site_id(place: Place, kind: str, direction: str, explicit: bool, op: str) -> str:
    """Short, stable name of a site; the op tells places apart only where there is no line."""
    frame = place.frame
    where: Sequence[object] = (op,) if not place.known else (
        frame.file, frame.function, frame.line, frame.end_line, frame.column, frame.end_column
    )  # fmt: skip
    text = "\0".join(str(part) for part in (*where, kind, direction, explicit))
    return hashlib.blake2s(text.encode(errors="replace"), digest_size=6).hexdigest()


def group_calls(calls: pd.DataFrame, stacks: Stacks, marks: Ints) -> list[Group]:
    """One group per site, in the order of first occurrence."""
    known = calls[calls["site_id"] != ""]
    starts = int64(known, "start_ns")
    in_loop = _in_loop(starts, marks)
    known = known.assign(
        step=np.searchsorted(marks, starts, side="left"),
        in_loop=in_loop,
        size_bytes=known["size_bytes"].clip(lower=0),
        pageable=known["memory"] == "pageable",
        churn=(known["cause"].isin(FLAGGED_CAUSES) | known["frees"]) & in_loop,
        sampled=known["hook"] == "sampled",
        moves_module=_moves_module(known, stacks),
    )
    sites = known.groupby("site_id", sort=False)
    figures = sites.agg(
        kind=("kind", "first"), direction=("direction", "first"), explicit=("explicit", "first"),
        count=("start_ns", "size"), size_bytes=("size_bytes", "sum"),
        blocked_ns=("blocked_ns", "sum"), origin_stack_id=("origin_stack_id", "max"),
        non_blocking=("non_blocking", "all"), blocking=("blocking", "any"),
        sampled=("sampled", "all"), churn=("churn", "any"), pageable=("pageable", "any"),
        moves_module=("moves_module", "all"), loop_count=("in_loop", "sum"),
        steps=("step", "nunique"),
    )  # fmt: skip
    late = known[known["step"] >= WARM_STEPS].groupby("site_id")["step"].nunique()
    figures = figures.assign(
        late_steps=late.reindex(figures.index).fillna(0) if len(marks) else 0,
        **{name: _most_frequent(known, name) for name in ("stack_id", "op", "cause", "memory")},
    )
    return [_group(figure, stacks, len(marks)) for figure in figures.reset_index().itertuples()]


def _in_loop(starts: Ints, marks: Ints) -> Bools:
    """Between the first and the last mark; everywhere if there are no two of them."""
    if len(marks) < 2:
        return np.ones(len(starts), dtype=np.bool_)
    return np.asarray((starts >= marks[0]) & (starts <= marks[-1]))


def _moves_module(calls: pd.DataFrame, stacks: Stacks) -> list[bool]:
    """Whether a call moves the parameters of a whole module, one after the other."""
    known = {
        stack: any(
            frame.function.startswith("Module._apply") for frame in stacks.place(stack).inner
        )
        for stack in calls["stack_id"].unique().tolist()
    }
    return [known[stack] for stack in calls["stack_id"].tolist()]


def _group(figure: Any, stacks: Stacks, marks: int) -> Group:
    return Group(
        id=figure.site_id,
        place=stacks.place(int(figure.stack_id)),
        origin=stacks.place(int(figure.origin_stack_id)),
        kind=figure.kind,
        direction=figure.direction,
        explicit=bool(figure.explicit),
        op=figure.op,
        hook_cause=figure.cause,
        memory=figure.memory,
        non_blocking=bool(figure.non_blocking),
        blocking=bool(figure.blocking),
        sampled=bool(figure.sampled),
        count=int(figure.count),
        size_bytes=int(figure.size_bytes),
        blocked_ns=int(figure.blocked_ns),
        flagged=_flagged(figure, marks),
    )


def _flagged(figure: Any, marks: int) -> bool:
    """Whether a site is a problem, as DESIGN.md defines it.

    - races: always;
    - allocator calls: when memory was given back to the driver inside the step loop (without
      steps: anywhere), which drains the device, or when they still happen in steps after
      WARM_STEPS; explicit ones (`empty_cache`) only inside the step loop, or, without steps,
      from the second on. Growing the pool at first is what every run does.
    - explicit waits: inside the step loop; without steps everything is inside;
    - implicit waits: always, but for moving a whole module once;
    - copies that do not wait: when they use pageable memory.
    """
    if figure.kind == "race":
        return True
    if figure.kind == "allocator":
        if figure.explicit:
            return bool(figure.loop_count > (marks < 2))
        return bool(figure.churn or figure.late_steps > 1)
    if figure.explicit:
        return bool(figure.blocking and figure.loop_count)
    if figure.moves_module and figure.steps < 2:
        return False
    return bool(figure.blocking or (figure.kind == "transfer" and figure.pageable))


def _most_frequent(calls: pd.DataFrame, column: str) -> pd.Series:
    """By site_id, the most frequent value of a column that is not ""; "" if there is none."""
    told = calls[calls[column].ne("")]
    counts = told.groupby(["site_id", column], sort=False).size().reset_index(name="times")
    counts = counts.sort_values("times", ascending=False, kind="stable")
    best = counts.drop_duplicates("site_id").set_index("site_id")[column]
    sites = calls["site_id"].drop_duplicates().to_numpy()
    return best.reindex(sites).fillna("") if best.dtype.kind != "i" else best.reindex(sites)
