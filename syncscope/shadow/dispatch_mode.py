"""The dispatch mode: hands each aten operator to its handler.

It is pushed as a plain `TorchDispatchMode`, but without the wrapper that keeps dynamo away
(`_should_skip_dynamo`): programs under the shadow GPU run eagerly, and the wrapper costs
more than everything else per operator.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from syncscope.shadow.marks import gpu_of
from syncscope.shadow.operators import Operators, claim, tensors_in

_tensor: Any = torch.tensor
_EMPTY: dict[str, Any] = {}
_EXPLICIT: Any = torch._C.DispatchKey.CompositeExplicitAutograd
_NOT_A_TENSOR = "Expected a value of type 'Tensor'"
_KERNELS_IN_CPP = ("aten", "c10d", "profiler")


@functools.cache
def takes_apart(types: tuple[type, ...]) -> bool:
    """Whether a tensor subclass has an own `__torch_dispatch__`.

    It then goes first, and the operators that it calls come here.
    """
    disabled = torch._C._disabled_torch_dispatch_impl
    return any(getattr(kind, "__torch_dispatch__", disabled) is not disabled for kind in types)


def with_tensors(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Numbers where an operator takes nothing but tensors: constants of TorchScript.

    They are tensors that count as numbers, and dispatch modes get them as numbers.
    """
    return tuple(
        _tensor(value) if isinstance(value, (int, float, complex)) and is_tensor else value
        for value, is_tensor in zip(args, _tensor_positions(func), strict=False)
    )


@functools.cache
def _tensor_positions(func: Any) -> tuple[bool, ...]:
    return tuple(str(argument.type) == "Tensor" for argument in func._schema.arguments)


class ShadowDispatchMode(TorchDispatchMode):
    """Active on every thread that the program starts."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False

    def __init__(self, operators: Operators) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators = operators
        self.handlers = operators.handlers
        # Torch 2.6 and some later releases free a mode that they pop if only the stack holds it,
        # and then use it all the same (pull request 169148 of pytorch mends that).
        self.kept = self

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if types and takes_apart(types):
            return NotImplemented
        try:
            handler = self.handlers[func._op]
        except (KeyError, AttributeError):
            handler = self._add(func)
        try:
            return handler(args, kwargs or _EMPTY)
        except RuntimeError as error:
            if _NOT_A_TENSOR not in str(error):
                raise
        return handler(with_tensors(func, args), kwargs or _EMPTY)

    def _add(self, func: Any) -> Any:
        if not isinstance(func, torch._ops.OpOverload):
            return lambda args, kwargs: func(*args, **kwargs)
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        if func.namespace != "c10d" and has_kernel(func.name(), "CompositeImplicitAutograd"):
            return self._decomposing(func)
        if func.namespace not in _KERNELS_IN_CPP and has_kernel(func.name(), _EXPLICIT.name):
            return self._running(func)
        return self.operators.handler(func)

    def _running(self, func: Any) -> Any:
        """Operators written in Python (`torch.library.custom_op`): what they call counts."""

        machine = self.operators.machine

        def run(args: Any, kwargs: Any) -> Any:
            device = max(map(gpu_of, tensors_in(args)), default=-1)
            if device >= 0:
                claim(machine, args, device)
            with self:
                return func._op_dk(_EXPLICIT, *args, **kwargs)

        self.handlers[func._op] = run
        return run

    def _decomposing(self, func: Any) -> Any:
        """Composite operators arrive whole in inference mode; their parts are what counts.

        Those of nested tensors have kernels of their own.
        """
        nested = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "NestedTensorCPU")
        whole = self.operators.handler(func) if nested else None

        def run(args: Any, kwargs: Any) -> Any:
            if whole is not None and any(
                tensor.is_nested and tensor.layout is torch.strided for tensor in tensors_in(args)
            ):
                return whole(args, kwargs)
            with self:
                return func.decompose(*args, **kwargs)

        self.handlers[func._op] = run
        return run
