"""What computes an overload: the kernel that PyTorch's dispatcher finds for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syncscope.shadow.marks import PLAIN

_ARITHMETIC = ("add", "sub", "mul", "div", "add_", "sub_", "mul_", "div_")
_OPERANDS = PLAIN | {int, float, bool, complex}


def kernel_of(func: Any) -> Callable[..., Any]:
    """A function of the overload's arguments."""
    name = func._schema.name.removeprefix("aten::")
    if name in _ARITHMETIC and func._overloadname == "Tensor":
        return _arithmetic(getattr(torch._C.TensorBase, name), func._op)
    return _without_driver(func._op) if name == "_linalg_svd" else func._op


def _arithmetic(method: Callable[..., Any], op: Callable[..., Any]) -> Callable[..., Any]:
    """The same by a method of tensors, which expects numbers: `x * 0.5`.

    The dispatcher's own call fails first where it finds one in place of a tensor: 8 us more.
    """

    def compute(first: Any, second: Any, **kwargs: Any) -> Any:
        if type(first) in PLAIN and type(second) in _OPERANDS:
            return method(first, second, **kwargs)
        return op(first, second, **kwargs)

    return compute


def _without_driver(op: Callable[..., Any]) -> Callable[..., Any]:
    """The CPU refuses the keyword that chooses cuSOLVER's routine."""

    def run(*args: Any, **kwargs: Any) -> Any:
        kwargs.pop("driver", None)
        return op(*args, **kwargs)

    return run
