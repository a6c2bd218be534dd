"""Whole analyses of small recordings, figure by figure."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from syncscope.analysis.pipeline import CALL_COLUMNS, analyze
from syncscope.errors import RecordingError
from syncscope.records import CAUSES_OF_IDLE

US = 1_000
MS = 1_000_000


def training_loop(builder: Any, steps: int = 4) -> int:
    """A GPU that is busy 600 us of each 1 ms step and then waits out `.item()` and its refill."""
    stack = builder.line("loss.item()", 10)
    builder.window(0, (steps + 1) * MS)
    for step in range(steps):
        start = step * MS
        builder.kernel(start + 100 * US, start + 110 * US, start + 700 * US)
        builder.copy_call(start + 200 * US, (start + 700 * US, start + 702 * US), start + 710 * US)
        builder.warning(start + 715 * US, stack)
        builder.mark(start + 900 * US)
    return stack


def test_a_readback_in_a_loop_is_one_site_that_owns_the_idle_time(builder: Any) -> None:
    training_loop(builder)
    summary = analyze(builder.build()).summary
    (site,) = summary.sites
    assert (site.file, site.line, site.expression) == ("train.py", 10, "loss.item()")
    assert (site.kind, site.direction, site.cause) == ("sync", "d2h", "scalar_readback")
    assert (site.count, site.per_step, site.size_bytes) == (4, 1.0, 16)
    assert site.blocked_ns == 4 * 510 * US
    # three gaps of 408 us end with the next step's kernel; the last ends with the window
    assert site.exposed_idle_ns == 3 * 408 * US
    assert site.savings_ns_per_step == 408 * US
    assert site.flagged
    assert site.verdict == "fix"
    assert summary.coverage.blocking_calls == summary.coverage.attributed == 4


def test_busy_and_idle_time_add_up_to_the_window(builder: Any) -> None:
    training_loop(builder)
    analysis = analyze(builder.build())
    (gpu,) = analysis.summary.gpu
    assert gpu.busy_ns == 4 * 592 * US
    assert gpu.busy_ns + gpu.idle_ns == analysis.summary.run.window_ns == 5 * MS
    assert tuple(gpu.idle_by_cause_ns) == CAUSES_OF_IDLE
    assert sum(gpu.idle_by_cause_ns.values()) == gpu.idle_ns
    assert (analysis.gaps["end_ns"] - analysis.gaps["start_ns"]).sum() == gpu.idle_ns


def test_the_tables_have_the_promised_columns(builder: Any) -> None:
    training_loop(builder)
    analysis = analyze(builder.build())
    assert list(analysis.calls) == CALL_COLUMNS
    assert list(analysis.gaps) == ["device", "start_ns", "end_ns", "cause", "site_id"]
    assert list(analysis.steps) == ["index", "start_ns", "end_ns", "length_ns"]
    assert analysis.summary.run.steps == 4
    assert analysis.summary.run.step_ns == MS


def test_progress_rises_to_the_whole(builder: Any) -> None:
    training_loop(builder)
    parts: list[float] = []
    analyze(builder.build(), parts.append)
    assert parts == sorted(set(parts))
    assert len(parts) > 3
    assert (parts[0] > 0, parts[-1]) == (True, 1.0)


def test_a_damaged_table_is_told_and_leaves_no_thread(builder: Any) -> None:
    training_loop(builder)
    recording = builder.build()
    (recording.folder / "rank-0" / "runtime.parquet").write_bytes(b"no table")
    before = threading.active_count()
    with pytest.raises(RecordingError, match=r"the table runtime of .* is damaged"):
        analyze(recording)
    assert threading.active_count() == before


def test_a_recording_without_any_row_has_an_empty_summary(builder: Any) -> None:
    summary = analyze(builder.build(collectors=(), state="recording")).summary
    assert (summary.gpu, summary.sites) == ((), ())
    assert (summary.run.steps, summary.run.window_ns) == (0, 0)
    assert summary.run.truncated


def test_a_device_that_ran_nothing_was_idle_throughout(builder: Any) -> None:
    builder.window(0, MS)
    (gpu,) = analyze(builder.build()).summary.gpu
    assert (gpu.busy_ns, gpu.idle_ns, gpu.idle_fraction) == (0, MS, 1.0)
    assert gpu.idle_by_cause_ns["unknown"] == MS


def test_a_killed_run_without_activity_claims_nothing_about_the_device(builder: Any) -> None:
    stack = builder.line("loss.item()", 3)
    for step in range(3):
        builder.transfer(
            step * MS, step * MS + 300 * US, stack, op="Tensor.item", direction="d2h", size=4
        )
        builder.mark(step * MS + 500 * US)
    summary = analyze(builder.build(state="recording")).summary
    (site,) = summary.sites
    assert summary.gpu == ()
    assert site.blocked_ns == 900 * US
    assert site.savings_ns_per_step == 300 * US
    assert (site.kind, site.verdict) == ("sync", "fix")
    assert summary.coverage.blocking_calls == summary.coverage.attributed == 3


@pytest.mark.parametrize("length", [0, 5 * US])
def test_one_kernel_is_enough(builder: Any, length: int) -> None:
    builder.window(0, MS)
    builder.kernel(10 * US, 20 * US, 20 * US + length)
    (gpu,) = analyze(builder.build()).summary.gpu
    assert (gpu.busy_ns, gpu.idle_ns) == (length, MS - length)


def test_a_mark_in_a_window_of_no_length_is_no_step(builder: Any) -> None:
    builder.window(5, 5)
    builder.mark(5)
    summary = analyze(builder.build()).summary
    assert (summary.run.steps, summary.run.window_ns, summary.sites) == (0, 0, ())
