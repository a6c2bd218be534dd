"""The table of the steps: what each one cost, and why an odd one took long."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd

from syncscope.analysis.intervals import Bools, Ints, covered, union
from syncscope.analysis.robust import tolerance
from syncscope.analysis.sites import Group
from syncscope.analysis.texts import is_any
from syncscope.analysis.windows import int64, spans
from syncscope.records import StepRecord

_HALF, _QUARTER = 0.5, 0.25

Floats: TypeAlias = npt.NDArray[np.float64]


def step_records(
    steps: pd.DataFrame,
    steady: pd.DataFrame,
    calls: pd.DataFrame,
    gaps: pd.DataFrame,
    activity: pd.DataFrame,
    host: pd.DataFrame,
    sites: Sequence[Group],
) -> tuple[StepRecord, ...]:
    """One record a step. `steady` are the rows of `steps` that count (`steps.full_steps`).

    Bytes count in the step in which the call began; times are cut at the edges of a step.
    Calls that wait at the same time on several threads count once. Outliers are sought
    among the steady steps only: those longer than the median by more than `robust.tolerance`.
    Costs O(n log n) in the rows, and for each outlier a pass over its calls and the steps.
    """
    tables = _Tables(steps, calls, gaps, activity, host, {site.id: site for site in sites})
    usual = steps.index.isin(steady.index)
    reasons = _outliers(tables, usual)
    columns = {
        "index": int64(steps, "index"),
        "start_ns": int64(steps, "start_ns"),
        "end_ns": int64(steps, "end_ns"),
        "length_ns": tables.lengths,
        "idle_ns": tables.idle_ns(),
        "blocked_ns": tables.blocked_ns(calls),
        "h2d_bytes": tables.moved_bytes("h2d"),
        "d2h_bytes": tables.moved_bytes("d2h"),
        "steady": usual,
    }
    return tuple(
        StepRecord(
            **{name: values[row].item() for name, values in columns.items()},
            outlier=reasons.get(row, ""),
        )
        for row in range(len(steps))
    )


@dataclass(frozen=True)
class _Tables:
    """The tables of a recording, and sums over them by step (arrays, one value a step)."""

    steps: pd.DataFrame
    calls: pd.DataFrame
    gaps: pd.DataFrame
    activity: pd.DataFrame
    host: pd.DataFrame
    sites: dict[str, Group]

    @property
    def lengths(self) -> Ints:
        return int64(self.steps, "length_ns")

    def time_in(self, starts: Ints, ends: Ints) -> Ints:
        """Time by step that the intervals cover; where they overlap it counts once."""
        whole = union(starts, ends)
        return covered(int64(self.steps, "start_ns"), int64(self.steps, "end_ns"), *whole)

    def time_of(self, table: pd.DataFrame, rows: Bools) -> Ints:
        """`time_in` of some intervals of a table."""
        return self.time_in(*spans(table, rows))

    def step_of(self, times: Ints) -> Ints:
        """Row of the step in which each moment lies, -1 for none."""
        starts, ends = int64(self.steps, "start_ns"), int64(self.steps, "end_ns")
        row = np.searchsorted(starts, times, side="right") - 1
        inside = (row >= 0) & (times < np.append(ends, 0)[row])
        return np.where(inside, row, -1)

    def sum_by_step(self, times: Ints, values: Ints) -> Ints:
        """Sum of the values by the step in which their moments lie."""
        row = self.step_of(times)
        sums = np.zeros(len(self.steps), dtype=np.int64)
        np.add.at(sums, row[row >= 0], values[row >= 0])
        return sums

    def idle_ns(self) -> Ints:
        """Idle time, the mean over the devices."""
        numbers = pd.unique(self.gaps["device"])
        idle = np.zeros(len(self.steps), dtype=np.int64)
        for number in numbers:
            own = spans(self.gaps, (self.gaps["device"] == number).to_numpy())
            idle += covered(int64(self.steps, "start_ns"), int64(self.steps, "end_ns"), *own)
        return idle // max(len(numbers), 1)

    def blocked_ns(self, calls: pd.DataFrame) -> Ints:
        """Time in which these calls kept the host waiting."""
        waits = calls[calls["blocking"]]
        ends = int64(waits, "end_ns")
        return self.time_in(ends - int64(waits, "blocked_ns"), ends)

    def moved_bytes(self, direction: str) -> Ints:
        """Bytes that the host sent off in one direction."""
        moves = self.calls[(self.calls["direction"] == direction) & (self.calls["size_bytes"] > 0)]
        return self.sum_by_step(int64(moves, "start_ns"), int64(moves, "size_bytes"))


@dataclass(frozen=True, slots=True)
class _Difference:
    """Something that an outlier has more of than other steps, and how much time it explains."""

    excess_ns: float
    words: str


def _outliers(tables: _Tables, steady: Bools) -> dict[int, str]:
    """Row of each outlier -> why it took long."""
    rows = np.flatnonzero(steady)
    if not len(rows):
        return {}
    lengths = tables.lengths
    median = float(np.median(lengths[rows]))
    odd = rows[lengths[rows] > median + tolerance(lengths[rows])]
    if not len(odd):
        return {}
    rare, parts = _rare_waits(tables, rows, odd), _parts(tables, rows)
    return {
        int(row): _reason(
            lengths[row] - median,
            [*_rare_sites(tables, int(row), rare.get(row)), *_differences(parts, int(row))],
        )
        for row in odd
    }


def _reason(excess_ns: float, differences: list[_Difference]) -> str:
    """The first difference that explains half of the excess, else the largest, if it is some.

    Causes stand before their effects: a wait is longer because the GPU had more to do.
    """
    whole = f"{_ms(excess_ns)} longer than usual"
    enough = [each for each in differences if each.excess_ns >= _HALF * excess_ns]
    best = enough[:1] or sorted(differences, key=lambda each: -each.excess_ns)[:1]
    if not best or best[0].excess_ns < _QUARTER * excess_ns:
        return f"{whole}: nothing that was recorded explains it"
    return f"{whole}: {best[0].words}"


def _parts(tables: _Tables, steady: Ints) -> list[tuple[str, Floats]]:
    """What may differ between steps, causes first: words with a place for a time, and by how
    much the time exceeds its median over the steady ones, by step."""
    host, calls, activity, gaps = tables.host, tables.calls, tables.activity, tables.gaps
    moves = is_any(activity["direction"], ["h2d", "d2h"])
    collects, loads, allocates, launches = (
        is_any(table[column], [word])
        for table, column, word in (
            (host, "kind", "gc"), (host, "kind", "dataloader"), (calls, "kind", "allocator"),
            (gaps, "cause", "launch"),
        )
    )  # fmt: skip
    named = [
        ("garbage collection took {} more", tables.time_of(host, collects)),
        ("the DataLoader took {} more", tables.time_of(host, loads)),
        ("the allocator took {} more", tables.time_of(calls, allocates)),
        ("copies between host and GPU took {} more", tables.time_of(activity, moves)),
        ("the GPU computed for {} more", tables.time_of(activity, ~moves)),
    ]
    sites = calls[calls["site_id"] != ""].groupby("site_id", sort=True)
    waits = [
        (f"{_name(tables, str(site))} waited {{}} more", tables.blocked_ns(own))
        for site, own in sites
    ]
    host_bound = ("the host left the GPU without work for {} more", tables.time_of(gaps, launches))
    parts = [*named, *waits, host_bound]
    return [(words, times - np.median(times[steady])) for words, times in parts]


def _differences(parts: list[tuple[str, Floats]], row: int) -> Iterator[_Difference]:
    """Each part of which a step has more than usual."""
    for words, excess in parts:
        if excess[row] > 0:
            yield _Difference(float(excess[row]), words.replace("{}", _ms(excess[row])))


def _rare_waits(tables: _Tables, steady: Ints, odd: Ints) -> dict[Any, pd.DataFrame]:
    """By row of the odd steps the calls of sites that less than half of the steady ones reach."""
    calls = tables.calls[tables.calls["site_id"] != ""]
    calls = calls.assign(step=tables.step_of(int64(calls, "start_ns")))
    counts = calls[calls["step"].isin(steady)].groupby("site_id")["step"].nunique()
    here = calls[calls["step"].isin(odd)]
    rare = here[here["site_id"].map(counts).fillna(0) < _HALF * len(steady)]
    return dict(iter(rare.groupby("step")))


def _rare_sites(tables: _Tables, row: int, rare: pd.DataFrame | None) -> Iterator[_Difference]:
    """The waits that most steps do not have: an evaluation, a checkpoint, a log line."""
    if rare is None:
        return
    waited = rare.groupby("site_id")["blocked_ns"].sum()
    others = f" and {len(waited) - 1} more" if len(waited) > 1 else ""
    words = f"{_name(tables, str(waited.idxmax()))}{others}, which most steps do not reach, took "
    total = float(tables.blocked_ns(rare)[row])
    yield _Difference(total, words + _ms(total))


def _name(tables: _Tables, site_id: str) -> str:
    site = tables.sites.get(site_id)
    if site is None:
        return "a wait"
    frame = site.place.frame
    return f"`{site.expression.partition(chr(10))[0]}` in {frame.file}:{frame.line}"


def _ms(time_ns: float) -> str:
    return f"{time_ns / 1e6:,.{1 if time_ns >= 1e6 else 3}f} ms"
