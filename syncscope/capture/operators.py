"""Detail steps: each aten operator that waits or copies, seen from torch's dispatcher.

A `TorchDispatchMode` makes every operator some 10 us dearer (step time x2.1 and more on a
launch-bound loop), and compiled code is not what runs below it: so it is on for a few steps
only, whose times are used for nothing.

Which line of the forward pass a backward operator belongs to is known from the sequence
number that autograd gives to each node when the forward operator makes it.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from syncscope.capture.flights import Flights
from syncscope.capture.sync_warnings import SyncWarnings
from syncscope.context import CaptureContext
from syncscope.recording.tables import OpRow

_BETWEEN = (__name__, "torch._compile", "torch._dynamo.eval_frame")
"""Modules between the program and an operator that the mode sees."""

_COPIES = ("aten::_to_copy", "aten::copy_", "aten::_copy_from", "aten::_local_scalar_dense")


class DetailSteps:
    """Switches the dispatch mode on and off, on the thread that marks the steps."""

    def __init__(self, context: CaptureContext, warned: SyncWarnings, flights: Flights) -> None:
        self._context = context
        self._warned = warned
        self._flights = flights
        self._mode: _WatchingMode | None = None
        self._thread = 0

    def begin(self) -> bool:
        """Watch from now on. False if the program has a dispatch mode of its own.

        Its modes and ours would have to end in the order in which they nest.
        """
        if torch._C._len_torch_dispatch_stack():
            return False
        operators = Operators(self._context, self._flights, self._warned)
        self._warned.listeners.append(operators.synchronized)
        self._mode = _WatchingMode(operators)
        self._mode.__enter__()  # type: ignore[no-untyped-call]
        self._thread = threading.get_ident()
        return True

    def end(self) -> None:
        """Stop watching. On another thread the mode, which is bound to its own, goes quiet."""
        mode, self._mode = self._mode, None
        if mode is None:
            return
        self._warned.listeners.remove(mode.operators.synchronized)
        mode.quiet = True
        if threading.get_ident() == self._thread:
            _leave(mode)


class Operators:
    """Carries operators out and notes those that wait or copy."""

    def __init__(self, context: CaptureContext, flights: Flights, warned: SyncWarnings) -> None:
        self._context = context
        self._flights = flights
        self._warned = warned
        self._rows = context.writer.rows("ops")
        self._origins: dict[int, tuple[StorageWeakRef, int]] = {}
        self._forward: dict[int, int] = {}
        self._first_node = torch._C._autograd._get_sequence_nr()
        self._local = threading.local()

    def synchronized(self) -> bool:
        """Torch warns on this thread. True if that is of the operator that runs."""
        waits = getattr(self._local, "waits", None)
        if waits is None:
            return False
        self._local.waits = waits + 1
        return True

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Carry one operator out. Raises what it raises."""
        inputs = list(_tensors(args)) + list(_tensors(kwargs.values()))
        self._note_node()
        self._note_touch(func, inputs)
        start_ns = self._context.now()
        result, waits = self._carry_out(func, args, kwargs)
        outputs = list(_tensors((result,)))
        direction = _direction(func._schema.name, inputs, outputs)
        if waits or direction:
            self._add(func, start_ns, inputs, waits, direction)
        self._note_origins(outputs, inputs)
        return result

    def _carry_out(self, func: Any, args: tuple[Any, ...], kwargs: Any) -> tuple[Any, int]:
        """The result, and of how many waits torch warned."""
        local = self._local
        around, local.waits = getattr(local, "waits", None), 0
        try:
            # Torch hands warnings on where a binding returns. A plain call of an operator is
            # none, and the warnings would come when the program's own call returns; this is.
            result = torch._C._disabled_torch_function_impl(func, (), args, kwargs)
            return result, local.waits
        finally:
            local.waits = around

    def _add(
        self, func: Any, start_ns: int, inputs: list[torch.Tensor], waits: int, direction: str
    ) -> None:
        context, frame = self._context, _program_frame()
        stack_id = context.stacks.id_of(frame)
        self._rows.append(
            OpRow(
                context.threads.current(),
                start_ns,
                context.now(),
                stack_id,
                func.name() if "." in func.name() else f"{func.name()}.default",
                ", ".join("x".join(map(str, x.shape)) or "scalar" for x in inputs),
                ", ".join(str(x.dtype).removeprefix("torch.") for x in inputs),
                ", ".join(str(x.device) for x in inputs),
                waits > 0,
                direction,
                self._origin(inputs) if direction == "h2d" else -1,
                self._forward_line(),
            )
        )
        for _ in range(waits if frame is not None else 0):
            self._warned.tell(stack_id)  # on autograd's own threads the backward call tells

    def _line(self) -> int:
        return self._context.stacks.id_of(_program_frame())

    def _note_node(self) -> None:
        """The operator that follows a new autograd node is the one that it was made for."""
        number = torch._C._autograd._get_sequence_nr() - 1
        if number >= self._first_node and number not in self._forward:
            self._forward[number] = self._line()

    def _forward_line(self) -> int:
        node = torch._C._current_autograd_node()
        return -1 if node is None else self._forward.get(node._sequence_nr(), -1)

    def _note_touch(self, func: Any, inputs: list[torch.Tensor]) -> None:
        """An operator on host tensors touches their memory, unless it only makes a view."""
        if func.is_view or any(x.device.type != "cpu" for x in inputs):
            return
        for number, tensor in enumerate(inputs):
            writes = func._schema.is_mutable and number == 0
            self._flights.touch(tensor, func._schema.name, writes=writes)

    def _note_origins(self, outputs: list[torch.Tensor], inputs: list[torch.Tensor]) -> None:
        """A host tensor with memory of its own was made here."""
        known = {id(x) for x in inputs}
        for tensor in outputs:
            if tensor.device.type != "cpu" or id(tensor) in known:
                continue
            storage = _storage(tensor)
            # The weak reference keeps the address from being given to another storage.
            if storage is not None and storage._cdata not in self._origins:
                stack_id = self._line()
                self._origins[storage._cdata] = (StorageWeakRef(storage), stack_id)

    def _origin(self, inputs: Iterable[torch.Tensor]) -> int:
        for tensor in inputs:
            storage = _storage(tensor) if tensor.device.type == "cpu" else None
            if storage is not None and storage._cdata in self._origins:
                return self._origins[storage._cdata][1]
        return -1


class _WatchingMode(TorchDispatchMode):
    """Autograd hands it on to its own threads."""

    supports_higher_order_operators = True

    @classmethod
    def is_infra_mode(cls) -> bool:
        """True: else a function that is compiled in a detail step would stay uncompiled."""
        return True

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """The same question, as newer releases of torch ask it."""
        return True

    def __init__(self, operators: Operators) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators = operators
        self.quiet = False
        self.kept = self  # torch 2.6 frees what only its stack holds, and pops it all the same

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and _takes_apart(types):
            return NotImplemented  # a subclass with operators of its own goes first
        if self.quiet or not isinstance(func, torch._ops.OpOverload):
            return func(*args, **(kwargs or {}))
        return self.operators.run(func, args, kwargs or {})


@functools.cache
def _takes_apart(types: tuple[type, ...]) -> bool:
    disabled = torch._C._disabled_torch_dispatch_impl
    return any(getattr(kind, "__torch_dispatch__", disabled) is not disabled for kind in types)


def _leave(mode: TorchDispatchMode) -> None:
    """Take a mode off this thread's stack, whatever the program has put above it."""
    above = []
    while torch._C._len_torch_dispatch_stack():
        top = torch._C._get_dispatch_stack_at(torch._C._len_torch_dispatch_stack() - 1)
        if top is mode:
            mode.__exit__(None, None, None)
            break
        above.append(torch._C._pop_torch_dispatch_stack(None))
    for other in reversed(above):
        torch._C._push_on_torch_dispatch_stack(other)


def _program_frame() -> FrameType | None:
    """The innermost frame of the program; None on autograd's own threads."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") in _BETWEEN:
        frame = frame.f_back
    return frame


def _tensors(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Tensors among values, and in their lists and tuples."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _direction(name: str, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> str:
    """h2d or d2h if an operator moves data between host and device; else "".

    Kernels take host scalars of no dimensions by value: only copies move those.
    """
    copies = name in _COPIES
    if name == "aten::copy_":
        target, source = inputs[0].device.type, inputs[1].device.type
        return "" if target == source else ("h2d" if source == "cpu" else "d2h")
    given = {x.device.type for x in inputs if x.dim() or copies}
    made = {x.device.type for x in outputs}
    if name == "aten::_local_scalar_dense":
        return "" if given == {"cpu"} else "d2h"
    if len(given | made) < 2:
        return ""
    return "h2d" if "cpu" in given else "d2h"


def _storage(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    try:
        return tensor.untyped_storage()
    except (NotImplementedError, RuntimeError):  # sparse and other layouts have none
        return None
