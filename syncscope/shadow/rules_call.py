"""What a sync rule is given, and the notation in which rules write driver calls.

A *trace* is a text of driver calls in order, as a driver-API log shows them:
`D8` copies 8 bytes to the host, `H8` copies 8 bytes to the device, `S` waits. A copy
directly followed by `S` is one blocking copy. `3*S` repeats a call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from syncscope.shadow.effects import Effect

Effects = tuple[Effect, ...]
SYNC = Effect("sync")
FLAG_READ = Effect("d2h", 1)
"""Reading one bool back: `if (bad.any().item())` in C++."""


@dataclass(slots=True)
class Call:
    """One operator call that has been computed on the CPU stand-ins.

    Nobody changes it; it is not frozen because that would double the cost of making one.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    on_gpu: Callable[[torch.Tensor], bool]

    def arg(self, position: int, name: str, default: Any = None) -> Any:
        """Argument by position or keyword."""
        if len(self.args) > position:
            return self.args[position]
        return self.kwargs.get(name, default)

    def gpu_arg(self, position: int, name: str) -> torch.Tensor | None:
        """The argument if it is a tensor on the GPU."""
        value = self.arg(position, name)
        if isinstance(value, torch.Tensor) and self.on_gpu(value):
            return value
        return None

    def host_arg(self, position: int, name: str) -> torch.Tensor | None:
        """The argument if it is a tensor in host memory."""
        value = self.arg(position, name)
        if isinstance(value, torch.Tensor) and not self.on_gpu(value):
            return value
        return None

    @property
    def subject(self) -> torch.Tensor | None:
        """The first argument if it is a tensor on the GPU."""
        first = self.args[0] if self.args else None
        if isinstance(first, torch.Tensor) and self.on_gpu(first):
            return first
        return None


@dataclass(frozen=True, slots=True)
class Rule:
    """`effects` gives the hidden waits and copies of a call; `source` says how we know."""

    effects: Callable[[Call], Effects]
    source: str


def read(size_bytes: int) -> Effect:
    """A blocking copy to the host."""
    return Effect("d2h", size_bytes)


def upload(size_bytes: int) -> Effect:
    """A blocking copy to the device."""
    return Effect("h2d", size_bytes)


def size_bytes(tensor: torch.Tensor) -> int:
    """Bytes of the elements of a strided tensor."""
    return tensor.numel() * tensor.element_size()


def real_itemsize(tensor: torch.Tensor) -> int:
    """Bytes of one element's real part."""
    return tensor.element_size() // (2 if tensor.is_complex() else 1)


def batch_count(tensor: torch.Tensor) -> int:
    """Number of matrices in the last two dimensions."""
    return math.prod(tensor.shape[:-2])


@lru_cache(maxsize=1024)
def trace(text: str) -> Effects:
    """Effects of a trace of driver calls; see the module's docstring for the notation."""
    calls: list[str] = []
    for token in text.split():
        count, star, call = token.partition("*")
        calls.extend([call] * int(count) if star else [token])
    effects: list[Effect] = []
    for index, call in enumerate(calls):
        if call == "S":
            if index == 0 or calls[index - 1] == "S":
                effects.append(SYNC)
            continue
        action = "d2h" if call[0] == "D" else "h2d"
        waits = calls[index + 1 : index + 2] == ["S"]
        effects.append(Effect(action, int(call[1:]), waits=waits))
    return tuple(effects)


def always(text: str, source: str) -> Rule:
    """The same trace whenever the first argument is a tensor on the GPU."""
    effects = trace(text)
    return Rule(lambda call: effects if call.subject is not None else (), source)


def unless_empty(text: str, source: str) -> Rule:
    """The same trace when the first argument lives on the GPU and has elements."""
    effects = trace(text)

    def apply(call: Call) -> Effects:
        subject = call.subject
        return effects if subject is not None and subject.numel() else ()

    return Rule(apply, source)


def reads_scalars(*arguments: tuple[int, str], source: str) -> Rule:
    """Each of these arguments that is a tensor on the GPU is read back with `.item()`."""

    def apply(call: Call) -> Effects:
        found = (call.gpu_arg(position, name) for position, name in arguments)
        return tuple(read(tensor.element_size()) for tensor in found if tensor is not None)

    return Rule(apply, source)
