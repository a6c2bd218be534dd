"""Sites: calls gathered by the place in the code that made them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
    known = known.assign(
        step=np.searchsorted(marks, int64(known, "start_ns"), side="left"),
        in_loop=_in_loop(int64(known, "start_ns"), marks),
    )
    return [
        _group(str(name), own, stacks, len(marks))
        for name, own in known.groupby("site_id", sort=False)
    ]


def _in_loop(starts: Ints, marks: Ints) -> Bools:
    """Between the first and the last mark; everywhere if there are no two of them."""
    if len(marks) < 2:
        return np.ones(len(starts), dtype=np.bool_)
    return np.asarray((starts >= marks[0]) & (starts <= marks[-1]))


def _group(name: str, own: pd.DataFrame, stacks: Stacks, marks: int) -> Group:
    first = own.iloc[0]
    memory = _most_frequent(own["memory"])
    return Group(
        id=name,
        place=stacks.place(int(own["stack_id"].mode().iat[0])),
        origin=stacks.place(int(own["origin_stack_id"].max())),
        kind=first["kind"],
        direction=first["direction"],
        explicit=bool(first["explicit"]),
        op=_most_frequent(own["op"]),
        hook_cause=_most_frequent(own["cause"]),
        memory=memory,
        non_blocking=bool(own["non_blocking"].all()),
        blocking=bool(own["blocking"].any()),
        sampled=bool((own["hook"] == "sampled").all()),
        count=len(own),
        size_bytes=int(own["size_bytes"].clip(lower=0).sum()),
        blocked_ns=int(own["blocked_ns"].sum()),
        flagged=_flagged(own, stacks, marks),
    )


def _flagged(own: pd.DataFrame, stacks: Stacks, marks: int) -> bool:
    """Whether a site is a problem, as DESIGN.md defines it.

    - races: always;
    - allocator calls: when memory was given back to the driver, which drains the device,
      or when they still happen after WARM_STEPS steps; explicit ones (`empty_cache`) only
      inside the step loop, or, without steps, from the second on. Growing the pool at first
      is what every run does.
    - explicit waits: inside the step loop; without steps everything is inside;
    - implicit waits: always, but for moving a whole module before the loop;
    - copies that do not wait: when they use pageable memory.
    """
    kind, explicit = own["kind"].iat[0], bool(own["explicit"].iat[0])
    blocking = bool(own["blocking"].any())
    if kind == "race":
        return True
    if kind == "allocator":
        if explicit:
            return bool(own["in_loop"].sum() > (marks < 2))
        late = own["step"] >= WARM_STEPS
        return bool(
            own["frees"].any()
            or own["cause"].isin(FLAGGED_CAUSES).any()
            or (marks and own.loc[late, "step"].nunique() > 1)
        )
    if explicit:
        return blocking and bool(own["in_loop"].any())
    if _moves_module(own, stacks) and own["step"].nunique() < 2:
        return False
    return blocking or (kind == "transfer" and bool((own["memory"] == "pageable").any()))


def _moves_module(own: pd.DataFrame, stacks: Stacks) -> bool:
    return all(
        any(frame.function.startswith("Module._apply") for frame in stacks.place(int(stack)).inner)
        or str(op).startswith("Module.")
        for stack, op in own[["stack_id", "op"]].drop_duplicates().itertuples(index=False)
    )


def _most_frequent(values: pd.Series) -> str:
    """The most frequent of the values that are not ""; "" if there is none."""
    counts = values[values != ""].value_counts()
    return str(counts.index[0]) if len(counts) else ""


def charged_ns(gaps: pd.DataFrame, within: Iterable[tuple[int, int]] | None = None) -> dict[str, int]:
    """Idle time by site_id, of the device that lost most: a gap counts where it ends.

    With `within`, only gaps that end in one of these sorted, disjoint intervals count.
    """
    own = gaps[gaps["site_id"] != ""]
    if within is not None:
        bounds = np.array(list(within), dtype=np.int64).reshape(-1, 2)
        ends = int64(own, "end_ns")
        if not len(bounds):
            return {}
        place = np.searchsorted(bounds[:, 0], ends, side="left") - 1
        own = own[(place >= 0) & (ends <= bounds[place, 1])]
    length = own.assign(length=own["end_ns"] - own["start_ns"])
    per_device = length.groupby(["site_id", "device"])["length"].sum()
    return {str(key): int(value) for key, value in per_device.groupby("site_id").max().items()}
