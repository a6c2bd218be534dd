"""The trace for Perfetto: valid events, tracks that nest, arrows that bind, hostile names."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.tables import columns
from syncscope.reports.perfetto import perfetto_json
from syncscope.reports.perfetto_tracks import lanes_of

SCHEMA = json.loads(
    (Path(__file__).parents[2] / "data" / "trace_events" / "schema.json").read_text()
)


def trace_of(analysis):
    trace = json.loads(b"".join(perfetto_json(analysis)))
    jsonschema.validate(trace, SCHEMA)
    return trace


def events_of(analysis, phase):
    return [event for event in trace_of(analysis)["traceEvents"] if event["ph"] == phase]


def names_of(analysis, what):
    events = events_of(analysis, "M")
    return [event["args"]["name"] for event in events if event["name"] == what]


def slices_by_track(trace):
    tracks = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            tracks[event["pid"], event["tid"]].append(event)
    return tracks


def enclosing(slices, time):
    """The slices that a flow at this time may bind to."""
    return [s for s in slices if s["ts"] <= time < s["ts"] + s["dur"]]


def test_every_part_of_a_run_has_its_track(analyses):
    analysis = analyses.plausible_analysis(steps=6)
    assert names_of(analysis, "process_name") == ["host: train.py", "GPU 0 NVIDIA H200"]
    assert names_of(analysis, "thread_name") == [
        "steps", "MainThread", "MainThread: collections and input", "idle",
        "copies host → GPU", "stream 7",
    ]  # fmt: skip


def test_a_wait_names_its_line_and_an_idle_time_its_cause(analyses):
    slices = events_of(analyses.plausible_analysis(steps=2), "X")
    wait = next(s for s in slices if s["name"] == "loss.item()")
    assert (wait["ts"], wait["dur"]) == (20_500.0, 2_200.0)
    assert wait["args"]["site"] == "train.py:20"
    assert wait["args"]["call"] == "aten::_local_scalar_dense"
    idle = next(s for s in slices if s["args"].get("expression") == "scores[keep]"
                and s["cat"] == "idle")  # fmt: skip
    assert idle["name"] == "the host waits for the GPU"
    assert [s["name"] for s in slices if s["cat"] == "step"] == ["step 0", "step 1"]


def test_arrows_go_from_each_wait_to_what_it_waited_for_and_bind_to_one_slice(analyses):
    analysis = analyses.plausible_analysis(steps=3)
    trace = trace_of(analysis)
    tracks = slices_by_track(trace)
    starts = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "s"}
    ends = {e["id"]: e for e in trace["traceEvents"] if e["ph"] == "f"}
    assert starts.keys() == ends.keys()
    targets = defaultdict(set)
    for number, start in starts.items():
        end = ends[number]
        assert start["ts"] <= end["ts"]
        [wait] = enclosing(tracks[start["pid"], start["tid"]], start["ts"])
        [activity] = enclosing(tracks[end["pid"], end["tid"]], end["ts"])
        targets[wait["name"]].add(activity["name"])
    assert targets["images.to(device)"] == {"Memcpy HtoD (Pageable)"}
    assert set(targets) >= {"images.to(device)", "loss.item()"}
    assert "labels.to(device, non_blocking=True)" not in targets


def test_overlapping_events_go_to_tracks_of_their_own(analyses):
    rows = [
        (0, 7, 0, 100, "kernel", "a", "", "", -1, 1),
        (0, 7, 50, 150, "kernel", "b", "", "", -1, 2),
        (0, 7, 100, 200, "kernel", "c", "", "", -1, 3),
        (1, 7, 0, 10, "kernel", "d", "", "", -1, 4),
    ]
    analysis = analyses.make_analysis(activity=rows)
    tracks = slices_by_track(trace_of(analysis))
    assert sorted([s["name"] for s in track] for track in tracks.values()) == [
        ["a", "c"],
        ["b"],
        ["d"],
    ]
    assert {"stream 7", "stream 7 (2)"} <= set(names_of(analysis, "thread_name"))


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=40))
def test_events_of_a_lane_never_overlap(spans):
    starts = np.array(sorted(start for start, _ in spans), dtype=np.int64)
    ends = starts + np.array([length for _, length in spans], dtype=np.int64)
    lanes = lanes_of(starts, ends)
    for lane in set(lanes.tolist()):
        mine = np.flatnonzero(lanes == lane)
        assert (starts[mine][1:] >= ends[mine][:-1]).all()
    most = max(int(((starts <= t) & (ends > t)).sum()) for t in starts.tolist())
    assert lanes.max() + 1 == most


def test_counters_of_the_driver_are_in_the_process_of_their_gpu(analyses):
    nvml = pd.DataFrame(
        [(1_000_000, 0, 50.0, 1 << 30, 1980.0, -1.0, 2.5)], columns=list(columns("nvml"))
    )
    counters = events_of(replace(analyses.make_analysis(), nvml=nvml), "C")
    assert {event["name"]: event["args"] for event in counters} == {
        "GPU busy": {"percent": 50.0},
        "GPU memory used": {"bytes": 1 << 30},
        "SM clock": {"MHz": 1980.0},
        "PCIe from the GPU": {"bytes/s": 2.5},
    }
    assert {(event["pid"], event["ts"]) for event in counters} == {(2, 1000.0)}


def test_times_keep_their_nanoseconds(analyses):
    start = 3_600_000_000_001
    analysis = analyses.make_analysis(steps=[(0, start, start + 7)])
    [step] = events_of(analysis, "X")
    assert (round(step["ts"] * 1000), round(step["dur"] * 1000)) == (start, 7)


def test_hostile_names_stay_text(analyses):
    name = '</script>"\x1b[2J' + "x" * 10_000
    no_text = name + "\ud800"
    site = analyses.make_site(file=no_text, function=name, expression=no_text)
    analysis = analyses.make_analysis(
        analyses.make_summary(site, argv=(name,), device=name),
        calls=[(0, 0, 10, "s1", name, "sync", "", -1, True, False)],
        activity=[(0, 7, 0, 10, "kernel", name, "", "", -1, 1)],
    )
    content = b"".join(perfetto_json(analysis))
    assert len(content) < 20_000
    assert b"\x1b" not in content
    jsonschema.validate(json.loads(content), SCHEMA)


@pytest.mark.parametrize("steps", [0, 3])
def test_the_same_analysis_gives_the_same_bytes_in_any_number_of_pieces(
    analyses, monkeypatch, steps
):
    analysis = analyses.plausible_analysis(steps=steps)
    whole = b"".join(perfetto_json(analysis))
    assert whole == b"".join(perfetto_json(analysis))
    monkeypatch.setattr("syncscope.reports.perfetto.CHUNK_EVENTS", 7)
    pieces = list(perfetto_json(analysis))
    assert len(pieces) > steps
    assert json.loads(b"".join(pieces)) == json.loads(whole)


def test_a_simulated_gpu_says_so(analyses):
    summary = analyses.make_summary(analyses.make_site(), simulated=True)
    analysis = analyses.make_analysis(
        summary, activity=[(0, 7, 0, 9, "kernel", "k", "", "", -1, 1)]
    )
    assert names_of(analysis, "process_name")[1] == (
        "GPU 0 NVIDIA H200 (shadow: times are estimates)"
    )
    assert trace_of(analysis)["otherData"]["simulated"] is True
