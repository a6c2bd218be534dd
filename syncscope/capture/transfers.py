"""Each copy between host and device that a tensor method makes, readbacks among them.

Methods of `torch.Tensor` are wrapped in Python; a stack is taken only when something
really crossed between host and device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from syncscope.capture.flights import Flights
from syncscope.capture.readbacks import Readbacks, size_bytes
from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import TransferRow

_MOVES = ("to", "cpu", "cuda")


class Transfers:
    """Collector of tensor copies between host and device; `flights` hears of asynchronous ones."""

    name = "transfers"

    def __init__(self, context: CaptureContext, flights: Flights) -> None:
        self._context = context
        self._flights = flights
        self.readbacks = Readbacks(context, flights)
        self._rows = context.writer.rows("transfers")
        self._patches = Patches()

    def start(self) -> None:
        """Wrap the methods."""
        for name in _MOVES:
            self._wrap(name, self._move)
        self._wrap("copy_", self._copy)
        self.readbacks.start()

    def stop(self) -> None:
        """Unwrap the methods."""
        self.readbacks.stop()
        self._patches.undo()

    def _wrap(self, name: str, make: Callable[[str, Any], Any]) -> None:
        original = getattr(torch.Tensor, name)
        wrapper = functools.wraps(original)(make(name, original))
        self._patches.put(torch.Tensor, name, wrapper)

    def _move(self, name: str, original: Any) -> Any:
        now, add = self._context.now, self._add

        def move(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            start = now()
            result = original(self, *args, **kwargs)
            if result is not self and result.is_cuda != self.is_cuda:
                add(name, start, self, result, _non_blocking(name, args, kwargs))
            return result

        return move

    def _copy(self, name: str, original: Any) -> Any:
        now, add, touch = self._context.now, self._add, self._flights.touch

        def copy_(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            source = args[0] if args else kwargs.get("src", kwargs.get("other"))
            if not self.is_cuda and not getattr(source, "is_cuda", False):
                touch(self, "Tensor.copy_", writes=True)
            start = now()
            result = original(self, *args, **kwargs)
            if isinstance(source, torch.Tensor) and source.is_cuda != self.is_cuda:
                add(name, start, source, self, _non_blocking(name, args, kwargs))
            return result

        return copy_

    def _add(
        self,
        name: str,
        start_ns: int,
        source: torch.Tensor,
        target: torch.Tensor,
        non_blocking: bool,
    ) -> None:
        upload = target.is_cuda
        host, remote = (source, target) if upload else (target, source)
        if host.device.type != "cpu":
            return
        context = self._context
        end_ns = context.now()
        memory = _memory(host)
        if not non_blocking or (memory == "pageable" and not upload):
            context.waits += 1
        elif memory == "pinned":
            self._flights.depart(source, target)
        self._rows.append(
            TransferRow(
                context.threads.current(),
                start_ns,
                end_ns,
                context.stacks.capture(skip=3),
                f"Tensor.{name}",
                "h2d" if upload else "d2h",
                size_bytes(source),
                memory,
                non_blocking,
                remote.get_device(),
                -1,
                "",
            )
        )


def _non_blocking(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if "non_blocking" in kwargs:
        return bool(kwargs["non_blocking"])
    # Positional booleans: to(device, dtype, non_blocking, copy), to(dtype, non_blocking, ...),
    # cuda(device, non_blocking), copy_(src, non_blocking): the first one is it.
    flags = [value for value in args if isinstance(value, bool)]
    return flags[0] if flags and name != "cpu" else False


def _memory(host: torch.Tensor) -> str:
    try:
        return "pinned" if host.is_pinned() else "pageable"
    except (RuntimeError, NotImplementedError):
        return "unknown"
