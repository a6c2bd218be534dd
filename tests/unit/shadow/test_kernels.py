"""Arithmetic with numbers is computed as on the CPU, to the bit and to the type."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch

OPERATORS = ("add", "sub", "mul", "truediv", "iadd", "isub", "imul", "itruediv")
NUMBERS = (3, 0.1, True, 2 - 1j)
DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64)


def outcomes(dtype: torch.dtype, device: str) -> dict[tuple[str, Any], Any]:
    """Type and content, or the error, for each operator and number."""
    found: dict[tuple[str, Any], Any] = {}
    for name, number in itertools.product(OPERATORS, NUMBERS):
        values = torch.tensor([1, 5], device=device).to(dtype)
        try:
            result: torch.Tensor = getattr(operator, name)(values, number)
            found[name, number] = result.dtype, result.device.type, result.cpu().tolist()
        except (RuntimeError, TypeError) as error:
            found[name, number] = type(error), device, str(error)
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers_promote_as_on_the_cpu(make_session: Callable[[], Any], dtype: torch.dtype) -> None:
    plain = outcomes(dtype, "cpu")
    make_session()
    assert outcomes(dtype, "cpu") == plain
    on_gpu = {key: (kind, "cuda", value) for key, (kind, _, value) in plain.items()}
    assert outcomes(dtype, "cuda") == on_gpu


def test_keywords_and_tensors_go_the_same_way(session: Any) -> None:
    a, b = torch.tensor([1.0, 2.0], device="cuda"), torch.tensor([3, 4], device="cuda")
    assert torch.add(a, b, alpha=2).tolist() == [7.0, 10.0]
    assert torch.sub(a, 1, alpha=2).tolist() == [-1.0, 0.0]
    assert torch.add(input=a, other=0.5).tolist() == [1.5, 2.5]
    assert torch.div(b, 2, rounding_mode="floor").tolist() == [1, 2]


def test_a_factory_may_have_its_sizes_from_a_meta_tensor(session: Any) -> None:
    sizes = torch.empty(2, 3, device="meta")
    for made in (torch.zeros_like(sizes, device="cuda"), sizes.new_ones(2, device="cuda")):
        assert made.is_cuda
        assert made.sum().item() in (0.0, 2.0)
