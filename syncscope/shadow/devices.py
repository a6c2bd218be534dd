"""Devices given as bare numbers: on a CUDA build they mean its GPUs.

A build for the CPU refuses them in C++, so every function that takes a device gets one that
it knows. The default device of `with torch.device(...)` applies to these functions, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.utils._device

from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.standins import overridable, stand_in

_Device: Any = torch.device

_FACTORIES = [
    "arange",
    "bartlett_window",
    "blackman_window",
    "empty",
    "empty_permuted",
    "empty_strided",
    "eye",
    "full",
    "hamming_window",
    "hann_window",
    "kaiser_window",
    "linspace",
    "logspace",
    "normal",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "scalar_tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "empty_like",
    "full_like",
    "ones_like",
    "rand_like",
    "randint_like",
    "randn_like",
    "zeros_like",
]
_METHODS = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_zeros")


def as_device(value: Any) -> torch.device:
    """A device from whatever PyTorch accepts for one; a bare number is a GPU."""
    if isinstance(value, _Device):
        device: torch.device = value
        return device
    made: torch.device = _Device("cuda", value) if isinstance(value, int) else _Device(value)
    return made


def install(patches: FunctionPatches, enter: Callable[[], None]) -> None:
    """Replace `torch.device` and the factories. Costs them three empty Python calls.

    `enter` is called before a tensor is made on a device: a thread that was there before the
    shadow GPU has not got its dispatch mode yet.
    """
    patches.put_function(torch, "device", stand_in(_Device, _make_device))
    for owner, names in ((torch, _FACTORIES), (torch.fft, ("fftfreq", "rfftfreq"))):
        for name in names:
            patches.wrap(owner, name, lambda original: _taking_numbers(original, enter))
    for name in _METHODS:
        patches.wrap(torch.Tensor, name, lambda original: _taking_numbers(original, enter))
    _extend_default_device(patches)


def _make_device(*args: Any, **kwargs: Any) -> torch.device:
    value = args[0] if args else kwargs.get("device")
    if type(value) is int and len(args) + len(kwargs) == 1:
        return as_device(value)
    device: torch.device = _Device(*args, **kwargs)
    return device


def _taking_numbers(original: Callable[..., Any], enter: Callable[[], None]) -> Callable[..., Any]:
    def make(*args: Any, **kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None:
            enter()
            if type(device) is int:
                kwargs["device"] = as_device(device)
        return original(*args, **kwargs)

    return overridable(original, make, by_arguments=True)


def _extend_default_device(patches: FunctionPatches) -> None:
    """Let `with torch.device(...)` know the functions under the names they have now."""
    module = torch.utils._device
    constructors: Any = module._device_constructors
    before: set[Any] = constructors()

    @functools.cache
    def with_replacements() -> set[Any]:
        return before.union(constructors.__wrapped__())

    patches.put(module, "_device_constructors", with_replacements)
