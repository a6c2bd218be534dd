"""What is drawn of a recording, and what is merged to keep that small."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.manifest import Window
from syncscope.reports.marks import longest, merged, merged_to_budget, sorted_marks
from syncscope.reports.timeline import timeline_of

intervals = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 300), st.integers(-1, 2)), max_size=60
)


def marks(rows):
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return sorted_marks(columns[0], columns[0] + columns[1], columns[2], columns[0])


def covered(found):
    return {ns for a, b in zip(found.start_ns, found.end_ns, strict=True) for ns in range(a, b)}


@given(intervals)
def test_merging_what_touches_covers_the_same_time_and_loses_no_event(rows):
    before = marks(rows)
    after = merged(before, 0)
    assert covered(after) == covered(before)
    assert after.count.sum() == len(rows)
    assert len(after) <= len(before)


@given(intervals, st.integers(1, 200))
def test_a_merged_mark_spans_no_hole_wider_than_the_threshold(rows, threshold):
    # a mark of no length splits a hole without covering any of it: give each some
    before = marks([(start, length + 1, 0) for start, length, _ in rows])
    after = merged(before, threshold)
    holes = sorted(covered(after) - covered(before))
    runs = np.split(holes, np.flatnonzero(np.diff(holes) != 1) + 1) if holes else []
    assert all(len(run) <= threshold for run in runs)


@given(intervals, st.integers(1, 20))
def test_a_budget_is_kept(rows, budget):
    groups, _ = merged_to_budget([marks(rows), marks(rows[::2])], budget, 20_000)
    assert sum(map(len, groups)) <= budget
    kept, shortest_ns = longest([marks(rows)], budget)
    assert len(kept[0]) == min(budget, len(rows))
    assert all(kept[0].end_ns - kept[0].start_ns >= shortest_ns)


def test_a_merged_mark_is_named_after_its_longest_event():
    found = merged(marks([(0, 10, 0), (20, 90, 0), (120, 10, 0)]), 50)
    assert (found.label.tolist(), found.count.tolist()) == ([20], [3])
    assert (found.busy_ns.tolist(), (found.end_ns - found.start_ns).tolist()) == ([110], [130])


def test_lanes_are_threads_then_each_device_with_its_streams(analyses):
    timeline = timeline_of(analyses.plausible_analysis(steps=3), ["s1", "keep"])
    assert [lane.label for lane in timeline.lanes] == [
        "MainThread", "GPU idle", "stream 7", "stream 20",
    ]  # fmt: skip
    assert [step.index for step in timeline.steps] == [0, 1, 2]
    assert timeline.notes == ()


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


def test_a_large_recording_is_drawn_small_and_says_so(analyses):
    timeline = timeline_of(analyses.plausible_analysis(steps=1_200, kernels=80), ["s1"])
    assert sum(len(track.marks) for track in timeline.tracks) <= 20_000
    assert len(timeline.steps) == 1_000
    assert any("GPU activity less than" in note for note in timeline.notes)
    assert any("4,000 longest of 4,800 idle times" in note for note in timeline.notes)
    assert any("1,000 of 1,200 step boundaries" in note for note in timeline.notes)


def test_labels_of_marks_that_were_merged_away_are_dropped(analyses):
    rows = [
        (0, 7, i * 10, i * 10 + 8, "kernel", f"kernel_{i}", "", "", -1, i) for i in range(20_000)
    ]
    timeline = timeline_of(analyses.make_analysis(activity=rows), [])
    assert len(timeline.labels) == sum(len(track.marks) for track in timeline.tracks) <= 9_000


def test_an_empty_recording_has_an_empty_timeline(analyses):
    analysis = analyses.make_analysis(manifest=analyses.make_manifest(windows=(Window(5, 9),)))
    timeline = timeline_of(analysis, [])
    assert (timeline.start_ns, timeline.end_ns, timeline.tracks) == (5, 9, ())
