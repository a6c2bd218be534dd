"""From a recording to its analysis: the order in which the parts are put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from syncscope.analysis.costs import (
    bounds_ns,
    by_site,
    calls_per_step,
    copying_fraction,
    exposed_ns,
)
from syncscope.analysis.detail import with_details
from syncscope.analysis.gaps import idle_gaps
from syncscope.analysis.hooks import hook_events, main_thread, native_threads
from syncscope.analysis.idle import explain_gaps
from syncscope.analysis.intervals import Ints
from syncscope.analysis.join import calls_of, match
from syncscope.analysis.launch_pace import launch_pace
from syncscope.analysis.regime import regime_of
from syncscope.analysis.replay import Program
from syncscope.analysis.replay_cures import WhatIf, cure_of
from syncscope.analysis.replay_forecast import forecast
from syncscope.analysis.replay_program import program_of
from syncscope.analysis.result import Analysis
from syncscope.analysis.second_thread import SecondThread
from syncscope.analysis.sites import group_calls, with_sites
from syncscope.analysis.stacks import Stacks
from syncscope.analysis.step_records import step_records
from syncscope.analysis.steps import full_steps, step_marks, step_table, with_lengths
from syncscope.analysis.summary import (
    Costs,
    allowed_reasons,
    coverage_of,
    diagnosed,
    gpu_summaries,
    run_summary,
    site_records,
)
from syncscope.analysis.syntax import Sources
from syncscope.analysis.waits import runtime_waits
from syncscope.analysis.windows import clipped, int64, windows_of
from syncscope.recording.manifest import Manifest
from syncscope.recording.reader import Recording
from syncscope.records import RunSummary, Summary

CALL_COLUMNS = [
    "thread_id", "start_ns", "end_ns", "site_id", "name", "kind", "direction", "size_bytes",
    "blocking", "explicit",
]  # fmt: skip


@dataclass(frozen=True)
class _Events:
    """The tables that the figures are made of, and the moments that bound them."""

    windows: tuple[Ints, Ints]
    stacks: Stacks
    hooks: pd.DataFrame
    main: int
    activity: pd.DataFrame
    host: pd.DataFrame
    calls: pd.DataFrame
    gaps: pd.DataFrame
    marks: Ints
    steps: pd.DataFrame
    steady: pd.DataFrame
    program: Program | None


def analyze(
    recording: Recording, progress: Callable[[float], None] = lambda part: None
) -> Analysis:
    """Analyse one recording, real, simulated or imported. Costs O(n log n) in its rows.

    `progress` is told the part that is done, 0 to 1. Raises RecordingError if a table is
    damaged. A second thread does what the rest does not wait for; the result is that of one.
    """
    with SecondThread() as second:
        events = _events(recording, second, progress)
        run = run_summary(
            recording.manifest, events.windows, events.steps, events.marks,
            cut=recording.truncated, live=recording.live,
        )  # fmt: skip
        program = events.program
        what_if = WhatIf(program, events.calls, events.steady, run.device) if program else None
        progress(0.7)
        summary = _summary(recording, events, run, what_if, second, progress)
    progress(1.0)
    nvml = recording.table("nvml").sort_values("time_ns", kind="stable", ignore_index=True)
    return Analysis(
        manifest=recording.manifest,
        summary=summary,
        calls=events.calls[CALL_COLUMNS],
        activity=events.activity,
        gaps=events.gaps.drop(columns="call"),
        steps=events.steps,
        host=events.host,
        nvml=nvml,
        sources=recording.sources,
        what_if=what_if,
    )


def _events(
    recording: Recording, second: SecondThread, progress: Callable[[float], None]
) -> _Events:
    reading = second.submit(recording.table, "runtime")
    recording.table("activity")
    runtime = reading.result()
    progress(0.15)
    windows = windows_of(recording)
    stacks = Stacks(recording.table("frames"), recording.table("stacks"))
    marks = step_marks(recording.table("steps"), windows)
    steps = step_table(marks, windows)
    steady = full_steps(steps, marks)
    hooks = hook_events(recording.table("blocking"), recording.table("transfers"), windows)
    main = main_thread(hooks, runtime, recording.manifest)
    replayable = second.submit(
        program_of, recording.table("activity"), runtime, windows, steady, recording.manifest, main
    )
    host = clipped(recording.table("host"), windows)
    activity = clipped(recording.table("activity"), windows)
    calls = with_sites(_calls(recording, hooks, windows, stacks), stacks)
    progress(0.4)
    gaps = _gaps(recording, activity, calls, host, windows, main)
    progress(0.65)
    program = replayable.result()
    steps = with_lengths(steps, program.done_by if program else None)
    steady = steps.loc[steady.index]
    return _Events(
        windows, stacks, hooks, main, activity, host, calls, gaps, marks, steps, steady, program
    )


def _summary(
    recording: Recording,
    events: _Events,
    run: RunSummary,
    what_if: WhatIf | None,
    second: SecondThread,
    progress: Callable[[float], None],
) -> Summary:
    calls, activity, gaps = events.calls, events.activity, events.gaps
    steps, steady, manifest = events.steps, events.steady, recording.manifest
    groups = group_calls(calls, events.stacks, events.marks)
    diagnoses = diagnosed(groups, Sources(recording.sources))
    reasons = allowed_reasons(calls, events.host, events.main)
    cures = [
        cure_of(told.group.id, told.group.kind, told.group.memory == "pageable", told.cause)
        for told in diagnoses
        if told.group.flagged and told.group.kind != "race" and told.group.id not in reasons
    ]
    bounds = bounds_ns(groups, calls, gaps, activity, steady, run.steps)
    replaying = second.submit(forecast, what_if, cures, bounds)
    devices = sorted(_devices(gaps) | _devices(activity))
    gpus = gpu_summaries(activity, gaps, devices, run.window_ns, steady, manifest.rank)
    records = step_records(steps, steady, calls, gaps, activity, events.host, groups)
    copying, pace = copying_fraction(calls, activity, steady), launch_pace(activity, gaps, steady)
    progress(0.85)
    replayed = replaying.result()
    costs = Costs(
        calls_per_step(calls, steady), by_site(calls, exposed_ns(calls, gaps)), bounds, reasons,
        replayed,
    )  # fmt: skip
    return Summary(
        run=run,
        gpu=gpus,
        sites=site_records(diagnoses, costs, run),
        coverage=coverage_of(calls, events.stacks, manifest),
        replay=replayed.record(run.step_ns),
        overhead=dict(manifest.overhead),
        regime=regime_of(gpus, copying, replayed.best_fraction),
        launches=pace,
        steps=records,
    )


def _calls(
    recording: Recording, hooks: pd.DataFrame, windows: tuple[Ints, Ints], stacks: Stacks
) -> pd.DataFrame:
    waits = runtime_waits(recording.table("runtime"), recording.table("activity"), hooks, windows)
    matches = match(waits, hooks, stacks, native_threads(recording.manifest))
    calls = calls_of(waits, hooks, matches)
    return with_details(calls, recording.table("ops"), recording.table("blocking"), stacks)


def _gaps(
    recording: Recording,
    activity: pd.DataFrame,
    calls: pd.DataFrame,
    host: pd.DataFrame,
    windows: tuple[Ints, Ints],
    main: int,
) -> pd.DataFrame:
    """The gaps with cause and site, sorted by start."""
    manifest, runtime = recording.manifest, recording.table("runtime")
    devices = _devices(activity) or _silent_devices(manifest)
    gaps = idle_gaps(activity, sorted(devices), windows)
    gaps = explain_gaps(gaps, activity, runtime, calls, host, manifest, main)
    sites = pd.Categorical(np.append(calls["site_id"].to_numpy(dtype=object), ""))
    gaps = gaps.assign(site_id=sites[int64(gaps, "call")])
    if len(devices) == 1:  # sorted already
        return gaps
    return gaps.sort_values(["start_ns", "device"], kind="stable", ignore_index=True)


def _devices(rows: pd.DataFrame) -> set[int]:
    return {int(device) for device in rows["device"].unique()}


def _silent_devices(manifest: Manifest) -> set[int]:
    """The device that ran nothing although its activity was recorded; none if it was not."""
    watched = manifest.simulated or any(
        collector.name == "activity" and collector.state == "on"
        for collector in manifest.collectors
    )
    if not watched or manifest.state != "complete":
        return set()
    return {device.index for device in manifest.devices[:1]}
