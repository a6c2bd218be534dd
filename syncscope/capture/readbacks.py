"""Each readback of a tensor's values that one of its methods makes.

A print of a tensor makes thousands of them in a row, so what is done for each is counted in
tenths of microseconds.
"""

from __future__ import annotations

import functools
import sys
import threading
from types import CodeType
from typing import Any

import torch

from syncscope.callsite import Burst
from syncscope.capture.flights import Flights
from syncscope.context import CaptureContext
from syncscope.forbidding import check
from syncscope.patches import Patches
from syncscope.recording.tables import TransferRow

_METHODS = ("item", "tolist", "numpy")

_getframe, _new_row = sys._getframe, tuple.__new__


class _Printing(threading.local):
    stacks: Burst | None = None
    """Those of the readbacks of the print that this thread is at."""


class Readbacks:
    """The readbacks of `Transfers`; `flights` hears of those of the host's own tensors."""

    def __init__(self, context: CaptureContext, flights: Flights) -> None:
        self._context = context
        self._flights = flights
        self._printing = _Printing()
        self._patches = Patches()
        self.code: CodeType | None = None
        """The wrapper, which notes each of its calls that waits."""

    def start(self) -> None:
        """Wrap the methods."""
        for name in _METHODS:
            original = getattr(torch.Tensor, name)
            wrapper = self._readback(f"Tensor.{name}", original)
            self.code = wrapper.__code__
            self._patches.put(torch.Tensor, name, functools.wraps(original)(wrapper))
        formatting = getattr(torch._tensor_str, "_str", None)
        if formatting is not None:
            self._patches.put(torch._tensor_str, "_str", self._print(formatting))

    def stop(self) -> None:
        """Unwrap the methods."""
        self._patches.undo()

    def _readback(self, op: str, original: Any) -> Any:
        context, flights, printing = self._context, self._flights, self._printing
        now, thread, id_of = context.now, context.threads.current, context.stacks.id_of
        add = context.writer.rows("transfers").append

        def readback(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not self.is_cuda:
                flights.touch(self, op, writes=False)
                return original(self, *args, **kwargs)
            start, muted = now(), context.mute()
            try:
                result = original(self, *args, **kwargs)
            finally:
                if muted:
                    context.unmute()
            end, stacks, frame = now(), printing.stacks, _getframe(1)
            context.waits += 1
            row = (
                thread(), start, end, id_of(frame) if stacks is None else stacks.id_of(frame),
                op, "d2h", size_bytes(self), "pageable", False, self.get_device(), -1, "",
            )  # fmt: skip
            add(_new_row(TransferRow, row))  # some 0.2 us less than TransferRow(...)
            context.waited(end)
            check()
            return result

        return readback

    def _print(self, original: Any) -> Any:
        stacks, printing = self._context.stacks, self._printing

        @functools.wraps(original)
        def _str(*args: Any, **kwargs: Any) -> Any:
            around, printing.stacks = printing.stacks, Burst(stacks)
            try:
                return original(*args, **kwargs)
            finally:
                printing.stacks = around

        return _str


def size_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's values; -1 where its layout, sparse for one, has no such size."""
    try:
        return tensor.nbytes
    except RuntimeError:
        return -1
