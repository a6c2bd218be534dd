"""CUDA's autocast: which dtype each operator computes in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.testing._internal.autocast_test_lists import AutocastTestLists

GROUPS = {
    "torch_fp16": (torch, torch._VF),
    "nn_fp16": (torch._C._nn,),
    "linalg_fp16": (torch._C._linalg,),
    "methods_fp16": (),
    "torch_fp32": (torch, torch._VF),
    "nn_fp32": (F, torch._C._nn),
    "methods_fp32": (),
    "torch_need_autocast_promote": (torch,),
}
ODD = {"einsum", "chain_matmul", "tensordot"}
"""Called with lists, which the table of PyTorch's own tests spells for C++."""
NEEDS_CUDNN = {"cudnn_convolution", "cudnn_convolution_transpose"}


def calls(group: str) -> Iterator[tuple[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]]]:
    """Name, function and arguments of the operators in one of PyTorch's lists."""
    for name, args, *rest in getattr(AutocastTestLists(torch.device("cuda")), group):
        if name in ODD | NEEDS_CUDNN:
            continue
        kwargs = rest[0] if rest and isinstance(rest[0], dict) else {}
        owners = GROUPS[group] or (args[0],)
        owner = next(owner for owner in owners if hasattr(owner, name))
        yield name, getattr(owner, name), args if GROUPS[group] else args[1:], kwargs


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("group", GROUPS)
def test_pytorchs_own_lists_hold(session: Any, group: str, dtype: torch.dtype) -> None:
    wanted = dtype if group.endswith("fp16") else torch.float32
    checked = 0
    for name, function, args, kwargs in calls(group):
        with torch.autocast("cuda", dtype=dtype):
            result = function(*args, **kwargs)
        results = result if isinstance(result, (tuple, list)) else [result]
        found = {one.dtype for one in results if one.is_floating_point()}
        assert found == {wanted}, name
        checked += 1
    assert checked


def product(device: str = "cuda") -> torch.dtype:
    x = torch.ones(2, 2, device=device)
    return (x @ x).dtype


def test_regions_nest_and_end(session: Any) -> None:
    half, brain = torch.float16, torch.bfloat16
    with torch.autocast("cuda", dtype=brain):
        assert product() is brain
        assert product("cpu") is torch.float32
        with torch.autocast("cuda", enabled=False):
            assert product() is torch.float32
        with torch.autocast("cuda", dtype=half):
            assert product() is half
        with torch.autocast("cpu", dtype=brain):
            assert product("cpu") is brain
        assert product() is brain
    assert product() is torch.float32
    assert torch.get_autocast_dtype("cuda") is half


def test_binary_cross_entropy_is_banned_on_the_gpu(session: Any) -> None:
    x = torch.full((2,), 0.5, device="cuda")
    with torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        F.binary_cross_entropy(x, x)
    F.binary_cross_entropy(x, x)


def casts(session: Any) -> int:
    """Conversions on the GPU since the last call."""
    return sum(row.name == "aten::_to_copy" for row in session.take("activity"))


@pytest.mark.parametrize(("cached", "expected"), [(True, 2 + 3), (False, 3 * 3)])
def test_casts_of_parameters_are_kept_until_the_region_ends(
    session: Any, cached: bool, expected: int
) -> None:
    layer, x = nn.Linear(4, 4).cuda(), torch.randn(2, 4, device="cuda")
    session.forget()
    for _ in range(2):
        with torch.autocast("cuda", cache_enabled=cached):
            for _ in range(3):
                layer(x)
        assert casts(session) == expected


def test_custom_functions_choose_their_dtype(session: Any) -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda", cast_inputs=torch.float32)
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x.mm(x)

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx: Any, *grads: Any) -> Any:
            return grads[0].mm(ctx.saved_tensors[0])

    x = torch.ones(2, 2, device="cuda", dtype=torch.half, requires_grad=True)
    with torch.autocast("cuda"):
        y = Product.apply(x)  # type: ignore[no-untyped-call]
    y.sum().backward()
    assert y.dtype is torch.float32
    assert x.grad is not None
    assert x.grad.dtype is torch.half


def test_a_recurrent_network_is_cast_as_a_whole(session: Any) -> None:
    x = torch.ones(3, 1, 2, device="cuda")
    with torch.autocast("cuda"):
        assert nn.LSTM(2, 2).cuda()(x)[0].dtype is torch.half
        assert nn.GRU(2, 2).cuda()(x)[0].dtype is torch.half


def test_nothing_is_registered_any_more_after_the_end(make_session: Any) -> None:
    session = make_session()
    with torch.autocast("cuda"):
        product()
    session.gpu.stop()
    key = "AutocastPrivateUse1"
    assert not torch._C._dispatch_get_registrations_for_dispatch_key(key)
    assert product("cpu") is torch.float32


def test_autocast_of_the_cpu_leaves_the_gpus_tensors_alone(session: Any) -> None:
    on_gpu, on_host = torch.randn(2, 2, device="cuda"), torch.randn(2, 2)
    with torch.autocast("cpu"):
        assert (on_gpu @ on_gpu).dtype == torch.float32
        assert (on_host @ on_host).dtype == torch.bfloat16
        with torch.autocast("cuda"):
            assert (on_gpu @ on_gpu).dtype == torch.float16
            assert (on_host @ on_host).dtype == torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert (on_host @ on_host).dtype == torch.float32
        assert torch.is_autocast_enabled("cpu")
    assert (on_host @ on_host).dtype == torch.float32


def test_what_an_operator_consists_of_is_cast(session: Any) -> None:
    """These are on the CPU's list and not on CUDA's, where their parts are cast instead."""
    x, target = torch.randn(4, 8, device="cuda"), torch.zeros(4, dtype=torch.int64, device="cuda")
    image, weight = torch.randn(1, 2, 8, 8, device="cuda"), torch.randn(3, 2, 3, 3, device="cuda")
    with torch.autocast("cuda", torch.float16):
        logits = x @ x.t()
        assert (logits.dtype, F.cross_entropy(logits, target).dtype) == (
            torch.float16, torch.float32,
        )  # fmt: skip
        assert F.conv2d(image, weight, padding="same").dtype is torch.float16
    with torch.autocast("cpu", torch.bfloat16):
        assert F.conv2d(image, weight, padding="same").dtype is torch.float32
        assert F.conv2d(image.cpu(), weight.cpu(), padding="same").dtype is torch.bfloat16
