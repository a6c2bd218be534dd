"""What becomes a site, what is flagged, and what it costs."""

from __future__ import annotations

from typing import Any

import pytest

from syncscope.analysis.pipeline import analyze
from syncscope.records import Site, Summary

US = 1_000
MS = 1_000_000
CLIP = ("torch/nn/utils/clip_grad.py", "clip_grad_norm_", "torch")


def summary_of(builder: Any, steps: int = 0) -> Summary:
    """Analyse with a window of 20 ms and marks at 1, 2, ... ms."""
    builder.window(0, 20 * MS)
    for step in range(steps):
        builder.mark((step + 1) * MS)
    return analyze(builder.build()).summary


def only_site(builder: Any, steps: int = 0) -> Site:
    (site,) = summary_of(builder, steps).sites
    return site


def read_back(builder: Any, stack: int, at: int) -> None:
    builder.copy_call(at, (at + 1, at + 2), at + 20 * US)
    builder.warning(at + 25 * US, stack)


def test_a_site_is_shown_at_the_innermost_line_of_the_user(builder: Any) -> None:
    stack = builder.line(
        "clip_grad_norm_(ps, 1.0, error_if_nonfinite=True)", 19,
        inner=(("torch/utils/_contextlib.py", "decorate_context", "torch"), CLIP),
    )  # fmt: skip
    read_back(builder, stack, MS)
    site = only_site(builder)
    assert (site.file, site.line, site.owner) == ("train.py", 19, "torch")
    assert site.library_line == "torch/nn/utils/clip_grad.py:7"
    assert [frame.function for frame in site.stack] == [
        "decorate_context", "clip_grad_norm_", "main",
    ]  # fmt: skip


def test_calls_per_step_are_those_of_the_steady_steps(builder: Any) -> None:
    every, warm, late = (builder.line(text, 10 + n) for n, text in enumerate("abc"))
    for step in range(5):
        read_back(builder, every, step * MS + 100 * US)
        read_back(builder, every, step * MS + 200 * US)
    for place in range(3):
        read_back(builder, warm, 300 * US + place * 50 * US)
    read_back(builder, late, 3 * MS + 300 * US)
    read_back(builder, late, 6 * MS)  # after the last mark
    sites = {site.expression: site for site in summary_of(builder, steps=5).sites}
    assert {text: (site.count, site.per_step) for text, site in sites.items()} == {
        "a": (10, 2.0), "b": (3, 0.0), "c": (2, 0.25),
    }  # fmt: skip


def test_torchs_plumbing_does_not_own_what_passes_through_it(builder: Any) -> None:
    stack = builder.line("f'{loss}'", inner=(("torch/_tensor.py", "Tensor.__format__", "torch"),))
    read_back(builder, stack, MS)
    assert only_site(builder).owner == "user"


def test_a_stack_without_the_user_is_shown_at_the_library(builder: Any) -> None:
    builder.line("x")
    frames = builder.rows["frames"]
    frames[0] = frames[0]._replace(owner="library", file="trl/trainer.py")
    read_back(builder, 0, MS)
    site = only_site(builder)
    assert (site.file, site.owner) == ("trl/trainer.py", "library")


def test_an_event_without_a_stack_is_an_unknown_site_and_not_attributed(builder: Any) -> None:
    read_back(builder, -1, MS)
    summary = summary_of(builder)
    assert [site.file for site in summary.sites] == ["(unknown)"]
    assert summary.coverage.unattributed == 1


def test_two_expressions_on_a_line_are_two_sites(builder: Any) -> None:
    read_back(builder, builder.line("a.item()", 5, column=1), MS)
    read_back(builder, builder.line("b.item()", 5, column=12), 2 * MS)
    sites = summary_of(builder).sites
    assert {site.expression for site in sites} == {"a.item()", "b.item()"}
    assert len({site.id for site in sites}) == 2


def test_stacks_that_differ_above_the_line_are_one_site_with_one_name(builders: Any) -> None:
    names = []
    for _ in range(2):
        builder = builders()
        for at in (MS, 2 * MS):
            read_back(builder, builder.line("a.item()", 5), at)
        site = only_site(builder)
        assert site.count == 2
        names.append(site.id)
    assert names[0] == names[1]


def test_reading_and_uploading_at_one_line_are_two_sites(builder: Any) -> None:
    stack = builder.line("alphas[t].to(device)")
    read_back(builder, stack, MS)
    builder.copy_call(2 * MS, (2 * MS, 2 * MS + 5), 2 * MS + 9 * US, direction="h2d", size=8)
    builder.warning(2 * MS + 10 * US, stack)
    kinds = {(site.kind, site.direction) for site in summary_of(builder).sites}
    assert kinds == {("sync", "d2h"), ("transfer", "h2d")}


@pytest.mark.parametrize(
    ("op", "size", "kind"),
    [
        ("Tensor.item", 4, "sync"),
        ("Tensor.tolist", 64, "sync"),
        ("Tensor.tolist", 65, "transfer"),
        ("Tensor.cpu", 4, "transfer"),
        ("aten::_to_copy", 4, "transfer"),
        ("aten::_local_scalar_dense", 8, "sync"),
    ],
)
def test_a_small_readback_is_a_wait_unless_a_copy_was_asked_for(
    builder: Any, op: str, size: int, kind: str
) -> None:
    stack = builder.line("x")
    builder.transfer(MS, MS + 50 * US, stack, op=op, direction="d2h", size=size)
    assert only_site(builder).kind == kind


def test_pinned_uploads_that_do_not_wait_are_recorded_but_not_flagged(builder: Any) -> None:
    stack = builder.line("x.to(device, non_blocking=True)")
    builder.transfer(MS, MS + 50 * US, stack, memory="pinned", non_blocking=True)
    site = only_site(builder)
    assert (site.flagged, site.blocking, site.pageable, site.verdict) == (
        False, False, False, "harmless",
    )  # fmt: skip


def test_pinned_memory_without_non_blocking_is_flagged(builder: Any) -> None:
    builder.transfer(MS, MS + 50 * US, builder.line("x.to(device)"), memory="pinned")
    site = only_site(builder)
    assert (site.flagged, site.cause) == (True, "missing_non_blocking")


@pytest.mark.parametrize(
    ("at", "steps", "flagged"),
    [(MS // 2, 4, False), (int(2.5 * MS), 4, True), (6 * MS, 4, False), (6 * MS, 0, True)],
)
def test_an_explicit_wait_is_flagged_between_the_first_and_the_last_step_only(
    builder: Any, at: int, steps: int, flagged: bool
) -> None:
    stack = builder.line("torch.cuda.synchronize()")
    builder.blocking(at, at + 90 * US, stack, op="torch.cuda.synchronize")
    builder.sync(at + US, at + 80 * US, name="cudaDevice")
    assert only_site(builder, steps).flagged is flagged


def test_moving_a_module_once_is_not_flagged_but_in_every_step_it_is(builders: Any) -> None:
    for times, flagged in ((1, False), (3, True)):
        builder = builders()
        inner = (
            ("torch/nn/modules/module.py", "Module.to.<locals>.convert", "torch"),
            ("torch/nn/modules/module.py", "Module._apply", "torch"),
        )
        for step in range(times):
            stack = builder.line("model.to(device)", inner=inner)
            start = step * MS + 100 * US
            builder.transfer(start, start + 50 * US, stack)
        site = only_site(builder, 4)
        assert (site.flagged, site.advice.rewrite) == (flagged, "")


def allocator_hook(builder: Any, at: int, *calls: str) -> None:
    stack = builder.line("torch.empty(n, device=device)")
    builder.blocking(
        at, at + 100 * US, stack, source="shadow", op="cudaMalloc", kind="allocator", explicit=False
    )
    for number, name in enumerate(calls):
        start = at + (10 + 20 * number) * US
        kind = "free" if "Free" in name else "malloc"
        builder.runtime(name, kind, start, start + 15 * US)


def test_growing_the_pool_at_first_is_not_flagged(builder: Any) -> None:
    for step in range(3):
        allocator_hook(builder, step * MS + 100 * US, "cudaMalloc")
    assert not only_site(builder, 10).flagged


def test_an_allocator_that_still_asks_the_driver_in_later_steps_is_flagged(builder: Any) -> None:
    for step in range(8):
        allocator_hook(builder, step * MS + 100 * US, "cudaMalloc")
    assert only_site(builder, 10).flagged


def test_an_allocation_that_frees_first_is_flagged_without_any_steps(builder: Any) -> None:
    allocator_hook(builder, MS, "cudaFree", "cudaMalloc")
    site = only_site(builder)
    assert (site.flagged, site.kind, site.cause) == (True, "allocator", "allocator_churn")


def test_emptying_the_cache_once_at_the_start_is_not_flagged(builders: Any) -> None:
    for times, flagged in ((1, False), (2, True)):
        builder = builders()
        stack = builder.line("torch.cuda.empty_cache()")
        for number in range(times):
            start = (number + 1) * MS
            builder.blocking(
                start, start + 90 * US, stack, op="torch.cuda.empty_cache", kind="allocator"
            )
            builder.runtime("cudaFree", "free", start + US, start + 80 * US)
        assert only_site(builder).flagged is flagged


def test_a_race_is_unsafe_and_waits_for_nothing(builder: Any) -> None:
    stack = builder.line("y.sum()")
    builder.blocking(MS, MS, stack, source="shadow", kind="race", explicit=False)
    site = only_site(builder)
    assert (site.kind, site.flagged, site.verdict, site.cause) == (
        "race", True, "unsafe", "unsafe_readback",
    )  # fmt: skip
    assert (site.blocking, site.blocked_ns) == (False, 0)
    assert "event" in site.advice.text.lower()


def test_what_costs_less_than_a_hundredth_of_a_step_is_harmless(builders: Any) -> None:
    for idle, verdict in ((5 * US, "harmless"), (20 * US, "fix")):
        builder = builders()
        stack = builder.line("x.item()")
        for step in range(1, 7):
            end = step * MS + 500 * US
            builder.kernel(end - MS + 2 * US, end - MS + idle, end)
            read_back(builder, stack, end - 19 * US)
        assert only_site(builder, 5).verdict == verdict


def test_a_copy_that_runs_alone_while_the_host_waits_is_worth_fixing(builder: Any) -> None:
    stack = builder.line("images.to(device)")
    for step in range(4):
        start = step * MS + 100 * US
        builder.transfer(start, start + 410 * US, stack)
        builder.copy_call(
            start, (start + 5 * US, start + 400 * US), start + 405 * US, direction="h2d",
            size=1 << 20,
        )  # fmt: skip
    site = only_site(builder, 4)
    assert site.savings_ns_per_step >= 395 * US
    assert (site.verdict, site.cause) == ("fix", "pageable_batch")


def test_sites_that_matter_come_first(builder: Any) -> None:
    upload = builder.line("y.to(device, non_blocking=True)", 9)
    builder.transfer(MS, MS + US, upload, memory="pinned", non_blocking=True)
    read_back(builder, builder.line("x.item()", 5), 2 * MS)
    race = builder.line("z.sum()", 7)
    builder.blocking(3 * MS, 3 * MS, race, source="shadow", kind="race", explicit=False)
    assert [site.line for site in summary_of(builder).sites] == [7, 5, 9]


def test_a_with_statement_is_shown_without_its_body(builder: Any) -> None:
    stack = builder.line("with torch.cuda.graph(g):  # tag\n    y", 19)
    frame = builder.rows["frames"][-1]
    builder.rows["frames"][-1] = frame._replace(end_line=20, end_column=6)
    read_back(builder, stack, MS)
    site = only_site(builder)
    assert (site.line, site.end_line, site.end_column) == (19, 19, 25)
    assert site.expression == "with torch.cuda.graph(g)"
