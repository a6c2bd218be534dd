"""What is drawn of a recording, and what is left out to keep that small."""

from __future__ import annotations

import base64
import dataclasses
import zlib
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.manifest import Window
from syncscope.recording.tables import columns
from syncscope.reports import timeline as timeline_module
from syncscope.reports.marks import FULL, filled, longest, sorted_marks
from syncscope.reports.packed_columns import PackedColumns
from syncscope.reports.timeline import timeline_of
from syncscope.reports.timeline_counters import MAX_SAMPLES, counters_of
from syncscope.reports.timeline_detail import detailed_spans, edges_of, within
from syncscope.reports.timeline_packing import packed_timeline
from syncscope.reports.timeline_tracks import MAX_LABELS, OTHER

intervals = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 300), st.integers(-1, 2)), max_size=60
)


def marks(rows):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return sorted_marks(columns[0], columns[0] + columns[1], columns[2], columns[0])


@given(intervals, st.integers(1, 500))
def test_slots_hold_what_the_intervals_cover(rows, slot_ns):
    slots = 10_400 // slot_ns + 1
    covered = {t for start, length, _ in rows for t in range(start, start + length)}
    expected = np.bincount([t // slot_ns for t in covered], minlength=slots)
    shares = filled(marks(rows), 0, slot_ns, slots)
    assert np.all(shares / FULL >= expected / slot_ns - 1e-9)
    assert np.all(shares / FULL <= expected / slot_ns + 1 / FULL + 1e-9)


@given(intervals, st.integers(1, 20))
def test_the_longest_are_kept(rows, budget):
    kept, shortest_ns = longest([marks(rows), marks(rows[::2])], budget)
    assert sum(map(len, kept)) == min(budget, len(rows) + len(rows[::2]))
    assert all((group.end_ns - group.start_ns >= shortest_ns).all() for group in kept)


@given(intervals, st.lists(st.integers(0, 10_000), max_size=3), st.integers(1, 40))
def test_detail_keeps_to_its_budget_and_holds_whole_spans(rows, wanted, budget):
    edges = np.arange(0, 10_501, 500)
    spans = detailed_spans([marks(rows)], edges, np.array(wanted, dtype=np.int64), budget)
    kept = within(marks(rows), spans)
    assert len(kept) <= budget
    assert {edge for span in spans for edge in span} <= set(edges.tolist())
    assert all(first[1] < second[0] for first, second in pairwise(spans))
    if len(rows) <= budget:
        assert len(kept) == len(rows)


def test_detail_begins_with_what_is_wanted_then_in_the_middle():
    rows = [(start, 1, 0) for start in range(0, 1_000, 10)]
    edges = np.arange(0, 1_001, 100)
    spans = detailed_spans([marks(rows)], edges, np.array([930]), 30)
    assert spans == ((400, 600), (900, 1_000))


def test_few_steps_are_cut_into_equal_pieces():
    steps = pd.DataFrame({"index": [0, 1], "start_ns": [0, 500], "end_ns": [500, 1_000_000]})
    assert len(edges_of(steps, 0, 1_000_000)) == 257
    assert edges_of(steps.iloc[:0], 5, 5).tolist() == [5, 6]


@given(st.lists(st.lists(st.integers(0, 2**52), max_size=30), max_size=5))
def test_packed_columns_hold_every_value(values):
    packed = PackedColumns()
    for column in values:
        packed.add(np.array(column, dtype=np.int64))
    content = zlib.decompress(base64.b64decode(packed.text()))
    for column, (width, length) in zip(values, packed.sizes, strict=True):
        planes = np.frombuffer(content[: width * length], dtype=np.uint8).reshape(width, length)
        content = content[width * length :]
        factors = 256 ** np.arange(width, dtype=np.int64)[:, None]
        assert (planes.astype(np.int64) * factors).sum(axis=0).tolist() == column
    assert content == b""


def test_packed_columns_refuse_negative_numbers():
    with pytest.raises(ValueError, match="no negative numbers"):
        PackedColumns().add(np.array([-1]))


def test_a_copy_engine_holds_the_copies_of_all_streams_in_its_direction(analyses):
    analysis = analyses.plausible_analysis(steps=3)
    activity = analysis.activity.copy()
    copies = activity.index[activity["direction"] == "h2d"]
    activity.loc[copies[::2], "stream"] = 20
    activity.loc[copies[0], "direction"] = "d2h"
    timeline = timeline_of(dataclasses.replace(analysis, activity=activity), [])
    begun = {
        track.lane.label: track.marks.start_ns.tolist()
        for track in timeline.tracks
        if track.lane.group == "engine"
    }
    starts = activity.loc[copies, "start_ns"].tolist()
    assert begun == {"copies to GPU": starts[1:], "copies from GPU": starts[:1]}
    assert len(starts) > 2


def test_lanes_are_threads_then_each_device_with_its_streams(analyses):
    timeline = timeline_of(analyses.plausible_analysis(steps=3), ["s1", "keep"])
    assert [lane.label for lane in timeline.lanes] == [
        "MainThread", "GPU idle", "copies to GPU", "stream 7", "stream 20",
    ]  # fmt: skip
    assert timeline.steps["index"].tolist() == [0, 1, 2]
    assert timeline.notes == ()
    assert timeline.detail == ((timeline.start_ns, timeline.end_ns + 1),)


def test_several_devices_are_told_apart(analyses):
    rows = [
        (device, 7, 100 * device, 100 * device + 50, "kernel", "k", "", "", -1, 1)
        for device in (0, 1)
    ]
    gaps = [(device, 10, 90, "sync", "") for device in (0, 1)]
    timeline = timeline_of(analyses.make_analysis(activity=rows, gaps=gaps), [])
    assert [lane.label for lane in timeline.lanes] == [
        "GPU 0 idle", "GPU 0 stream 7", "GPU 1 idle", "GPU 1 stream 7",
    ]  # fmt: skip


def test_marks_point_to_the_sites_that_are_shown_and_to_no_other(analyses):
    timeline = timeline_of(analyses.plausible_analysis(steps=2), ["s1"])
    sites = np.concatenate([track.marks.site for track in timeline.tracks])
    assert set(sites.tolist()) == {-1, 0}


def test_copies_that_nobody_waits_for_have_a_kind_of_their_own(analyses):
    kinds = {track.kind for track in timeline_of(analyses.plausible_analysis(2), []).tracks}
    assert {"sync", "transfer", "transfer_async", "idle_sync", "kernel", "memcpy"} <= kinds


def test_arrows_lead_from_waits_and_gaps_to_their_causes(analyses):
    analysis = analyses.make_analysis(
        activity=[
            (0, 7, 100, 190, "kernel", "early", "", "", -1, 1),
            (0, 7, 200, 480, "kernel", "awaited", "", "", -1, 2),
            (0, 7, 700, 800, "kernel", "late", "", "", -1, 3),
        ],
        calls=[(0, 150, 500, "s1", "item", "sync", "d2h", 4, True, False)],
        gaps=[(0, 480, 700, "sync", "s1"), (0, 190, 200, "launch", "")],
    )
    timeline = timeline_of(analysis, ["s1"])
    lanes = [lane.label for lane in timeline.lanes]
    arrows = timeline.arrows
    found = [
        (lanes[a], int(start), lanes[b], int(end))
        for a, start, b, end in zip(
            arrows.from_lane, arrows.from_ns, arrows.to_lane, arrows.to_ns, strict=True
        )
    ]
    assert found == [
        ("MainThread", 500, "stream 7", 480),
        ("GPU idle", 590, "MainThread", 500),
    ]
    assert arrows.site.tolist() == [0, 0]


def test_a_large_recording_keeps_whole_steps_in_detail_and_says_so(analyses, monkeypatch):
    monkeypatch.setattr(timeline_module, "MAX_DEVICE_MARKS", 5_000)
    monkeypatch.setattr(timeline_module, "MAX_HOST_MARKS", 900)
    analysis = analyses.plausible_analysis(steps=200, kernels=80)
    timeline = timeline_of(analysis, ["s1"])
    host = [track for track in timeline.tracks if track.lane.group == "host"]
    device = [track for track in timeline.tracks if track.lane.group != "host"]
    assert sum(len(track.marks) for track in host) == 900
    assert 4_900 < sum(len(track.marks) for track in device) <= 5_000
    starts = set(analysis.steps["start_ns"]) | {timeline.end_ns + 1}
    assert all({start, end} <= starts for start, end in timeline.detail)
    assert any("Single GPU events are kept for 3" in note for note in timeline.notes)
    assert any("900 longest of" in note for note in timeline.notes)
    kernels = next(track for track in device if track.kind == "kernel")
    busy = (analysis.activity["end_ns"] - analysis.activity["start_ns"])[
        analysis.activity["kind"] == "kernel"
    ].sum()
    # The slots hold the whole run, what is kept in detail and what is not.
    assert kernels.fill.sum() / FULL * timeline.slot_ns == pytest.approx(busy, rel=0.01)


def test_names_beyond_a_number_share_one(analyses):
    count = MAX_LABELS + 500
    rows = [
        (0, 7, i * 10, i * 10 + 8, "kernel", f"kernel_{i}", "", "", -1, i) for i in range(count)
    ]
    labels = timeline_of(analyses.make_analysis(activity=rows), []).labels
    assert len(labels) == MAX_LABELS + 1
    assert labels[-1] == OTHER


def test_counters_lie_within_the_timeline_and_leave_out_what_is_missing(analyses):
    rows = [(t * 100, 0, 50.0, 1 << 30, 1_000.0, -1.0, 2e9) for t in range(5_000)]
    analysis = analyses.make_analysis()
    object.__setattr__(analysis, "nvml", pd.DataFrame(rows, columns=list(columns("nvml"))))
    found = counters_of(analysis, 1_000, 2_000)
    assert [counter.label for counter in found] == [
        "GPU busy (NVML, over up to 1 s)", "Memory used", "PCIe from GPU",
    ]  # fmt: skip
    assert (found[0].time_ns[0], found[0].time_ns[-1]) == (900, 2_100)
    assert {value for counter in found for value in counter.values} == {50.0, 1.0, 2.0}
    assert len(counters_of(analysis, 0, 500_000)[0].values) <= MAX_SAMPLES


def test_an_empty_recording_has_an_empty_timeline(analyses):
    analysis = analyses.make_analysis(manifest=analyses.make_manifest(windows=(Window(5, 9),)))
    timeline = timeline_of(analysis, [])
    assert (timeline.start_ns, timeline.end_ns, timeline.tracks) == (5, 9, ())
    description, _ = packed_timeline(timeline)
    assert description["tracks"] == []


def test_tables_without_rows_may_have_columns_of_any_type(analyses):
    analysis = analyses.make_analysis(gaps=[(0, 480, 700, "sync", "s1")])
    object.__setattr__(analysis, "calls", analysis.calls.astype(object))
    assert len(timeline_of(analysis, ["s1"]).arrows) == 0
