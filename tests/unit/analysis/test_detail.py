"""What detail steps know reaches the calls of measured steps, by line; samples fill holes."""

from __future__ import annotations

from typing import Any

from syncscope.analysis.pipeline import analyze
from syncscope.recording.manifest import Window
from syncscope.recording.tables import OpRow
from syncscope.records import Site

US = 1_000
MAIN, AUTOGRAD = 0, 1


def sites(builder: Any) -> dict[str, Site]:
    builder.window(1_000 * US, 10_000 * US)
    found = analyze(builder.build(details=(Window(0, 1_000 * US),))).summary.sites
    return {site.expression: site for site in found}


def op(
    builder: Any, time_us: int, stack: int, name: str, *, origin: int = -1, forward: int = -1
) -> None:
    direction = "h2d" if origin >= 0 else ""
    builder.add(
        "ops",
        OpRow(
            MAIN, time_us * US, (time_us + 1) * US, stack, name, "4", "float32", "cuda:0",
            True, direction, origin, forward,
        ),
    )  # fmt: skip


def test_a_wait_gets_the_operator_of_its_line(builder: Any) -> None:
    line = builder.line("x[m]")
    op(builder, 500, line, "aten::nonzero.default")
    builder.copy_call(2_000 * US, (2_010 * US, 2_011 * US), 2_020 * US)
    builder.warning(2_025 * US, line)
    assert sites(builder)["x[m]"].op == "aten::nonzero.default"


def test_a_line_with_two_operators_keeps_what_the_hooks_said(builder: Any) -> None:
    line = builder.line("f(x)")
    op(builder, 500, line, "aten::nonzero.default")
    op(builder, 510, line, "aten::_local_scalar_dense.default")
    builder.copy_call(2_000 * US, (2_010 * US, 2_011 * US), 2_020 * US)
    builder.warning(2_025 * US, line)
    assert sites(builder)["f(x)"].op != "aten::nonzero.default"


def test_an_upload_gets_the_line_at_which_its_tensor_was_made(builder: Any) -> None:
    made, moved = builder.line("torch.rand(4)", 3), builder.line("noise.to(device)", 4)
    op(builder, 500, moved, "aten::_to_copy.default", origin=made)
    builder.transfer(2_000 * US, 2_030 * US, moved)
    builder.copy_call(2_001 * US, (2_010 * US, 2_011 * US), 2_020 * US, direction="h2d")
    site = sites(builder)["noise.to(device)"]
    assert "train.py:3" in site.advice.text


def test_a_wait_of_a_backward_pass_goes_to_the_forward_line(builder: Any) -> None:
    backward, first = builder.line("loss.backward()", 9), builder.line("x[mask]", 3)
    nowhere = 99
    builder.blocking(400 * US, 600 * US, backward, source="scope", op="backward")
    op(builder, 500, nowhere, "aten::nonzero.default", forward=first)
    builder.blocking(2_000 * US, 2_100 * US, backward, source="scope", op="backward")
    for start in (2_010, 2_040):
        builder.copy_call(
            start * US, (start * US + 10, start * US + 20), (start + 20) * US, thread=AUTOGRAD
        )
    found = sites(builder)
    assert "loss.backward()" not in found
    assert found["x[mask]"].count == 2


def test_several_waits_of_a_backward_pass_keep_their_order(builder: Any) -> None:
    backward = builder.line("loss.backward()", 9)
    first, second = builder.line("x[mask]", 3), builder.line("y.nonzero()", 4)
    builder.blocking(400 * US, 600 * US, backward, source="scope", op="backward")
    op(builder, 500, 99, "aten::nonzero.default", forward=second)
    op(builder, 510, 99, "aten::nonzero.default", forward=first)
    builder.blocking(2_000 * US, 2_100 * US, backward, source="scope", op="backward")
    for start in (2_010, 2_050):
        builder.copy_call(
            start * US, (start * US + 10, start * US + 20), (start + start % 100) * US,
            thread=AUTOGRAD,
        )  # fmt: skip
    found = sites(builder)
    assert found["y.nonzero()"].blocked_ns == 10 * US
    assert found["x[mask]"].blocked_ns == 50 * US


def test_a_sample_names_a_call_that_no_hook_saw(builder: Any) -> None:
    line = builder.line("pool.free()")
    builder.runtime("cudaFree", "free", 2_000 * US, 2_400 * US)
    builder.blocking(2_000 * US, 2_400 * US, line, source="sampled", kind="allocator")
    site = sites(builder)["pool.free()"]
    assert (site.sampled, site.count, site.blocked_ns) == (True, 1, 400 * US)


def test_a_sample_takes_no_call_from_a_hook_and_makes_none_by_itself(builder: Any) -> None:
    sampled, warned = builder.line("sampled()"), builder.line("x.item()", 2)
    builder.copy_call(2_000 * US, (2_010 * US, 2_011 * US), 2_020 * US)
    builder.warning(2_025 * US, warned)
    builder.blocking(2_000 * US, 2_019 * US, sampled, source="sampled")
    builder.blocking(3_000 * US, 3_100 * US, sampled, source="sampled")
    assert list(sites(builder)) == ["x.item()"]
