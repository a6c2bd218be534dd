"""What each call costs: idle time of the device, and copies that nothing overlapped."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.idle import cost_ns
from syncscope.analysis.intervals import Bools, Ints, clip, covered, expand, union
from syncscope.analysis.sites import Group
from syncscope.analysis.texts import is_any
from syncscope.analysis.windows import int64


def exposed_ns(calls: pd.DataFrame, gaps: pd.DataFrame) -> Ints:
    """Per call the idle time charged to it, of the device that lost most.

    Never more than the call kept the host: without it, all that follows would come earlier
    by at most that much. `gaps` has the columns of `idle.explain_gaps`.
    """
    own = _charged(gaps)
    length = own.assign(length=own["end_ns"] - own["start_ns"])
    per_device = length.groupby(["call", "device"])["length"].sum()
    worst = per_device.groupby("call").max()
    charged = np.zeros(len(calls), dtype=np.int64)
    charged[worst.index.to_numpy(dtype=np.int64)] = worst.to_numpy(dtype=np.int64)
    return np.minimum(charged, cost_ns(calls))


def _charged(gaps: pd.DataFrame) -> pd.DataFrame:
    """The gaps that a call is to blame for: few of all, where the host just launches."""
    return gaps.loc[gaps["call"] >= 0, ["device", "start_ns", "end_ns", "call"]]


def copying_ns(calls: pd.DataFrame, activity: pd.DataFrame) -> Ints:
    """Per waited-for transfer the time in which copies ran and nothing computed.

    That is no idle time of the device, but a copy that overlaps with kernels would not cost
    it. 0 for all other calls. `activity` is sorted by start.
    """
    alone = np.zeros(len(calls), dtype=np.int64)
    waits = np.flatnonzero((calls["kind"] == "transfer") & calls["blocking"])
    spans = int64(calls, "start_ns")[waits], int64(calls, "end_ns")[waits]
    starts, ends = int64(activity, "start_ns"), int64(activity, "end_ns")
    reach = np.maximum.accumulate(ends)
    device, moves = int64(activity, "device"), is_any(activity["direction"], ["h2d", "d2h"])
    copies = np.flatnonzero(moves)
    for number in pd.unique(device[copies]).tolist():
        own = copies[device[copies] == number]
        copying = union(starts[own], ends[own])
        first = np.searchsorted(reach, copying[0], side="right")
        last = np.searchsorted(starts, copying[1], side="left")
        _, near = expand(*union(first, last))  # what may run beside a copy
        near = near[(device[near] == number) & ~moves[near]]
        _, *both = clip(*copying, *union(starts[near], ends[near]))
        alone[waits] += covered(*spans, *copying) - covered(*spans, *both)
    return alone


def copying_fraction(calls: pd.DataFrame, activity: pd.DataFrame, steps: pd.DataFrame) -> float:
    """Part of the steps in which only copies ran that the host waited for; mean of the devices."""
    inside = _inside(int64(calls, "start_ns"), steps)
    alone = int(copying_ns(calls, activity)[inside].sum()) / max(activity["device"].nunique(), 1)
    return alone / max(int((int64(steps, "end_ns") - int64(steps, "start_ns")).sum()), 1)


def savings_ns(
    calls: pd.DataFrame, gaps: pd.DataFrame, activity: pd.DataFrame, steps: pd.DataFrame
) -> Ints:
    """Per call an upper bound of what its absence gains, counting only what is in `steps`.

    Idle time counts in the step in which it ends, a copy in the one in which its call began.
    """
    charged = _charged(gaps)
    in_steps = charged[_inside(int64(charged, "end_ns"), steps)]
    copying = np.where(_inside(int64(calls, "start_ns"), steps), copying_ns(calls, activity), 0)
    return np.minimum(exposed_ns(calls, in_steps) + copying, cost_ns(calls))


def bounds_ns(
    groups: list[Group],
    calls: pd.DataFrame,
    gaps: pd.DataFrame,
    activity: pd.DataFrame,
    steps: pd.DataFrame,
    step_count: int,
) -> dict[str, int]:
    """By site an upper bound of what its absence gains, per step.

    The idle time charged to it in `steps` and the time in which copies that it waited for
    ran alone. Where no GPU activity was recorded, the time that the host was blocked.
    """
    if not len(gaps) and not len(activity):
        return {group.id: group.blocked_ns // max(step_count, 1) for group in groups}
    sums = by_site(calls, savings_ns(calls, gaps, activity, steps))
    return {site: total // max(len(steps), 1) for site, total in sums.items()}


def by_site(calls: pd.DataFrame, values: Ints) -> dict[str, int]:
    """Sums of a figure of the calls by their site_id."""
    sums = pd.Series(values).groupby(calls["site_id"].to_numpy(dtype=object)).sum()
    return {str(site): int(value) for site, value in sums.items()}


def calls_per_step(calls: pd.DataFrame, steps: pd.DataFrame) -> dict[str, float]:
    """By site how many of its calls begin in one of the steps, the mean over them."""
    inside = _inside(int64(calls, "start_ns"), steps).astype(np.int64)
    return {site: count / max(len(steps), 1) for site, count in by_site(calls, inside).items()}


def _inside(times: Ints, steps: pd.DataFrame) -> Bools:
    """Which moments lie in one of the sorted, disjoint steps."""
    if not len(steps):
        return np.zeros(len(times), dtype=np.bool_)
    place = np.searchsorted(int64(steps, "start_ns"), times, side="left") - 1
    return np.asarray((place >= 0) & (times <= int64(steps, "end_ns")[place]))
