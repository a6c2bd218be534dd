"""A recording as trace-event JSON, which the Perfetto UI and chrome://tracing open.

Source: the "Trace Event Format" document, which Perfetto's documentation ("Visualizing external
trace formats", Chrome JSON) names as what its importer follows. Used are complete events (X),
metadata (M), counters (C), and flows (s, f). A flow's end carries `bp: "e"`: it binds to the
slice that encloses it, as its start does; without it, it would bind to the next slice to begin.
Times are microseconds since the recording's origin, with three decimals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from syncscope.analysis.result import Analysis
from syncscope.records import Site
from syncscope.reports.awaited import awaited
from syncscope.reports.figures import IDLE_CAUSES_IN_WORDS
from syncscope.reports.perfetto_tracks import (
    FIRST_GPU,
    HOST,
    Integers,
    Tracks,
    activity_tracks,
    call_tracks,
    gap_tracks,
    host_tracks,
)
from syncscope.reports.recorded import device_model
from syncscope.reports.sites import location_of
from syncscope.reports.visible_text import one_line, visible, visible_path
from syncscope.version import __version__

Event = dict[str, Any]

CHUNK_EVENTS = 20_000
NAME_LENGTH = 160
_COUNTERS = {
    "gpu_percent": ("GPU busy", "percent"),
    "memory_used_bytes": ("GPU memory used", "bytes"),
    "sm_clock_mhz": ("SM clock", "MHz"),
    "pcie_rx_bytes_per_s": ("PCIe to the GPU", "bytes/s"),
    "pcie_tx_bytes_per_s": ("PCIe from the GPU", "bytes/s"),
}


def perfetto_json(analysis: Analysis) -> Iterator[bytes]:
    """The trace in pieces of CHUNK_EVENTS events, to be written one after the other.

    Equal analyses give equal bytes. Costs a few us an event, and the memory of one piece
    besides some columns as long as the tables.
    """
    yield b'{"displayTimeUnit":"ms","otherData":'
    yield msgspec.json.encode(_about(analysis)) + b',"traceEvents":[\n'
    events, separator = _events(analysis), b""
    while chunk := list(islice(events, CHUNK_EVENTS)):
        yield separator + msgspec.json.encode(chunk)[1:-1]
        separator = b",\n"
    yield b"\n]}\n"


def _about(analysis: Analysis) -> dict[str, Any]:
    run = analysis.summary.run
    return {
        "syncscope": __version__,
        "program": visible(" ".join(run.argv), 400),
        "device": visible(run.device, 200),
        "torch": visible(run.torch, 60),
        "simulated": run.simulated,
    }


def _events(analysis: Analysis) -> Iterator[Event]:
    """Slices, then the flows between them: at equal times the order of the file decides."""
    tracks = Tracks()
    about = {site.id: _about_site(site) for site in analysis.summary.sites}
    step_track = tracks.number(HOST, "steps")
    calls, gaps, activity = analysis.calls, analysis.gaps, analysis.activity
    of_calls, of_host = call_tracks(analysis, tracks), host_tracks(analysis, tracks)
    of_gaps, of_activity = gap_tracks(gaps, tracks), activity_tracks(activity, tracks)

    yield from _metadata(analysis, tracks)
    yield from _slices(analysis.steps, np.full(len(analysis.steps), step_track), _steps)
    yield from _slices(calls, of_calls, partial(_calls, about=about))
    yield from _slices(analysis.host, of_host, _host_events)
    yield from _slices(gaps, of_gaps, partial(_gaps, about=about))
    yield from _slices(activity, of_activity, _activity)
    yield from _counters(analysis.nvml)
    yield from _flows(calls, of_calls, activity, of_activity)


def _metadata(analysis: Analysis, tracks: Tracks) -> Iterator[Event]:
    """Names and order: the host first, in each process the tracks as they were numbered."""
    run = analysis.summary.run
    program = visible_path(run.argv[0], 120) if run.argv else "program"
    models = {device.index: device_model(device.name) for device in analysis.manifest.devices}
    used = {process for process, _ in tracks.numbers} | {
        FIRST_GPU + int(device) for device in analysis.nvml["device"].unique()
    }
    estimated = " (shadow: times are estimates)" if run.simulated else ""
    for process in sorted(used):
        device = process - FIRST_GPU
        gpu = f"GPU {device} {models.get(device, '')}".rstrip() + estimated
        name = f"host: {program}" if process == HOST else gpu
        yield _named("process_name", process, 0, {"name": name})
        yield _named("process_sort_index", process, 0, {"sort_index": process})
    for (process, name), number in tracks.numbers.items():
        yield _named("thread_name", process, number, {"name": name})
        yield _named("thread_sort_index", process, number, {"sort_index": number})


def _named(what: str, process: int, track: int, values: Event) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": track, "args": values}


_Described = tuple[str, str, Event]
"""Category, name and arguments of a slice."""


def _slices(
    table: pd.DataFrame, tracks: Integers, describe: Callable[[pd.DataFrame], Iterator[_Described]]
) -> Iterator[Event]:
    """Complete events of the rows of a table, of which only a part is unpacked at a time."""
    device = table["device"] if "device" in table else HOST - FIRST_GPU
    table = table.assign(track=tracks, process=FIRST_GPU + device)
    for first in range(0, len(table), CHUNK_EVENTS):
        part = table.iloc[first : first + CHUNK_EVENTS]
        places = _columns(part, "process", "track", "start_ns", "end_ns")
        described = describe(part)
        for (pid, tid, start, end), (cat, name, values) in zip(places, described, strict=True):
            yield {
                "ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid,
                "ts": start / 1000, "dur": (end - start) / 1000, "args": values,
            }  # fmt: skip


def _columns(table: pd.DataFrame, *names: str) -> Iterator[tuple[Any, ...]]:
    """Rows of some columns as plain Python values."""
    return zip(*(table[name].tolist() for name in names), strict=True)


def _steps(steps: pd.DataFrame) -> Iterator[_Described]:
    for (index,) in _columns(steps, "index"):
        yield "step", f"step {index}", {"index": index}


def _host_events(host: pd.DataFrame) -> Iterator[_Described]:
    for kind, name in _columns(host, "kind", "name"):
        yield visible(kind, 40), visible(name or kind, NAME_LENGTH), {}


def _calls(calls: pd.DataFrame, about: dict[str, Event]) -> Iterator[_Described]:
    names = ("site_id", "name", "kind", "direction", "size_bytes", "blocking", "explicit")
    for site, name, kind, direction, size_bytes, blocking, explicit in _columns(calls, *names):
        values: Event = {
            "call": visible(name, NAME_LENGTH),
            "blocking": blocking,
            "explicit": explicit,
        }
        if direction:
            values["direction"] = direction
        if size_bytes >= 0:
            values["bytes"] = size_bytes
        values |= about.get(site, {})
        yield visible(kind, 40), values.get("expression") or values["call"], values


def _gaps(gaps: pd.DataFrame, about: dict[str, Event]) -> Iterator[_Described]:
    for cause, site in _columns(gaps, "cause", "site_id"):
        name = IDLE_CAUSES_IN_WORDS.get(cause) or visible(cause, 40)
        yield "idle", name, {"cause": cause} | about.get(site, {})


def _activity(activity: pd.DataFrame) -> Iterator[_Described]:
    shown = {name: visible(name, NAME_LENGTH) for name in activity["name"].unique()}
    names = ("kind", "name", "stream", "correlation_id", "size_bytes", "memory")
    for kind, name, stream, correlation, size_bytes, memory in _columns(activity, *names):
        values: Event = {"stream": stream, "correlation": correlation}
        if size_bytes >= 0:
            values["bytes"] = size_bytes
        if memory:
            values["memory"] = memory
        yield kind, shown[name], values


def _about_site(site: Site) -> Event:
    return {
        "site": location_of(site),
        "function": visible(site.function, 120),
        "expression": one_line(site.expression, NAME_LENGTH),
        "why": visible(site.cause, 60),
        "verdict": visible(site.verdict, 40),
        "advice": visible(site.advice.title, 200),
    }


def _counters(nvml: pd.DataFrame) -> Iterator[Event]:
    for column, (name, unit) in _COUNTERS.items():
        for device, time_ns, value in _columns(nvml, "device", "time_ns", column):
            if value >= 0:
                yield {
                    "ph": "C", "name": name, "pid": FIRST_GPU + device, "ts": time_ns / 1000,
                    "args": {unit: value},
                }  # fmt: skip


def _flows(
    calls: pd.DataFrame, of_calls: Integers, activity: pd.DataFrame, of_activity: Integers
) -> Iterator[Event]:
    """An arrow from each wait to the activity that it waited for.

    An arrow may not go back in time: it ends where the wait began if the activity was
    running by then.
    """
    target = awaited(calls, activity)
    waits = np.flatnonzero(target >= 0)
    starts = calls["start_ns"].to_numpy(dtype=np.int64)[waits]
    ends = np.maximum(starts, activity["start_ns"].to_numpy(dtype=np.int64)[target[waits]])
    devices = activity["device"].to_numpy(dtype=np.int64)[target[waits]]
    columns = (starts, of_calls[waits], ends, of_activity[target[waits]], devices)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    for number, (start, wait_track, end, track, device) in enumerate(rows, start=1):
        flow: Event = {"cat": "wait", "name": "waits for", "id": number}
        yield flow | {"ph": "s", "pid": HOST, "tid": wait_track, "ts": start / 1000}
        process = FIRST_GPU + device
        yield flow | {"ph": "f", "bp": "e", "pid": process, "tid": track, "ts": end / 1000}
