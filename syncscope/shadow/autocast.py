"""`torch.autocast`: CUDA's lists of operators on tensors of the GPU, the CPU's on the others.

A build without CUDA has CUDA's list of autocast operators as well, but its wrappers look at
the true device of a tensor. So the same operators get wrappers of our own, on a dispatch key
that no other backend of the process uses, and the key is active on threads on which an
autocast is enabled. Which operators are on a list is asked from the running PyTorch; what
is done with each is told in ATen/autocast_mode.h and ATen/autocast_mode.cpp. The wrappers of
the CPU's list come later in the order of keys; they are skipped where the GPU has a part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syncscope.shadow.marks import gpu_of
from syncscope.shadow.operators import tensors_in
from syncscope.shadow.patching import FunctionPatches

_KEY_NAME = "AutocastPrivateUse1"
_KEY: Any = getattr(torch._C.DispatchKey, _KEY_NAME)
_LIST, _HOST_LIST = "AutocastCUDA", "AutocastCPU"
_HOST_KEY: Any = torch._C.DispatchKey.AutocastCPU
_LATER_KEYS: Any = torch._C._dispatch_keyset_full_after(_KEY)

_LOWER = frozenset(
    [
        "_convolution",
        "conv1d",
        "conv2d",
        "conv3d",
        "conv_tbc",
        "conv_transpose1d",
        "conv_transpose2d",
        "conv_transpose3d",
        "convolution",
        "cudnn_convolution",
        "cudnn_convolution_transpose",
        "prelu",
        "addmm",
        "addmv",
        "addr",
        "matmul",
        "einsum",
        "mm",
        "mv",
        "linalg_vecdot",
        "linear",
        "addbmm",
        "baddbmm",
        "bmm",
        "chain_matmul",
        "linalg_multi_dot",
        "_thnn_fused_lstm_cell",
        "_thnn_fused_gru_cell",
        "lstm_cell",
        "gru_cell",
        "rnn_tanh_cell",
        "rnn_relu_cell",
        "_scaled_dot_product_flash_attention",
        "scaled_dot_product_attention",
    ]
)
"""Computed in autocast's dtype."""
_PROMOTED = frozenset(
    [
        "addcdiv",
        "addcmul",
        "atan2",
        "bilinear",
        "cross",
        "dot",
        "vdot",
        "grid_sampler",
        "index_put",
        "tensordot",
        "scatter_add",
    ]
)
"""Computed in the widest dtype among their arguments."""
_FLOAT_RESULT = frozenset(
    [
        "prod",
        "softmax",
        "log_softmax",
        "cumprod",
        "cumsum",
        "linalg_vector_norm",
        "linalg_matrix_norm",
        "sum",
    ]
)
"""Their optional dtype becomes float32 where it is not given."""
_FLOAT_OVERLOAD = {
    "aten::norm.Scalar": "ScalarOpt_dtype",
    "aten::norm.ScalarOpt_dim": "ScalarOpt_dim_dtype",
}
"""Overloads without a dtype, and those that take float32 in addition."""
_RECURRENT = tuple(
    f"aten::{kind}.{overload}"
    for kind in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for overload in ("input", "data")
)
"""cuDNN's, cast as a whole (ATen/native/cudnn/RNN.cpp); a build without cuDNN lists none."""

_BANNED = (
    "torch.nn.functional.binary_cross_entropy and torch.nn.BCELoss are unsafe to autocast.\n"
    "Many models use a sigmoid layer right before the binary cross entropy layer.\n"
    "In this case, combine the two layers using "
    "torch.nn.functional.binary_cross_entropy_with_logits\n"
    "or torch.nn.BCEWithLogitsLoss.  binary_cross_entropy_with_logits and BCEWithLogits are\n"
    "safe to autocast."
)

Kernel = Callable[..., Any]


def install(patches: FunctionPatches) -> None:
    """Give CUDA's autocast something to do."""
    casts = _Casts()
    library = torch.library.Library("aten", "IMPL")
    listed = torch._C._dispatch_get_registrations_for_dispatch_key
    on_gpu = {*listed(_LIST), *_RECURRENT}
    for name in sorted(on_gpu.union(listed(_HOST_LIST))):
        op = _overload(name)
        if op is not None:
            cast = casts.kernel(op) if name in on_gpu else None
            library.impl(op, _choosing(op, cast), _KEY_NAME, with_keyset=True)
    others = torch.library.Library("_", "IMPL")
    others.fallback(torch.library.fallthrough_kernel, _KEY_NAME)
    patches.wrap(torch, "set_autocast_enabled", _watching)
    patches.wrap(torch, "clear_autocast_cache", casts.clearing)
    patches.at_undo(library._destroy)
    patches.at_undo(others._destroy)
    patches.at_undo(lambda: _activate(False))


def _overload(name: str) -> Any:
    """The overload of a name such as aten::pow.Scalar; None for another namespace's."""
    namespace, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    if namespace != "aten":
        return None
    found = getattr(torch.ops.aten, packet, None)
    return getattr(found, overload or "default", None)


def _activate(enabled: bool) -> None:
    """Switch the wrappers on or off for this thread."""
    torch._C._dispatch_tls_set_dispatch_key_included(_KEY, enabled)
    torch._C._dispatch_tls_set_dispatch_key_excluded(_KEY, not enabled)


def _watching(original: Callable[..., None]) -> Callable[..., None]:
    """`torch.set_autocast_enabled`, which every autocast context calls to begin and to end."""

    def set_autocast_enabled(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        _activate(torch.is_autocast_enabled("cuda") or torch.is_autocast_enabled("cpu"))

    return set_autocast_enabled


def _choosing(op: Any, cast: Kernel | None) -> Kernel:
    """CUDA's wrapper for the GPU's tensors, if there is one, the CPU's for the host's.

    The operators that a wrapper calls are not wrapped again; those of which an operator
    without one consists are.
    """
    exclude = torch._C._dispatch_tls_set_dispatch_key_excluded

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        aside = torch.is_autocast_enabled("cpu") and _on_gpu([*args, *kwargs.values()])
        if cast is None or not torch.is_autocast_enabled("cuda"):
            rest = keys & _LATER_KEYS
            return op.redispatch(rest.remove(_HOST_KEY) if aside else rest, *args, **kwargs)
        exclude(_KEY, True)
        if aside:
            exclude(_HOST_KEY, True)
        try:
            return cast(*args, **kwargs)
        finally:
            exclude(_KEY, False)
            if aside:
                exclude(_HOST_KEY, False)

    return run


def _on_gpu(values: list[Any]) -> bool:
    return any(gpu_of(tensor) >= 0 for tensor in tensors_in(values))


def _eligible(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.dtype is not torch.float64
        and gpu_of(value) >= 0
    )


class _Casts:
    """Casts arguments; remembers those of parameters until the outermost context ends."""

    def __init__(self) -> None:
        self._cache: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def kernel(self, op: Any) -> Kernel:
        """The wrapper of an overload."""
        full_name = op.name()
        name = op._schema.name.removeprefix("aten::")
        if name == "binary_cross_entropy":
            return _banned
        if full_name in _FLOAT_OVERLOAD:
            return _appending(op, getattr(torch.ops.aten.norm, _FLOAT_OVERLOAD[full_name]))
        if name in _FLOAT_RESULT:
            return _float_result(op)
        if name in _LOWER or full_name in _RECURRENT:
            return self._casting(op, _lower_precision)
        if name in _PROMOTED:
            return self._casting(op, _widest)
        return self._casting(op, lambda values: torch.float32)

    def clearing(self, original: Callable[[], None]) -> Callable[[], None]:
        """`torch.clear_autocast_cache` that forgets these casts as well."""

        def clear_autocast_cache() -> None:
            original()
            self._cache.clear()

        return clear_autocast_cache

    def _casting(self, op: Any, dtype_of: Callable[[list[Any]], torch.dtype]) -> Kernel:
        def run(*args: Any, **kwargs: Any) -> Any:
            dtype = dtype_of([*args, *kwargs.values()])
            return op(
                *[self._cast(value, dtype) for value in args],
                **{name: self._cast(value, dtype) for name, value in kwargs.items()},
            )

        return run

    def _cast(self, value: Any, dtype: torch.dtype) -> Any:
        if isinstance(value, (list, tuple)):
            return [self._cast(item, dtype) for item in value]
        if not _eligible(value) or value.dtype is dtype:
            return value
        kept = (
            value.dtype is torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
            and torch.is_autocast_cache_enabled()
            and dtype is torch.get_autocast_dtype("cuda")
        )
        if not kept:
            return value.to(dtype)
        known = self._cache.get(id(value))
        if known is None:
            known = self._cache[id(value)] = (value, value.to(dtype))
        return known[1]


def _lower_precision(values: list[Any]) -> torch.dtype:
    dtype: torch.dtype = torch.get_autocast_dtype("cuda")
    return dtype


def _widest(values: list[Any]) -> torch.dtype:
    """float32 if any argument has it, else autocast's dtype."""
    wide = any(_eligible(value) and value.dtype is torch.float32 for value in tensors_in(values))
    return torch.float32 if wide else _lower_precision(values)


def _float_result(op: Any) -> Kernel:
    def run(*args: Any, **kwargs: Any) -> Any:
        if not _eligible(args[0]):
            return op(*args, **kwargs)
        given = dict(zip((argument.name for argument in op._schema.arguments), args, strict=False))
        given |= kwargs
        if given.get("dtype") is None:
            given["dtype"] = torch.float32
        return op(**given)

    return run


def _appending(op: Any, typed: Any) -> Kernel:
    """Calls the overload that takes a dtype, and has no defaults, in place of `op`."""

    def run(*args: Any) -> Any:
        dtype = torch.float32 if _eligible(args[0]) else args[0].dtype
        rest = [argument.default_value for argument in op._schema.arguments[len(args) :]]
        return typed(*args, *rest, dtype=dtype)

    return run


def _banned(*args: Any, **kwargs: Any) -> Any:
    raise RuntimeError(_BANNED)
