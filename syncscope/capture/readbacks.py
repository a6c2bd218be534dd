"""Each readback of a tensor's values that one of its methods makes.

A print of a tensor makes thousands of them in a row, so what is done for each is counted in
tenths of microseconds.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple

import torch

from syncscope.callsite import Burst
from syncscope.capture.flights import Flights
from syncscope.context import CaptureContext
from syncscope.forbidding import check
from syncscope.patches import Patches
from syncscope.recording.tables import TransferRow

_METHODS = ("item", "tolist", "numpy")

_getframe, _new_row = sys._getframe, tuple.__new__


class _Print(NamedTuple):
    """What the readbacks of one print have in common.

    Whether torch can be muted is asked once: a print starts no thread and sets no mode.
    """

    stacks: Burst
    thread_id: int
    can_mute: bool


class _Printing(threading.local):
    now: _Print | None = None
    """The print that this thread is at."""


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
            self._put(torch.Tensor, name, functools.partial(self._readback, f"Tensor.{name}"))
        self._put(torch._tensor_str, "_str", self._print)
        self._put(getattr(torch._tensor_str, "_Formatter", None), "format", self._format)

    def stop(self) -> None:
        """Unwrap the methods."""
        self._patches.undo()

    def _put(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = getattr(owner, name, None)
        if original is not None:
            self._patches.put(owner, name, functools.wraps(original)(make(original)))

    def _readback(self, op: str, original: Any) -> Any:
        context, flights, printing = self._context, self._flights, self._printing
        now, thread, id_of = context.now, context.threads.current, context.stacks.id_of
        add = context.writer.rows("transfers").append

        def readback(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if not self.is_cuda:
                flights.touch(self, op, writes=False)
                return original(self, *args, **kwargs)
            within = printing.now
            muted = context.can_mute() if within is None else within.can_mute
            start = now()
            if muted:
                context.mute()
            try:
                result = original(self, *args, **kwargs)
            finally:
                if muted:
                    context.unmute()
            end, frame = now(), _getframe(1)
            context.waits += 1
            row = (
                thread() if within is None else within.thread_id, start, end,
                id_of(frame) if within is None else within.stacks.id_of(frame),
                op, "d2h", size_bytes(self), "pageable", False, self.get_device(), -1, "",
            )  # fmt: skip
            add(_new_row(TransferRow, row))  # some 0.2 us less than TransferRow(...)
            context.waited(end)
            check()
            return result

        self.code = readback.__code__
        return readback

    def _print(self, original: Any) -> Any:
        context, printing = self._context, self._printing

        def _str(*args: Any, **kwargs: Any) -> Any:
            around, stacks = printing.now, Burst(context.stacks)
            printing.now = _Print(stacks, context.threads.current(), context.can_mute())
            try:
                return original(*args, **kwargs)
            finally:
                printing.now = around
                stacks.end()

        return _str

    def _format(self, original: Any) -> Any:
        """Torch asks for each number whether it is one of those in scientific notation.

        The answer is a tensor on the GPU, and its truth a wait of which torch would warn. To hear
        of that costs some 6 us on an H200, to note it here some 2 us.
        """
        printing = self._printing
        readback = self._readback("Tensor.__bool__", lambda asked, *number: original(*number))

        def formatted(formatter: Any, value: Any) -> Any:
            within, asked = printing.now, getattr(formatter, "sci_mode", None)
            if within is None or not within.can_mute or not isinstance(asked, torch.Tensor):
                return original(formatter, value)
            return readback(asked, formatter, value)

        return formatted


def size_bytes(tensor: torch.Tensor) -> int:
    """Bytes of a tensor's values; -1 where its layout, sparse for one, has no such size."""
    try:
        return tensor.nbytes
    except RuntimeError:
        return -1
