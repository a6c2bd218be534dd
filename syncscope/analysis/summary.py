"""Put the figures together: sites with costs, causes and verdicts, and the whole summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pandas as pd

from syncscope.analysis.causes import diagnose
from syncscope.analysis.findings import Finding
from syncscope.analysis.gaps import busy_ns, stream_summaries
from syncscope.analysis.intervals import Ints, covered, innermost, total, union
from syncscope.analysis.origins import origin_of
from syncscope.analysis.replay_forecast import Forecast
from syncscope.analysis.sites import Group
from syncscope.analysis.stacks import Stacks
from syncscope.analysis.steps import full_steps
from syncscope.analysis.syntax import Sources
from syncscope.analysis.texts import coded
from syncscope.analysis.windows import int64, spans
from syncscope.recording.manifest import Manifest
from syncscope.records import (
    CAUSES_OF_IDLE,
    Advice,
    Coverage,
    GpuSummary,
    Origin,
    RunSummary,
    Site,
    StackFrame,
)


class Diagnosis(NamedTuple):
    """A site, why it waits or copies, and what to write instead."""

    group: Group
    cause: str
    advice: Advice
    origin: Origin | None


def run_summary(
    manifest: Manifest,
    windows: tuple[Ints, Ints],
    steps: pd.DataFrame,
    marks: Ints,
    *,
    cut: bool,
    live: bool | None,
) -> RunSummary:
    """What was run. `step_ns` is the median of the full steps."""
    full = full_steps(steps, marks)
    lengths = int64(full, "length_ns")
    window_ns = int((windows[1] - windows[0]).sum())
    median = int(np.median(lengths)) if len(marks) and len(lengths) else window_ns
    names = list(dict.fromkeys(device.name for device in manifest.devices))
    return RunSummary(
        argv=manifest.argv,
        device=", ".join(names),
        simulated=manifest.simulated,
        torch=manifest.versions.get("torch", ""),
        ranks=manifest.world_size,
        steps=len(steps),
        step_ns=median,
        window_ns=window_ns,
        truncated=cut,
        imported=manifest.imported,
        live=live,
    )


def gpu_summaries(
    activity: pd.DataFrame,
    gaps: pd.DataFrame,
    devices: list[int],
    window_ns: int,
    steps: pd.DataFrame,
    rank: int,
) -> tuple[GpuSummary, ...]:
    """Busy and idle time of each device, idle time by cause; they add up to the windows.

    `steps` are the full ones: sorted and disjoint.
    """
    summaries = []
    steady_spans = union(int64(steps, "start_ns"), int64(steps, "end_ns"))
    steady_ns = total(*steady_spans)
    for device in devices:
        mine = (gaps["device"] == device).to_numpy()
        starts, ends = spans(gaps, mine)
        by_cause = _by_cause(gaps["cause"][mine], ends - starts)
        steady = _by_cause(gaps["cause"][mine], covered(starts, ends, *steady_spans))
        idle = sum(by_cause.values())
        summaries.append(
            GpuSummary(
                rank=rank,
                device=device,
                busy_ns=busy_ns(activity, device),
                idle_ns=idle,
                idle_fraction=idle / window_ns if window_ns else 0.0,
                idle_by_cause_ns=by_cause,
                steady_idle_fraction=sum(steady.values()) / steady_ns if steady_ns else 0.0,
                steady_idle_by_cause_ns=steady,
                streams=stream_summaries(activity, device),
            )
        )
    return tuple(summaries)


def _by_cause(column: pd.Series, lengths: Ints) -> dict[str, int]:
    codes, causes = coded(column)
    sums = np.bincount(codes, lengths, minlength=len(causes))  # exact: below 2**53 ns
    return dict.fromkeys(CAUSES_OF_IDLE, 0) | {
        cause: int(time) for cause, time in zip(causes, sums, strict=True)
    }


def coverage_of(calls: pd.DataFrame, stacks: Stacks, manifest: Manifest) -> Coverage:
    """How many waits of the runtime have a line; hook events count where none were recorded."""
    waits = calls[calls["blocking"]]
    weight = int64(waits, "runtime_calls")
    if not weight.sum():
        weight = np.ones(len(waits), dtype=np.int64)
    known = {stack: stacks.place(int(stack)).known for stack in waits["stack_id"].unique().tolist()}
    attributed = int(weight[waits["stack_id"].map(known).to_numpy(dtype=np.bool_)].sum())
    total = int(weight.sum())
    lost = sum(collector.lost for collector in manifest.collectors)
    return Coverage(total, attributed, total - attributed, lost)


@dataclass(frozen=True, slots=True)
class Costs:
    """By site: its calls in a steady step, idle time in all (ns), an upper bound of the savings
    per step (ns), and the reason that somebody gave for leaving it as it is. And what the
    replay says."""

    per_step: Mapping[str, float]
    exposed_ns: Mapping[str, int]
    bounds_ns: Mapping[str, int]
    reasons: Mapping[str, str]
    forecast: Forecast

    def saved_ns(self, site: str) -> int:
        """What the replay says, else the upper bound."""
        return self.forecast.savings_ns.get(site, self.bounds_ns.get(site, 0))

    def worth_fixing(self, site: str, step_ns: int) -> bool:
        """By the replay, alone or with others; else by the upper bound."""
        if self.forecast.trusted:
            return site in self.forecast.fix
        return self.saved_ns(site) > self.forecast.least_fraction * step_ns


def allowed_reasons(calls: pd.DataFrame, host: pd.DataFrame, main: int) -> dict[str, str]:
    """By site the reason for which all its calls are allowed (`syncscope.allow`).

    A call is allowed if it begins in an interval of kind "allow" on its own thread, or, when
    its thread has none, on the main one: autograd's threads work for that.
    """
    allowed = host[host["kind"] == "allow"]
    if not len(allowed):
        return {}
    own = calls["thread_id"].where(calls["thread_id"].isin(allowed["thread_id"]), main)
    reason = np.full(len(calls), -1, dtype=np.int64)
    for thread, group in allowed.groupby("thread_id"):
        mine = np.flatnonzero(own == thread)
        bounds = int64(group, "start_ns"), int64(group, "end_ns")
        inner = innermost(int64(calls, "start_ns")[mine], *bounds)
        reason[mine[inner >= 0]] = group.index.to_numpy()[inner[inner >= 0]]
    told = calls.assign(reason=reason)[calls["site_id"] != ""]
    whole = told.groupby("site_id")["reason"].agg(["min", "first"])
    whole = whole[whole["min"] >= 0]
    return {str(site): str(host["name"][row]) for site, row in whole["first"].items()}


def diagnosed(groups: list[Group], sources: Sources) -> list[Diagnosis]:
    """Each site with its cause and the advice for it."""
    findings = [Finding(group, sources.expression(group.place.frame)) for group in groups]
    return [Diagnosis(each.group, *diagnose(each), origin_of(each)) for each in findings]


def site_records(diagnoses: list[Diagnosis], costs: Costs, run: RunSummary) -> tuple[Site, ...]:
    """Sites with their costs, flagged and dear ones first."""
    return tuple(sorted((_site(told, costs, run) for told in diagnoses), key=_rank))


def _rank(site: Site) -> tuple[object, ...]:
    order = {"unsafe": 0, "fix": 1}
    return (
        not site.flagged,
        order.get(site.verdict, 2),
        -site.savings_ns_per_step,
        -site.blocked_ns,
        site.file,
        site.line,
        site.id,
    )


def _site(told: Diagnosis, costs: Costs, run: RunSummary) -> Site:
    group, frame = told.group, told.group.place.frame
    reason, pays = costs.reasons.get(group.id), costs.worth_fixing(group.id, run.step_ns)
    pageable = {"pageable": True, "pinned": False}.get(group.memory)
    return Site(
        id=group.id,
        file=frame.file,
        line=frame.line,
        end_line=frame.end_line,
        column=frame.column,
        end_column=frame.end_column,
        function=frame.function,
        expression=group.expression,
        library_line=group.place.library_line,
        owner=group.place.owner,
        op=group.op,
        kind=group.kind,
        explicit=group.explicit,
        blocking=group.blocking,
        direction=group.direction or None,
        pageable=pageable,
        cause=told.cause,
        count=group.count,
        per_step=costs.per_step.get(group.id, 0.0),
        size_bytes=group.size_bytes,
        blocked_ns=group.blocked_ns,
        exposed_idle_ns=costs.exposed_ns.get(group.id, 0),
        savings_ns_per_step=costs.saved_ns(group.id),
        flagged=group.flagged and reason is None,
        verdict=_verdict(group, pays, allowed=reason is not None),
        advice=told.advice,
        sampled=group.sampled,
        stack=tuple(StackFrame(f.file, f.line, f.function) for f in group.place.stack),
        origin=told.origin,
        moves_to=costs.forecast.moves_to.get(group.id),
        reason=reason or "",
    )


def _verdict(group: Group, pays: bool, *, allowed: bool) -> str:
    if group.kind == "race":
        return "unsafe"
    if allowed and group.flagged:
        return "allowed"
    return "fix" if group.flagged and pays else "harmless"
