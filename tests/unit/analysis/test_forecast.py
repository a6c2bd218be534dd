"""What the replay makes of a recording: savings, verdicts, where waits move to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from syncscope.analysis import replay_forecast
from syncscope.analysis.pipeline import analyze
from syncscope.analysis.regime import regime_of
from syncscope.analysis.replay_cures import Cure, WhatIf, cure_of
from syncscope.analysis.replay_forecast import forecast
from syncscope.recording.reader import Recording
from syncscope.recording.tables import HostRow
from syncscope.records import CAUSES_OF_IDLE, GpuSummary, Summary

US = 1_000
MS = 1_000_000
DATA = Path(__file__).resolve().parents[2] / "data"


def loop(builder: Any, *, busy: int, own: int, steps: int = 6, waits: int = 1) -> list[int]:
    """Steps of a kernel of `busy` us that the host reads `waits` times, then thinks for `own` us.

    A call takes 10 us, a launch arrives 5 us after it, a wait returns 5 us after the GPU.
    """
    stacks = [builder.line(f"loss{number}.item()", 10 + number) for number in range(waits)]
    now = 0
    for _ in range(steps):
        builder.kernel(now, now + 8 * US, now + 8 * US + busy * US)
        done = now + 8 * US + busy * US
        now += 10 * US
        for stack in stacks:
            start = max(done, now + 8 * US)
            end = start + 7 * US
            builder.copy_call(now, (start, start + 2 * US), end)
            done = start + 2 * US
            builder.warning(end + US, stack)
            now = end + 2 * US
        now += own * US
        builder.mark(now)
    builder.window(0, now)
    return stacks


def summary_of(builder: Any) -> Summary:
    return analyze(builder.build()).summary


def test_a_wait_costs_the_time_in_which_the_host_and_the_gpu_could_both_have_worked(
    builder: Any,
) -> None:
    loop(builder, busy=600, own=400)
    summary = summary_of(builder)
    (site,) = summary.sites
    assert summary.replay.used
    assert summary.replay.baseline_error == pytest.approx(0, abs=0.005)
    # the step of 1027 us becomes one of the GPU's 602 us
    assert site.savings_ns_per_step == pytest.approx(425 * US, abs=25 * US)
    assert site.verdict == "fix"
    best = summary.run.step_ns - site.savings_ns_per_step
    assert summary.replay.best_case_ns_per_step == pytest.approx(best, abs=5 * US)
    assert summary.regime is not None
    assert summary.regime.kind == "sync"


def test_a_wait_of_a_gpu_that_is_always_busy_is_harmless(builder: Any) -> None:
    loop(builder, busy=5_000, own=2)
    summary = summary_of(builder)
    (site,) = summary.sites
    assert (site.flagged, site.verdict) == (True, "harmless")
    assert site.savings_ns_per_step < 0.01 * summary.run.step_ns
    assert summary.regime is not None
    assert summary.regime.kind == "gpu"


def test_a_wait_in_a_launch_bound_loop_is_harmless(builder: Any) -> None:
    loop(builder, busy=10, own=3_000)
    summary = summary_of(builder)
    (site,) = summary.sites
    assert site.verdict == "harmless"
    assert summary.regime is not None
    assert (summary.regime.kind, summary.regime.fraction > 0.9) == ("launch", True)


def test_the_second_of_two_waits_takes_over_when_the_first_is_gone(builder: Any) -> None:
    loop(builder, busy=600, own=400, waits=2)
    summary = summary_of(builder)
    by_line = {site.line: site for site in summary.sites}
    assert by_line[10].moves_to == by_line[11].id
    assert by_line[10].savings_ns_per_step < 0.05 * summary.run.step_ns
    assert summary.replay.best_case_ns_per_step is not None
    assert summary.replay.best_case_ns_per_step < 0.7 * summary.run.step_ns


def test_waits_that_only_move_to_each_other_are_worth_fixing_together(builder: Any) -> None:
    loop(builder, busy=600, own=400, waits=3)
    summary = summary_of(builder)
    alone = sum(site.savings_ns_per_step for site in summary.sites)
    assert {site.verdict for site in summary.sites} == {"fix"}
    assert alone < 0.1 * summary.run.step_ns
    assert summary.replay.fixed_ns_per_step == summary.replay.best_case_ns_per_step


def test_what_the_others_can_do_without_is_not_named(builder: Any) -> None:
    loop(builder, busy=600, own=400, waits=2)
    end = builder.rows["runtime"][-1].end_ns + 400 * US
    late = builder.line("once.item()", 50)  # the GPU has nothing to do by then
    builder.copy_call(end - 50 * US, (end - 45 * US, end - 44 * US), end - 40 * US)
    builder.warning(end - 39 * US, late)
    by_line = {site.line: site.verdict for site in summary_of(builder).sites}
    assert by_line == {10: "fix", 11: "fix", 50: "harmless"}


def test_many_lines_that_gain_little_together_are_harmless(builder: Any) -> None:
    loop(builder, busy=100, own=5_000, waits=4)
    summary = summary_of(builder)
    assert summary.replay.best_case_ns_per_step is not None
    assert 0.01 < 1 - summary.replay.best_case_ns_per_step / summary.run.step_ns < 0.04
    assert {site.verdict for site in summary.sites} == {"harmless"}


def test_a_site_whose_calls_are_all_allowed_is_not_flagged_and_says_why(builder: Any) -> None:
    loop(builder, busy=600, own=400, waits=2)
    calls = [row for row in builder.rows["runtime"] if row.kind == "memcpy"]
    for row in calls[::2]:
        builder.add("host", HostRow(0, row.start_ns - US, row.end_ns, "allow", "logged", -1))
    builder.add("host", HostRow(0, calls[1].start_ns, calls[1].end_ns, "allow", "once", -1))
    summary = summary_of(builder)
    by_line = {site.line: site for site in summary.sites}
    assert (by_line[10].verdict, by_line[10].flagged, by_line[10].reason) == (
        "allowed", False, "logged",
    )  # fmt: skip
    assert (by_line[11].verdict, by_line[11].flagged, by_line[11].reason) == (
        "harmless", True, "",
    )  # fmt: skip


def test_an_allowance_does_not_explain_idle_time(builder: Any) -> None:
    loop(builder, busy=100, own=900)
    builder.add("host", HostRow(0, 0, 6 * MS, "allow", "all of it", -1))
    (gpu,) = summary_of(builder).gpu
    assert gpu.steady_idle_by_cause_ns["unknown"] == 0
    assert gpu.steady_idle_by_cause_ns["launch"] > 0


def test_a_replay_that_is_far_off_is_not_used(
    builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WhatIf, "baseline_error", -0.2)
    loop(builder, busy=600, own=400)
    summary = summary_of(builder)
    (site,) = summary.sites
    assert (summary.replay.used, summary.replay.baseline_error) == (False, -0.2)
    assert summary.replay.best_case_ns_per_step is None
    assert (site.savings_ns_per_step > 300 * US, site.verdict, site.moves_to) == (True, "fix", None)


def test_savings_within_three_times_the_error_are_harmless(
    builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WhatIf, "baseline_error", 0.09)
    loop(builder, busy=600, own=150)
    (site,) = summary_of(builder).sites
    assert 100 * US < site.savings_ns_per_step < 200 * US
    assert site.verdict == "harmless"


def test_sites_beyond_the_budget_keep_their_upper_bound_and_are_counted(
    builder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_forecast, "BUDGET", 1)
    loop(builder, busy=600, own=400, waits=3)
    summary = summary_of(builder)
    assert summary.replay.left_out == 2
    assert summary.replay.used


def test_a_pageable_copy_is_replayed_at_the_rate_that_the_recording_has_for_pinned_ones(
    builder: Any,
) -> None:
    stack = builder.line("batch.to(device)", 7)
    now = 0
    for _ in range(5):
        start, done = now + 5 * US, now + 1_005 * US
        builder.transfer(now, done + 20 * US, stack, size=8_000_000)
        builder.copy_call(now, (start, done), done + 10 * US, direction="h2d", size=8_000_000)
        now = done + 30 * US
        builder.copy_call(
            now, (now + 8 * US, now + 108 * US), now + 3 * US, direction="h2d",
            memory="pinned", size=4_000_000, waits=False,
        )  # fmt: skip
        now += 200 * US
        builder.mark(now)
    builder.window(0, now)
    analysis = analyze(builder.build())
    (site,) = (site for site in analysis.summary.sites if site.line == 7)
    # 8 MB take 200 us at 40 bytes/ns: of the 1235 us stay these and the other copy's 100
    assert site.savings_ns_per_step == pytest.approx(935 * US, rel=0.01)
    assert analysis.what_if is not None
    kept = analysis.what_if.without([Cure(site.id)])
    assert kept.ns_per_step == pytest.approx(135 * US, rel=0.05)


def test_what_the_device_can_make_is_not_copied() -> None:
    assert cure_of("a", "transfer", True, "created_on_host") == Cure("a", pins=True, vanishes=True)
    assert cure_of("a", "transfer", False, "pageable_batch") == Cure("a")
    assert cure_of("a", "sync", None, "scalar_readback") == Cure("a")


def test_nothing_to_replay_gives_no_forecast() -> None:
    assert forecast(None, [Cure("a")], {}).record(5) == forecast(None, [], {}).record(7)
    assert forecast(None, [], {}).record(5).baseline_error is None


def test_each_stream_is_idle_while_another_one_is_busy(builder: Any) -> None:
    builder.window(0, MS)
    builder.kernel(0, 10 * US, 110 * US, stream=7)
    builder.kernel(10 * US, 60 * US, 260 * US, stream=9)
    (gpu,) = summary_of(builder).gpu
    assert [(each.stream, each.busy_ns, each.idle_ns) for each in gpu.streams] == [
        (7, 100 * US, 150 * US), (9, 200 * US, 50 * US),
    ]  # fmt: skip


def gpu_with(idle: float, **parts: float) -> GpuSummary:
    by_cause = {cause: int(1e6 * parts.get(cause, 0)) for cause in CAUSES_OF_IDLE}
    return GpuSummary(0, 0, 0, 0, idle, by_cause, idle, by_cause)


@pytest.mark.parametrize(
    ("gpu", "copying", "gain", "kind", "fraction"),
    [
        (gpu_with(0.1, sync=0.1), 0.0, 0.1, "gpu", 0.9),
        (gpu_with(0.6, sync=0.5, launch=0.1), 0.0, 0.5, "sync", 0.5),
        (gpu_with(0.6, sync=0.5, launch=0.1), 0.0, 0.0, "launch", 0.6),
        (gpu_with(0.2, transfer=0.2), 0.6, 0.7, "transfer", 0.7),
        (gpu_with(0.7, dataloader=0.6, sync=0.1), 0.0, None, "input", 0.6),
        (gpu_with(0.5, device_dependency=0.4, launch=0.1), 0.0, 0.0, "gpu", 0.5),
    ],
)
def test_the_regime_is_what_most_of_a_step_goes_to(
    gpu: GpuSummary, copying: float, gain: float | None, kind: str, fraction: float
) -> None:
    regime = regime_of([gpu], copying, gain)
    assert regime is not None
    assert (regime.kind, regime.fraction) == (kind, pytest.approx(fraction))


def test_without_a_device_there_is_no_regime() -> None:
    assert regime_of([], 0.0, None) is None


@pytest.mark.parametrize(
    "name", sorted(path.parent.name for path in DATA.glob("h200/*/manifest.json"))
)
def test_every_example_of_an_h200_replays_within_three_percent(name: str) -> None:
    replay = analyze(Recording(DATA / "h200" / name)).summary.replay
    assert replay.baseline_error is not None
    assert abs(replay.baseline_error) <= 0.03


def test_the_best_case_of_a_slow_example_is_what_its_repaired_twin_takes() -> None:
    slow, twin = (
        analyze(Recording(DATA / "h200" / name)) for name in ("upload_bound", "upload_bound_fixed")
    )
    best = slow.summary.replay.best_case_ns_per_step
    assert best is not None
    assert twin.what_if is not None
    assert slow.summary.run.step_ns > 3.5 * best
    assert best == pytest.approx(twin.what_if.step_ns, rel=0.1)


def test_a_thread_of_its_own_does_not_hold_up_the_steps_of_another(builder: Any) -> None:
    loop(builder, busy=600, own=400)
    for step in range(6):
        now = step * 1_017 * US
        builder.kernel(now, now + 8 * US, now + 300 * US, thread=5, stream=9)
        builder.sync(now + 20 * US, now + 305 * US, thread=5)
    summary = summary_of(builder)
    (site,) = (site for site in summary.sites if site.line == 10)
    assert site.savings_ns_per_step == pytest.approx(413 * US, abs=25 * US)


def test_work_in_a_window_of_no_length_is_not_replayed(builder: Any) -> None:
    builder.window(0, 0)
    builder.kernel(0, 0, 0)
    assert summary_of(builder).replay.baseline_error is None
