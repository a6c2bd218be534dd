"""Singular values and eigenvalues alone: the CPU's numbers to the last digit.

PyTorch computes vectors along with the values, by another LAPACK routine, whenever a dispatch
mode is active, since a tensor might need them for its gradient (`_may_require_fw_or_bw_grad`
in ATen/native/BatchLinearAlgebra.cpp). Where no gradient is recorded, the values are computed
once more without the mode. Costs the decomposition twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.standins import overridable


def install(patches: FunctionPatches) -> None:
    """Replace the functions that use values alone."""
    for name in ("svdvals", "eigvalsh", "cond", "matrix_norm", "norm"):
        patches.wrap(torch.linalg, name, _plain)
    patches.wrap(torch, "norm", _plain)


def _plain(original: Callable[..., Any]) -> Callable[..., Any]:
    always = original.__name__ in ("linalg_svdvals", "linalg_eigvalsh", "linalg_cond")

    def run(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        if (always or _by_singular_values(args, kwargs)) and not result.requires_grad:
            with _disable_current_modes():
                result.copy_(original(*args, **kwargs))
        return result

    return overridable(original, run, by_arguments=True)


def _by_singular_values(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether a norm is nuclear or spectral."""
    order = args[1] if len(args) > 1 else kwargs.get("ord", kwargs.get("p"))
    if order == "nuc":
        return True
    return order in (2, -2) and isinstance(args[0], torch.Tensor) and args[0].dim() > 1
