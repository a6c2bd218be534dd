"""From a recording to its analysis: the order in which the parts are put together."""

from __future__ import annotations

import numpy as np
import pandas as pd

from syncscope.analysis.gaps import idle_gaps
from syncscope.analysis.hooks import hook_events, main_thread, native_threads
from syncscope.analysis.idle import explain_gaps
from syncscope.analysis.intervals import Ints
from syncscope.analysis.join import calls_of, match
from syncscope.analysis.result import Analysis
from syncscope.analysis.sites import group_calls, with_sites
from syncscope.analysis.stacks import Stacks
from syncscope.analysis.step_records import step_records
from syncscope.analysis.steps import full_steps, step_marks, step_table
from syncscope.analysis.summary import coverage_of, gpu_summaries, run_summary, site_records
from syncscope.analysis.syntax import Sources
from syncscope.analysis.waits import runtime_waits
from syncscope.analysis.windows import clipped, windows_of
from syncscope.recording.manifest import Manifest
from syncscope.recording.reader import Recording
from syncscope.records import Replay, Summary

CALL_COLUMNS = [
    "thread_id", "start_ns", "end_ns", "site_id", "name", "kind", "direction", "size_bytes",
    "blocking", "explicit",
]  # fmt: skip


def analyze(recording: Recording) -> Analysis:
    """Analyse one recording, real, simulated or imported. Costs O(n log n) in its rows.

    Raises RecordingError if a table is damaged.
    """
    manifest, windows = recording.manifest, windows_of(recording)
    stacks = Stacks(recording.table("frames"), recording.table("stacks"))
    activity = clipped(recording.table("activity"), windows)
    marks = step_marks(recording.table("steps"), windows)
    steps = step_table(marks, windows)
    hooks = hook_events(recording.table("blocking"), recording.table("transfers"), windows)
    host = clipped(recording.table("host"), windows)
    calls = with_sites(_calls(recording, hooks, windows, stacks), stacks)
    gaps = _gaps(recording, activity, calls, hooks, host, windows)
    run = run_summary(manifest, windows, steps, marks, cut=recording.truncated)
    devices = sorted({int(device) for device in gaps["device"]} | _busy_devices(activity))
    full = full_steps(steps, marks)
    sites = site_records(
        group_calls(calls, stacks, marks), calls, activity, gaps, run, full,
        Sources(recording.sources),
    )  # fmt: skip
    summary = Summary(
        run=run,
        gpu=gpu_summaries(activity, gaps, devices, run.window_ns, full, manifest.rank),
        sites=sites,
        coverage=coverage_of(calls, stacks, manifest),
        replay=Replay(None),
        overhead=dict(manifest.overhead),
        steps=step_records(steps, full, calls, gaps, activity, host, sites),
    )
    nvml = recording.table("nvml").sort_values("time_ns", kind="stable", ignore_index=True)
    return Analysis(
        manifest=manifest,
        summary=summary,
        calls=calls[CALL_COLUMNS],
        activity=activity,
        gaps=gaps.drop(columns="call"),
        steps=steps,
        host=host,
        nvml=nvml,
        sources=recording.sources,
    )


def _calls(
    recording: Recording, hooks: pd.DataFrame, windows: tuple[Ints, Ints], stacks: Stacks
) -> pd.DataFrame:
    waits = runtime_waits(recording.table("runtime"), recording.table("activity"), hooks, windows)
    matches = match(waits, hooks, stacks, native_threads(recording.manifest))
    return calls_of(waits, hooks, matches)


def _gaps(
    recording: Recording,
    activity: pd.DataFrame,
    calls: pd.DataFrame,
    hooks: pd.DataFrame,
    host: pd.DataFrame,
    windows: tuple[Ints, Ints],
) -> pd.DataFrame:
    """The gaps with cause and site, sorted by start."""
    manifest, runtime = recording.manifest, recording.table("runtime")
    devices = _busy_devices(activity) or _silent_devices(manifest)
    gaps = idle_gaps(activity, sorted(devices), windows)
    main = main_thread(hooks, runtime, manifest)
    gaps = explain_gaps(gaps, activity, runtime, calls, host, manifest, main)
    call = gaps["call"].to_numpy(dtype=np.int64)
    names = np.append(calls["site_id"].to_numpy(dtype=object), "")
    return gaps.assign(site_id=names[call]).sort_values(
        ["start_ns", "device"], kind="stable", ignore_index=True
    )


def _busy_devices(activity: pd.DataFrame) -> set[int]:
    return {int(device) for device in activity["device"].unique()}


def _silent_devices(manifest: Manifest) -> set[int]:
    """The device that ran nothing although its activity was recorded; none if it was not."""
    watched = manifest.simulated or any(
        collector.name == "activity" and collector.state == "on"
        for collector in manifest.collectors
    )
    if not watched or manifest.state != "complete":
        return set()
    return {device.index for device in manifest.devices[:1]}
