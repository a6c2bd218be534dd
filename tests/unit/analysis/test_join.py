"""Which line made which runtime call."""

from __future__ import annotations

from typing import Any

from syncscope.analysis.pipeline import analyze
from syncscope.analysis.result import Analysis

US = 1_000
MAIN, AUTOGRAD, PYTHON = 0, 1, 5
WINDOW = 10_000 * US


def analysis_of(builder: Any) -> Analysis:
    builder.window(0, WINDOW)
    return analyze(builder.build())


def lines(builder: Any) -> dict[str, tuple[int, int]]:
    """Expression -> (count, blocked us) of all sites."""
    sites = analysis_of(builder).summary.sites
    return {site.expression: (site.count, site.blocked_ns // US) for site in sites}


def covered(builder: Any) -> tuple[int, int]:
    """Attributed and unattributed blocking calls."""
    coverage = analysis_of(builder).summary.coverage
    return coverage.attributed, coverage.unattributed


def test_a_warning_claims_the_copy_and_the_wait_before_it(builder: Any) -> None:
    builder.copy_call(100 * US, (110 * US, 111 * US), 120 * US)
    builder.warning(125 * US, builder.line("float(x)"))
    assert lines(builder) == {"float(x)": (1, 20)}


def test_warnings_in_a_row_claim_as_many_waits(builder: Any) -> None:
    first, second = builder.line("x.max().item()"), builder.line("torch.where(m)", 2)
    builder.copy_call(100 * US, (110 * US, 111 * US), 120 * US)
    builder.warning(125 * US, first)
    builder.copy_call(200 * US, (210 * US, 211 * US), 230 * US)
    builder.copy_call(300 * US, (310 * US, 311 * US), 340 * US)
    builder.warning(350 * US, second)
    builder.warning(351 * US, second)
    assert lines(builder) == {"x.max().item()": (1, 20), "torch.where(m)": (2, 70)}


def test_waits_that_nobody_warned_of_stay_without_a_line(builder: Any) -> None:
    for start in (100, 200, 300):
        builder.sync(start * US, (start + 10) * US)
    builder.warning(320 * US, builder.line("x[m]"))
    assert covered(builder) == (1, 2)


def test_a_warning_never_claims_what_lies_before_an_earlier_warning(builder: Any) -> None:
    builder.sync(100 * US, 110 * US)
    builder.copy_call(200 * US, (210 * US, 211 * US), 220 * US)
    builder.warning(225 * US, builder.line("x[m]"))
    builder.kernel(300 * US, 310 * US, 320 * US)
    assert covered(builder) == (1, 1)


def test_a_warning_does_not_claim_a_device_wait_which_torch_never_warns_of(builder: Any) -> None:
    builder.copy_call(100 * US, (110 * US, 111 * US), 120 * US)
    builder.sync(130 * US, 140 * US, name="cudaDevice")
    builder.warning(150 * US, builder.line("x[m]"))
    analysis = analysis_of(builder)
    (site,) = analysis.summary.sites
    assert (site.count, site.blocked_ns) == (1, 20 * US)
    assert analysis.summary.coverage.unattributed == 1


def test_a_warning_inside_a_wrapped_call_is_the_same_event(builder: Any) -> None:
    stack = builder.line("loss.item()")
    builder.transfer(90 * US, 130 * US, stack, op="Tensor.item", direction="d2h", size=4)
    builder.copy_call(100 * US, (110 * US, 111 * US), 120 * US)
    builder.warning(125 * US, stack)
    assert lines(builder) == {"loss.item()": (1, 20)}


def test_a_wrapped_call_owns_every_wait_in_it(builder: Any) -> None:
    stack = builder.line("x.tolist()")
    builder.transfer(90 * US, 330 * US, stack, op="Tensor.tolist", direction="d2h", size=256)
    for start in (100, 200, 300):
        builder.copy_call(start * US, (start * US + 1, start * US + 2), (start + 20) * US)
    assert lines(builder) == {"x.tolist()": (1, 60)}


def test_the_innermost_interval_owns_a_wait(builder: Any) -> None:
    outer = builder.line("torch.cuda.synchronize()", 1)
    inner = builder.line("x.cpu()", 2)
    builder.blocking(50 * US, 400 * US, outer, op="torch.cuda.synchronize")
    builder.transfer(90 * US, 130 * US, inner, op="Tensor.cpu", direction="d2h", size=4096)
    builder.copy_call(100 * US, (110 * US, 111 * US), 120 * US, size=4096)
    builder.sync(200 * US, 300 * US, name="cudaDevice")
    assert lines(builder) == {"torch.cuda.synchronize()": (1, 100), "x.cpu()": (1, 20)}


def test_an_explicit_wait_after_an_upload_does_not_swallow_it(builder: Any) -> None:
    upload, wait = builder.line("x.to(d, non_blocking=True)"), builder.line("s.synchronize()", 2)
    builder.transfer(90 * US, 130 * US, upload, non_blocking=True)
    builder.copy_call(
        100 * US, (110 * US, 140 * US), 120 * US, direction="h2d", size=1024, waits=False
    )
    builder.blocking(140 * US, 260 * US, wait, op="torch.cuda.Stream.synchronize")
    builder.sync(150 * US, 250 * US)
    assert lines(builder) == {"x.to(d, non_blocking=True)": (1, 0), "s.synchronize()": (1, 100)}


def test_a_wrapped_wait_that_did_not_wait_is_recorded_but_not_blocking(builder: Any) -> None:
    builder.blocking(100 * US, 110 * US, builder.line("work.wait()"), op="Work.wait")
    builder.runtime("cudaStreamWaitEvent", "event", 102 * US, 104 * US)
    builder.sync(500 * US, 510 * US)
    (site,) = analysis_of(builder).summary.sites
    assert (site.blocking, site.flagged, site.explicit) == (False, False, True)


def test_waits_of_autograd_are_charged_to_the_backward_call(builder: Any) -> None:
    stack = builder.line(
        "loss.backward()", inner=(("torch/_tensor.py", "Tensor.backward", "torch"),)
    )
    builder.blocking(100 * US, 500 * US, stack, source="scope", op="backward")
    for start in (200, 300):
        builder.copy_call(
            start * US, (start * US + 1, start * US + 2), (start + 20) * US, thread=AUTOGRAD
        )
    assert lines(builder) == {"loss.backward()": (2, 40)}


def test_late_warnings_of_a_backward_call_are_not_counted_again(builder: Any) -> None:
    stack = builder.line("loss.backward()")
    builder.sync(50 * US, 60 * US)
    builder.blocking(100 * US, 500 * US, stack, source="scope", op="backward")
    builder.copy_call(200 * US, (201 * US, 202 * US), 220 * US, thread=AUTOGRAD)
    builder.warning(499 * US, stack)
    summary = analysis_of(builder).summary
    assert [site.count for site in summary.sites] == [1]
    assert (summary.coverage.attributed, summary.coverage.unattributed) == (1, 1)


def test_a_hook_inside_autograd_keeps_its_own_line(builder: Any) -> None:
    backward, hook = builder.line("loss.backward()"), builder.line("g.norm().item()", 2)
    builder.blocking(100 * US, 500 * US, backward, source="scope", op="backward")
    builder.transfer(
        190 * US, 230 * US, hook, op="Tensor.item", direction="d2h", size=4, thread=AUTOGRAD
    )
    builder.copy_call(200 * US, (201 * US, 202 * US), 220 * US, thread=AUTOGRAD)
    builder.copy_call(300 * US, (301 * US, 302 * US), 330 * US, thread=AUTOGRAD)
    assert lines(builder) == {"g.norm().item()": (1, 20), "loss.backward()": (1, 30)}


def test_a_python_thread_during_backward_is_not_charged_to_it(builder: Any) -> None:
    builder.blocking(100 * US, 500 * US, builder.line("loss.backward()"), source="scope")
    builder.sync(200 * US, 220 * US, thread=PYTHON)
    assert covered(builder) == (0, 1)


def test_clocks_may_disagree_by_microseconds(builder: Any) -> None:
    stack = builder.line("torch.cuda.synchronize()")
    builder.blocking(100 * US, 104 * US, stack, op="torch.cuda.synchronize")
    builder.sync(106 * US, 109 * US, name="cudaDevice")
    assert lines(builder) == {"torch.cuda.synchronize()": (1, 3)}


def test_a_wait_whose_end_seems_to_come_after_its_interval_stays_one_pair(builder: Any) -> None:
    stack = builder.line("loss.item()")
    builder.transfer(100 * US, 120 * US, stack, op="Tensor.item", direction="d2h", size=4)
    builder.copy_call(103 * US, (110 * US, 111 * US), 122 * US)
    analysis = analysis_of(builder)
    assert [site.blocked_ns for site in analysis.summary.sites] == [19 * US]
    assert len(analysis.calls) == 1


def test_a_driver_call_inside_a_runtime_call_is_one_wait(builder: Any) -> None:
    builder.sync(100 * US, 200 * US, name="cudaDevice")
    builder.sync(110 * US, 190 * US, name="cuCtx")
    assert covered(builder) == (0, 1)


def test_two_hooks_that_saw_the_same_wait_count_once(builder: Any) -> None:
    stack = builder.line("x.item()")
    builder.blocking(90 * US, 140 * US, stack, source="import", op="aten::item", explicit=False)
    builder.transfer(100 * US, 120 * US, stack, op="aten::item", direction="d2h", size=4)
    builder.copy_call(100 * US, (110 * US, 111 * US), 120 * US)
    assert lines(builder) == {"x.item()": (1, 20)}


def test_rows_in_any_order_give_the_same_calls(builders: Any) -> None:
    found = []
    for reverse in (False, True):
        builder = builders()
        stack = builder.line("float(x)")
        for start in range(100, 900, 100):
            builder.copy_call(start * US, (start * US + 1, start * US + 2), (start + 20) * US)
            builder.warning((start + 30) * US, stack)
        for table in ("runtime", "activity", "blocking"):
            builder.rows[table].sort(reverse=reverse)
        found.append(lines(builder))
    assert found[0] == found[1] == {"float(x)": (8, 160)}


def test_a_wait_over_the_edge_of_the_window_counts_with_its_part_inside(builder: Any) -> None:
    stack = builder.line("torch.cuda.synchronize()")
    builder.blocking(-50 * US, 130 * US, stack, op="torch.cuda.synchronize")
    builder.sync(-40 * US, 100 * US, name="cudaDevice")
    assert lines(builder) == {"torch.cuda.synchronize()": (1, 100)}


def test_events_outside_the_windows_do_not_count(builder: Any) -> None:
    builder.copy_call(WINDOW + 100, (WINDOW + 110, WINDOW + 111), WINDOW + 120)
    builder.warning(WINDOW + 125, builder.line("float(x)"))
    assert lines(builder) == {}


def test_an_upload_that_only_a_warning_saw_is_a_transfer(builder: Any) -> None:
    builder.copy_call(100 * US, (110 * US, 111 * US), 120 * US, direction="h2d", size=12)
    builder.warning(125 * US, builder.line("torch.tensor([1, 2, 3], device=d)"))
    (site,) = analysis_of(builder).summary.sites
    assert (site.kind, site.direction, site.size_bytes, site.pageable) == (
        "transfer",
        "h2d",
        12,
        True,
    )


def test_the_copy_itself_knows_better_than_the_hook_where_its_source_lies(builder: Any) -> None:
    stack = builder.line("staging[:, ::2].to(d, non_blocking=True)")
    builder.transfer(90 * US, 130 * US, stack, memory="pinned", non_blocking=True)
    builder.copy_call(
        100 * US, (110 * US, 115 * US), 120 * US, direction="h2d", size=1024, waits=False
    )
    (site,) = analysis_of(builder).summary.sites
    assert (site.pageable, site.flagged, site.blocking) == (True, True, False)


def test_a_recording_without_runtime_calls_counts_hook_events(builder: Any) -> None:
    builder.warning(100 * US, builder.line("float(x)"))
    builder.transfer(200 * US, 260 * US, builder.line("x.to(d)", 2))
    assert lines(builder) == {"float(x)": (1, 0), "x.to(d)": (1, 60)}


def test_an_allocation_inside_a_transfer_is_a_call_of_its_own(builder: Any) -> None:
    stack = builder.line("x.to(d)")
    builder.transfer(90 * US, 430 * US, stack)
    builder.runtime("cudaMalloc", "malloc", 100 * US, 300 * US)
    builder.copy_call(310 * US, (320 * US, 350 * US), 400 * US, direction="h2d", size=1024)
    calls = analysis_of(builder).calls
    assert calls["kind"].tolist() == ["allocator", "transfer"]
    assert calls["blocking"].tolist() == [False, True]
