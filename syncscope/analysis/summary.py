"""Put the figures together: sites with costs, causes and verdicts, and the whole summary."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.causes import diagnose
from syncscope.analysis.costs import by_site, exposed_ns, savings_ns
from syncscope.analysis.findings import Finding
from syncscope.analysis.gaps import busy_ns
from syncscope.analysis.intervals import Ints, covered
from syncscope.analysis.sites import Group
from syncscope.analysis.stacks import Stacks
from syncscope.analysis.steps import full_steps
from syncscope.analysis.syntax import Sources
from syncscope.analysis.windows import int64
from syncscope.recording.manifest import Manifest
from syncscope.records import (
    CAUSES_OF_IDLE,
    Coverage,
    GpuSummary,
    RunSummary,
    Site,
    StackFrame,
)

FIX_FRACTION = 0.01
"""A site is worth fixing if it costs more than this part of a step."""


def run_summary(
    manifest: Manifest, windows: tuple[Ints, Ints], steps: pd.DataFrame, marks: Ints, *, cut: bool
) -> RunSummary:
    """What was run. `step_ns` is the median of the full steps."""
    full = full_steps(steps, marks)
    lengths = int64(full, "end_ns") - int64(full, "start_ns")
    window_ns = int((windows[1] - windows[0]).sum())
    median = int(np.median(lengths)) if len(marks) and len(lengths) else window_ns
    names = list(dict.fromkeys(device.name for device in manifest.devices))
    return RunSummary(
        argv=manifest.argv,
        device=", ".join(names),
        simulated=manifest.simulated,
        torch=manifest.versions.get("torch", ""),
        ranks=manifest.world_size,
        steps=max(len(marks), min(1, len(steps))),
        step_ns=median,
        window_ns=window_ns,
        truncated=cut,
        imported=manifest.imported,
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
    spans = int64(steps, "start_ns"), int64(steps, "end_ns")
    steady_ns = int((spans[1] - spans[0]).sum())
    for device in devices:
        own = gaps[gaps["device"] == device]
        starts, ends = int64(own, "start_ns"), int64(own, "end_ns")
        by_cause = _by_cause(own, ends - starts)
        steady = _by_cause(own, covered(starts, ends, *spans))
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
            )
        )
    return tuple(summaries)


def _by_cause(gaps: pd.DataFrame, lengths: Ints) -> dict[str, int]:
    sums = pd.Series(lengths).groupby(gaps["cause"].to_numpy(dtype=object)).sum()
    return {cause: int(sums.get(cause, 0)) for cause in CAUSES_OF_IDLE}


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


def site_records(
    groups: list[Group],
    calls: pd.DataFrame,
    activity: pd.DataFrame,
    gaps: pd.DataFrame,
    run: RunSummary,
    steps: pd.DataFrame,
    sources: Sources,
) -> tuple[Site, ...]:
    """Sites with their costs, flagged and dear ones first.

    `savings_ns_per_step` is the idle time charged to a site in the steps that began and
    ended with a mark, and the time in which its waited-for copies ran alone, per such step.
    Where no GPU activity was recorded, the time that the host was blocked stands in for it:
    an upper bound as well.
    """
    exposed = by_site(calls, exposed_ns(calls, gaps))
    savings = by_site(calls, savings_ns(calls, gaps, activity, steps))
    records = []
    for group in groups:
        saved = savings.get(group.id, 0) // max(len(steps), 1)
        if not len(gaps) and not len(activity):
            saved = group.blocked_ns // max(run.steps, 1)
        records.append(_site(group, exposed.get(group.id, 0), saved, run, sources))
    return tuple(sorted(records, key=_rank))


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


def _site(group: Group, exposed: int, saved: int, run: RunSummary, sources: Sources) -> Site:
    frame = group.place.frame
    cause, advice = diagnose(Finding(group, sources.expression(frame)))
    pageable = {"pageable": True, "pinned": False}.get(group.memory)
    return Site(
        id=group.id,
        file=frame.file,
        line=frame.line,
        end_line=frame.end_line,
        column=frame.column,
        end_column=frame.end_column,
        function=frame.function,
        expression=frame.expression or group.op,
        library_line=group.place.library_line,
        owner=group.place.owner,
        op=group.op,
        kind=group.kind,
        explicit=group.explicit,
        blocking=group.blocking,
        direction=group.direction or None,
        pageable=pageable,
        cause=cause,
        count=group.count,
        per_step=group.count / max(run.steps, 1),
        size_bytes=group.size_bytes,
        blocked_ns=group.blocked_ns,
        exposed_idle_ns=exposed,
        savings_ns_per_step=saved,
        flagged=group.flagged,
        verdict=_verdict(group, saved, run.step_ns),
        advice=advice,
        sampled=group.sampled,
        stack=tuple(StackFrame(f.file, f.line, f.function) for f in group.place.stack),
    )


def _verdict(group: Group, saved_ns: int, step_ns: int) -> str:
    if group.kind == "race":
        return "unsafe"
    return "fix" if group.flagged and saved_ns > FIX_FRACTION * step_ns else "harmless"
