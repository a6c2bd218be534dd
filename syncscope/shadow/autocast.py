"""`torch.autocast("cuda")` on the CPU, and generators that say they are on the GPU."""

from __future__ import annotations

from typing import Any

import torch

from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.tensor_api import as_device

_TRUE_GENERATOR: Any = torch._C.Generator
_new_generator: Any = torch._C.Generator.__new__


def install(patches: FunctionPatches) -> None:
    """Let CUDA's autocast steer that of the CPU, which is the one the operators see."""
    _install_autocast(patches)
    patches.put_function(torch, "Generator", ShadowGenerator)


def _install_autocast(patches: FunctionPatches) -> None:
    cls = torch.amp.autocast_mode.autocast
    enter: Any = cls.__enter__
    leave: Any = cls.__exit__

    def __enter__(self: Any) -> Any:
        result = enter(self)
        if self.device == "cuda":
            twin = cls("cpu", self.fast_dtype, self._enabled, self._cache_enabled)
            enter(twin)
            self.__dict__.setdefault("_syncscope_twins", []).append(twin)
        return result

    def __exit__(self: Any, *exc: Any) -> Any:
        twins = self.__dict__.get("_syncscope_twins")
        if twins:
            leave(twins.pop(), *exc)
        return leave(self, *exc)

    patches.put(cls, "__enter__", __enter__)
    patches.put(cls, "__exit__", __exit__)


class _AnyGenerator(type(_TRUE_GENERATOR)):  # type: ignore[misc]
    """Generators made before the shadow GPU started are instances as well."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TRUE_GENERATOR)


class ShadowGenerator(_TRUE_GENERATOR, metaclass=_AnyGenerator):  # type: ignore[misc]
    """`torch.Generator`: a CPU generator that remembers the device it was asked for."""

    def __new__(cls, device: Any = "cpu") -> ShadowGenerator:
        made = _new_generator(cls, "cpu")
        wanted = as_device(device)
        if str(wanted) == "cuda":
            wanted = torch.device("cuda", torch.cuda.current_device())
        made._shadow_device = wanted
        generator: ShadowGenerator = made
        return generator

    def __init__(self, device: Any = "cpu") -> None:
        """Nothing is left to do."""

    @property
    def device(self) -> torch.device:
        wanted: torch.device = self._shadow_device
        return wanted
