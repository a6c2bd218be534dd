"""What tensors and storages answer and do in Python: devices, transfers, readbacks.

These are replaced on the classes `torch.Tensor` and `torch.UntypedStorage` themselves. A
function mode would see the same calls, but it costs a call into Python for every attribute
(`x.shape`), is switched off inside every function that it handles, and is not there on
threads that PyTorch starts; a replaced property costs 0.2 us where it is used and nothing
anywhere else.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parameter import UninitializedParameter
from torch.overrides import handle_torch_function, has_torch_function_unary

from syncscope.shadow import clock, transfers
from syncscope.shadow.devices import as_device
from syncscope.shadow.machine import Machine
from syncscope.shadow.marks import ATTRIBUTE, Mark, gpu_of, mark_of, set_mark, true_device
from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.transfers import Move

_Base = torch._C.TensorBase
_to: Any = _Base.to
_NUMPY_ERROR = (
    "can't convert {device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
    "to host memory first."
)


class _MoveFunction(torch.autograd.Function):
    """A differentiable move: the gradient goes back to where the tensor came from."""

    @staticmethod
    def forward(tensor: torch.Tensor, move: Callable[[Any], Any]) -> torch.Tensor:
        result: torch.Tensor = move(tensor)
        return result

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        ctx.origin, ctx.dtype = inputs[0].device, inputs[0].dtype
        ctx.target = output.device

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return grads[0].to(ctx.origin, ctx.dtype), None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        return tangents[0].to(ctx.target)

    @staticmethod
    def vmap(info: Any, in_dims: tuple[Any, ...], tensor: torch.Tensor, move: Any) -> Any:
        return _apply(tensor, move), in_dims[0]


def _apply(tensor: torch.Tensor, move: Callable[[Any], Any]) -> torch.Tensor:
    """`_MoveFunction.apply`, without a frame of PyTorch on the stack where it can be."""
    transformed = torch._C._are_functorch_transforms_active()
    moved: torch.Tensor = (_apply_anywhere if transformed else _apply_plainly)(tensor, move)
    return moved


_apply_anywhere: Any = _MoveFunction.apply
_apply_plainly: Any = super(torch.autograd.Function, _MoveFunction).apply


class TensorApi:
    """The replaced attributes of `torch.Tensor`, for one machine."""

    def __init__(self, machine: Machine, enter: Callable[[], None]) -> None:
        self.machine = machine
        self.enter = enter
        """Called before a tensor moves: see devices.install."""

    def move(
        self,
        tensor: torch.Tensor,
        target: int,
        op: str,
        *,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
        memory_format: Any = None,
        cause: str = "",
    ) -> torch.Tensor:
        """A copy on another device (-1: the host)."""
        self.enter()
        if target >= 0:
            self.machine.check_device(target)

        def carry_out(source: torch.Tensor) -> torch.Tensor:
            thread = self.machine.thread
            thread.move = move = Move(target, non_blocking, op, cause)
            result: torch.Tensor = torch.ops.aten._to_copy.default(
                source,
                dtype=dtype or source.dtype,
                device=self.machine.devices[target] if target >= 0 else None,
                memory_format=memory_format,
            )
            if thread.move is move:
                thread.move = None
                transfers.moved(self.machine, source, result, move)
            return result

        if tensor.requires_grad and torch.is_grad_enabled():
            return _apply(tensor, carry_out)
        return carry_out(tensor)

    def to(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        """`Tensor.to` in all its signatures."""
        target, dtype, non_blocking, copy, memory_format = parse_to(args, kwargs)
        if target is None:
            return as_it_was(tensor, *args, **kwargs)
        if target.type not in ("cuda", "cpu"):
            return as_it_was(tensor, *args, **kwargs)
        here = gpu_of(tensor)
        there = -1 if target.type == "cpu" else self.index(target)
        if here == there:
            rest: dict[str, Any] = {"non_blocking": non_blocking, "copy": copy}
            if memory_format is not None:
                rest["memory_format"] = memory_format
            return as_it_was(tensor, dtype or tensor.dtype, **rest)
        return self.move(
            tensor,
            there,
            "Tensor.to",
            dtype=dtype,
            non_blocking=non_blocking,
            memory_format=memory_format,
        )

    def cpu(self, tensor: torch.Tensor, memory_format: Any = None) -> torch.Tensor:
        """`Tensor.cpu`."""
        if gpu_of(tensor) < 0:
            return tensor if memory_format is None else _Base.cpu(tensor, memory_format)
        return self.move(tensor, -1, "Tensor.cpu", memory_format=memory_format)

    def cuda(
        self,
        tensor: torch.Tensor,
        device: Any = None,
        non_blocking: bool = False,
        memory_format: Any = None,
    ) -> torch.Tensor:
        """`Tensor.cuda`."""
        target = self.index(as_device(device) if device is not None else torch.device("cuda"))
        if gpu_of(tensor) == target:
            return tensor
        return self.move(
            tensor,
            target,
            "Tensor.cuda",
            non_blocking=non_blocking,
            memory_format=memory_format,
        )

    def index(self, device: torch.device) -> int:
        """Index of a cuda device; without one, the current device."""
        return self.machine.thread.device if device.index is None else int(device.index)

    def numpy(self, tensor: torch.Tensor, *, force: bool = False) -> Any:
        """`Tensor.numpy`: an error for the GPU's memory, a read of the host's."""
        mark = mark_of(tensor)
        if mark is not None:
            if mark.gpu >= 0:
                if not force:
                    raise TypeError(_NUMPY_ERROR.format(device=self.machine.devices[mark.gpu]))
                tensor = self.move(tensor.detach(), -1, "Tensor.numpy")
            elif mark.gpu == -1:
                self.machine.check_host(tensor, mark, "Tensor.numpy", writes=False)
                if mark.pinned:
                    transfers.share(tensor, mark)
        return _Base.numpy(tensor, force=force)

    def tolist(self, tensor: torch.Tensor) -> Any:
        """`Tensor.tolist`: one copy of the whole tensor."""
        mark = mark_of(tensor)
        if mark is not None:
            if mark.gpu >= 0:
                transfers.download(
                    self.machine,
                    tensor,
                    None,
                    mark.gpu,
                    non_blocking=False,
                    op="Tensor.tolist",
                )
            elif mark.gpu == -1:
                self.machine.check_host(tensor, mark, "Tensor.tolist", writes=False)
        return _Base.tolist(tensor)

    def pin_memory(self, tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
        """`Tensor.pin_memory`: the tensor itself if it is pinned already."""
        mark = mark_of(tensor)
        if mark is not None:
            if mark.gpu >= 0:
                raise RuntimeError(
                    f"cannot pin '{type_name(tensor, True)}' only dense CPU tensors can be pinned"
                )
            if mark.gpu == -1 and mark.pinned:
                return tensor
        result = tensor.clone()
        set_mark(result, Mark(True, mark.origin if isinstance(mark, Mark) else -1))
        self.machine.thread.now += clock.EVENT_NS
        return result

    def type(
        self, tensor: torch.Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any
    ) -> Any:
        """`Tensor.type`: the name of the type, or a conversion that may change the device."""
        here = gpu_of(tensor)
        if dtype is None:
            return type_name(tensor, here >= 0)
        if isinstance(dtype, torch.dtype):
            return self.to(tensor, dtype, non_blocking=non_blocking)
        name = dtype if isinstance(dtype, str) else f"{dtype.__module__}.{dtype.__name__}"
        target = "cuda" if name.startswith("torch.cuda.") else "cpu"
        known = tensor_types().get(name.rpartition(".")[2])
        if known is None:
            raise ValueError(f"invalid type: '{name}'")
        return self.to(tensor, target, known, non_blocking=non_blocking)


@functools.cache
def tensor_types() -> dict[str, torch.dtype]:
    """Legacy type names, such as FloatTensor."""
    return {
        "FloatTensor": torch.float32,
        "DoubleTensor": torch.float64,
        "HalfTensor": torch.float16,
        "BFloat16Tensor": torch.bfloat16,
        "ByteTensor": torch.uint8,
        "CharTensor": torch.int8,
        "ShortTensor": torch.int16,
        "IntTensor": torch.int32,
        "LongTensor": torch.int64,
        "BoolTensor": torch.bool,
    }


def type_name(tensor: torch.Tensor, cuda: bool) -> str:
    """Legacy name of a tensor's type, such as torch.cuda.FloatTensor."""
    name = str(_Base.type(tensor))
    return name.replace("torch.", "torch.cuda.", 1) if cuda else name


def check_types(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
    """CUDA's error for a convolution's operands on two devices (ATen/native/Convolution.cpp)."""
    own = type_name(input, gpu_of(input) >= 0)
    for name, other in (("weight", weight), ("bias", bias)):
        if other is None or (gpu_of(other) >= 0) == (gpu_of(input) >= 0):
            continue
        text = f"Input type ({own}) and {name} type ({type_name(other, gpu_of(other) >= 0)})"
        text += " should be the same"
        if name == "weight" and gpu_of(input) < 0:
            text += " or input should be a MKLDNN tensor and weight is a dense tensor"
        raise RuntimeError(text)


def as_it_was(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    """PyTorch's own `Tensor.to`."""
    result: torch.Tensor = _to(tensor, *args, **kwargs)
    return result


def parse_to(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[torch.device | None, torch.dtype | None, bool, bool, Any]:
    """Device (None if unsaid), dtype, non_blocking, copy, memory_format of a `to` call."""
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    flags = list(args)
    if flags:
        first = flags[0]
        if isinstance(first, torch.Tensor):
            device, dtype = first.device, first.dtype
            del flags[0]
        elif isinstance(first, torch.dtype):
            dtype = first
            del flags[0]
        elif first is None or isinstance(first, (str, int, torch.device)):
            device = first
            del flags[0]
            if flags and (flags[0] is None or isinstance(flags[0], torch.dtype)):
                dtype = flags.pop(0)
    other = kwargs.get("other")
    if other is not None:
        device, dtype = other.device, other.dtype
    non_blocking = bool(flags[0] if flags else kwargs.get("non_blocking", False))
    copy = bool(flags[1] if len(flags) > 1 else kwargs.get("copy", False))
    return (
        None if device is None else as_device(device),
        dtype,
        non_blocking,
        copy,
        kwargs.get("memory_format"),
    )


def install(machine: Machine, patches: FunctionPatches, enter: Callable[[], None]) -> TensorApi:
    """Replace the attributes of `torch.Tensor`."""
    api = TensorApi(machine, enter)
    cls = torch.Tensor
    _install_answers(machine, patches)
    for name in ("to", "cpu", "cuda", "numpy", "tolist", "pin_memory", "type"):
        patches.put(cls, name, _method(name, getattr(_Base, name), getattr(api, name)))
    moves = [cls.to, cls.cpu, cls.cuda]
    lazy: Any = UninitializedParameter.__mro__[1]
    patches.put(lazy, "_allowed_methods", [*lazy._allowed_methods, *moves])

    def type_as(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return api.to(tensor, other.device, other.dtype)

    def new_tensor(tensor: torch.Tensor, data: Any, **kwargs: Any) -> torch.Tensor:
        if kwargs.get("dtype") is None:
            kwargs["dtype"] = tensor.dtype
        if kwargs.get("device") is None:
            kwargs["device"] = tensor.device
        return torch.tensor(data, **kwargs)

    def new(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        device = kwargs.pop("device", None)
        device = tensor.device if device is None else as_device(device)
        if device.type != "cuda" or (args and isinstance(args[0], torch.Tensor)):
            return _Base.new(tensor, *args, **kwargs)
        if not args or isinstance(args[0], (int, torch.Size)):
            size = kwargs.get("size", args or (0,))
            return torch.empty(*size, dtype=tensor.dtype, device=device)
        made = _Base.new(tensor, *args, **kwargs)
        return api.move(made, api.index(device), "Tensor.new", cause="literal_upload")

    patches.put(cls, "type_as", _method("type_as", _Base.type_as, type_as))
    patches.put(cls, "new_tensor", _method("new_tensor", _Base.new_tensor, new_tensor))
    patches.put(cls, "new", _method("new", _Base.new, new))
    _install_dlpack(machine, patches)
    patches.put(cls, "record_stream", lambda tensor, stream: None)
    _install_printing(machine, patches)
    return api


def _install_dlpack(machine: Machine, patches: FunctionPatches) -> None:
    """Only `torch.from_dlpack` takes the GPU's memory: others would find that of the host."""
    cls = torch.Tensor
    dlpack = cls.__dlpack__

    def to_dlpack(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if gpu_of(tensor) >= 0 and not machine.thread.exchanging:
            raise RuntimeError("Unsupported device in DLTensor.")
        return dlpack(tensor, *args, **kwargs)

    patches.put(cls, "__dlpack__", to_dlpack)


def _method(name: str, original: Any, bound: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        if has_torch_function_unary(self):
            return handle_torch_function(method, (self,), self, *args, **kwargs)
        return bound(self, *args, **kwargs)

    method.__name__ = name
    method.__qualname__ = f"Tensor.{name}"
    method.__doc__ = original.__doc__
    return method


def _install_answers(machine: Machine, patches: FunctionPatches) -> None:
    devices = machine.devices

    def device(tensor: torch.Tensor) -> torch.device:
        mark = mark_of(tensor)
        if mark is None or mark.gpu < 0:
            answer: torch.device = true_device(tensor)
            return answer
        shadow: torch.device = devices[mark.gpu]
        return shadow

    def is_cuda(tensor: torch.Tensor) -> bool:
        return gpu_of(tensor) >= 0

    def is_cpu(tensor: torch.Tensor) -> bool:
        return true_device(tensor).type == "cpu" and gpu_of(tensor) < 0

    def is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
        mark = mark_of(tensor)
        return mark is not None and mark.gpu == -1 and mark.pinned

    def get_device(tensor: torch.Tensor) -> int:
        return gpu_of(tensor)

    patches.put(torch.UntypedStorage, ATTRIBUTE, None)
    patches.put(torch.Tensor, "device", property(device))
    patches.put(torch.Tensor, "is_cuda", property(is_cuda))
    patches.put(torch.Tensor, "is_cpu", property(is_cpu))
    patches.put(torch.Tensor, "is_pinned", is_pinned)
    patches.put(torch.Tensor, "get_device", get_device)


def _install_printing(machine: Machine, patches: FunctionPatches) -> None:
    for name in ("__repr__", "__format__", "__str__"):
        original = getattr(torch.Tensor, name)

        def printing(
            tensor: torch.Tensor,
            *args: Any,
            _original: Any = original,
            _name: str = f"Tensor.{name}",
            **kwargs: Any,
        ) -> Any:
            thread = machine.thread
            before = thread.caller
            thread.caller = (_name, "print_format")
            try:
                return _original(tensor, *args, **kwargs)
            finally:
                thread.caller = before

        if name in vars(torch.Tensor):
            patches.put(torch.Tensor, name, printing)
