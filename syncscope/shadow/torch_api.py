"""Functions of the `torch` namespace that would reach for CUDA before the dispatcher does.

Factories such as `torch.zeros(device="cuda")` arrive at the dispatch mode by themselves.
`torch.tensor` and its kin move their data to the device inside C++, where nothing can see
it, so they are replaced: they make a host tensor, then upload it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from syncscope.shadow.devices import as_device
from syncscope.shadow.effects import Effect
from syncscope.shadow.marks import UNCLAIMED, gpu_of, mark_of, set_mark
from syncscope.shadow.operators import tensors_in
from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.standins import StandIn, overridable, stand_in
from syncscope.shadow.tensor_api import TensorApi, tensor_types

_CPU = torch.device("cpu")


class TorchApi:
    """Replacements that need the originals at hand."""

    def __init__(self, tensor_api: TensorApi) -> None:
        self.api = tensor_api
        self.machine = tensor_api.machine
        self._tensor = torch.tensor
        self._as_tensor = torch.as_tensor
        self._asarray = torch.asarray

    def tensor(
        self,
        data: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        pin_memory: bool = False,
        **rest: Any,
    ) -> torch.Tensor:
        """`torch.tensor`: builds on the host, uploads with a wait."""
        target = _CPU if device is None else as_device(device)
        if isinstance(data, torch.Tensor) and device is None:
            target = data.device
        self.read_elements(data)
        if target.type not in ("cuda", "cpu"):
            return self._tensor(
                data, dtype=dtype, device=device, requires_grad=requires_grad, **rest
            )
        with not_traced():
            made = self._tensor(data, dtype=dtype, device=_CPU, **rest)
        source = gpu_of(data) if isinstance(data, torch.Tensor) else -1
        set_mark_if_plain(made, self.machine, pin_memory)
        if target.type == "cuda":
            index = self.api.index(target)
            if source != index:
                mark_as(made, source, self.machine)
                with not_traced():
                    made = self.api.move(made, index, "torch.tensor", cause="literal_upload")
        elif source >= 0:
            made = self.api.move(made, -1, "torch.tensor")
        return made.requires_grad_() if requires_grad else made

    def as_tensor(self, data: Any, dtype: Any = None, device: Any = None) -> torch.Tensor:
        """`torch.as_tensor`: shares what it can, uploads the rest with a wait."""
        if isinstance(data, torch.Tensor):
            target = data.device if device is None else as_device(device)
            return data.to(target, dtype or data.dtype)
        target = _CPU if device is None else as_device(device)
        self.read_elements(data)
        made = self._as_tensor(data, dtype=dtype, device=_CPU)
        return self._uploaded(made, data, target, "torch.as_tensor")

    def asarray(
        self,
        obj: Any,
        *,
        dtype: Any = None,
        device: Any = None,
        copy: Any = None,
        requires_grad: bool = False,
    ) -> torch.Tensor:
        """`torch.asarray`, likewise."""
        if isinstance(obj, torch.Tensor):
            target = obj.device if device is None else as_device(device)
            made = obj.to(target, dtype or obj.dtype, copy=bool(copy))
            made = made if requires_grad else made.detach()
            return made.requires_grad_(requires_grad)
        target = _CPU if device is None else as_device(device)
        made = self._asarray(obj, dtype=dtype, device=_CPU, copy=copy)
        made = self._uploaded(made, obj, target, "torch.asarray")
        return made.requires_grad_() if requires_grad else made

    def _uploaded(
        self, made: torch.Tensor, data: Any, target: torch.device, op: str
    ) -> torch.Tensor:
        if target.type != "cuda":
            return made if target.type == "cpu" else made.to(target)
        literal = isinstance(data, (list, tuple, int, float, bool, complex))
        cause = "literal_upload" if literal else ""
        return self.api.move(made, self.api.index(target), op, cause=cause)

    def read_elements(self, data: Any) -> None:
        """A list of GPU scalars is read element by element."""
        if isinstance(data, (list, tuple)):
            for item in data:
                if isinstance(item, torch.Tensor):
                    if gpu_of(item) >= 0:
                        for element in item.flatten():
                            torch.ops.aten._local_scalar_dense.default(element.detach())
                elif isinstance(item, (list, tuple)):
                    self.read_elements(item)


@contextmanager
def not_traced() -> Iterator[None]:
    """`torch.jit.trace` takes the tensor that is made as a constant."""
    bindings: Any = torch._C
    state = bindings._get_tracing_state()
    if state is None:
        yield
        return
    bindings._set_tracing_state(None)
    try:
        yield
    finally:
        bindings._set_tracing_state(state)


def mark_as(tensor: torch.Tensor, gpu: int, machine: Any) -> None:
    """Say where the values of a fresh tensor came from."""
    if gpu >= 0:
        set_mark(tensor, None)
        machine.place(tensor, gpu)


def set_mark_if_plain(tensor: torch.Tensor, machine: Any, pinned: bool) -> None:
    """Note the origin of a host tensor that has no mark yet."""
    mark = mark_of(tensor)
    if mark is None or mark is UNCLAIMED or pinned:
        set_mark(tensor, machine.host_mark(pinned, depth=3))


def install(tensor_api: TensorApi, patches: FunctionPatches) -> None:
    """Replace functions of `torch` and the legacy constructors of `torch.cuda`."""
    api = TorchApi(tensor_api)
    for name in ("tensor", "as_tensor", "asarray"):
        patches.wrap(torch, name, lambda original: _made_by(api, original))
    patches.put_function(torch, "get_device", gpu_of)
    for layout in ("coo", "csr", "csc", "bsr", "bsc", "compressed"):
        patches.wrap(torch, f"sparse_{layout}_tensor", lambda original: _sparse(api, original))
    patches.wrap(torch, "range", lambda original: _range(api, original))
    patches.wrap(torch.nested, "nested_tensor", lambda original: _nested(api, original))
    exported: dict[int, int] = {}
    patches.wrap(torch, "from_dlpack", lambda original: _from_dlpack(api, original, exported))
    patches.wrap(torch, "to_dlpack", lambda original: _to_dlpack(original, exported))
    _install_tensor_types(api, patches)
    for name in ("cov", "corrcoef"):
        patches.wrap(torch, name, lambda original: _covariance(api, original))
        patches.wrap(torch.Tensor, name, lambda original: _covariance(api, original))
    patches.wrap(torch, "ctc_loss", lambda original: _ctc_loss(api, original))
    patches.wrap(torch.jit, "load", _load_script)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        patches.wrap(torch._VF, name, _recurrent)
    patches.wrap(torch._C._nn, "one_hot", lambda original: _one_hot(api, original))
    patches.wrap(torch._C._nn, "_parse_to", _parse_to)
    patches.wrap(
        torch._C,
        "_group_tensors_by_device_and_dtype",
        lambda original: group_by_device_and_dtype,
    )


def _made_by(api: TorchApi, original: Callable[..., Any]) -> Callable[..., Any]:
    return overridable(original, getattr(api, original.__name__), by_arguments=False)


def _range(api: TorchApi, original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.range`, whose binding asks for CUDA before the dispatch mode can see it."""

    def make(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        target = _CPU if device is None else as_device(device)
        if target.type != "cuda":
            return original(*args, device=device, **kwargs)
        index = api.api.index(target)
        made = original(*args, device="cpu", **kwargs)
        mark_as(made, index, api.machine)
        api.machine.fill("aten::range", index, made, zero=False)
        return made

    return overridable(original, make, by_arguments=False)


def _sparse(api: TorchApi, original: Callable[..., Any]) -> Callable[..., Any]:
    """Indices and values go to the device first; the constructor then takes them as they are."""

    def build(*args: Any, device: Any = None, **kwargs: Any) -> Any:
        target = _CPU if device is None else as_device(device)
        if device is None:
            where = [gpu_of(item) for item in tensors_in(args)]
            if any(index >= 0 for index in where):
                target = api.machine.devices[max(where)]
        if target.type != "cuda":
            return original(*args, **kwargs, **({} if device is None else {"device": device}))
        parts = [
            api.as_tensor(part, device=target) if isinstance(part, (list, torch.Tensor)) else part
            for part in args
        ]
        made = original(*parts, **kwargs)
        index = api.api.index(target)
        api.machine.place(made, index)
        effects = _sparse_checks(original.__name__, made, args, kwargs)
        op = f"torch.{original.__name__}"
        api.machine.apply(index, effects, op, "data_dependent_size")
        return made

    return overridable(original, build, by_arguments=False)


def _sparse_checks(
    name: str, made: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Effect, ...]:
    """Readbacks of a COO constructor: the largest index without a size, both ends if checked.

    See ATen/native/sparse/SparseTensor.cpp; its copies to the CPU are none on the CPU.
    """
    if name != "sparse_coo_tensor":
        return ()
    ends = Effect("d2h", 8 * made.sparse_dim())
    if len(args) < 3 and kwargs.get("size") is None:
        return (ends, ends) if made._nnz() else ()
    checked = kwargs.get("check_invariants")
    if checked is None:
        checked = torch.sparse.check_sparse_tensor_invariants.is_enabled()
    return (ends, ends) if checked else ()


def _one_hot(api: TorchApi, original: Callable[..., Any]) -> Callable[..., Any]:
    """On the CPU it checks the range of its input; on CUDA it reads the maximum, if at all."""

    def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        thread = api.machine.thread
        if gpu_of(tensor) >= 0:
            thread.silent = 1 if num_classes == -1 else 2
        try:
            encoded: torch.Tensor = original(tensor, num_classes)
        finally:
            thread.silent = 0
        return encoded

    return one_hot


def _ctc_loss(api: TorchApi, original: Callable[..., Any]) -> Callable[..., Any]:
    """Averaging uploads the lengths of the targets as divisors (ATen/native/LossCTC.cpp)."""

    def ctc_loss(
        log_probs: torch.Tensor,
        targets: torch.Tensor,
        input_lengths: Any,
        target_lengths: Any,
        blank: int = 0,
        reduction: int = 1,
        zero_infinity: bool = False,
    ) -> torch.Tensor:
        thread = api.machine.thread
        device = gpu_of(log_probs)
        thread.lenient = device >= 0
        args = (log_probs, targets, input_lengths, target_lengths, blank, reduction)
        try:
            loss: torch.Tensor = original(*args, zero_infinity)
        finally:
            thread.lenient = False
        if device >= 0 and reduction == 1:
            tensor = isinstance(target_lengths, torch.Tensor)
            count = target_lengths.numel() if tensor else len(target_lengths)
            upload = Effect("h2d", loss.element_size() * count)
            api.machine.apply(device, (upload,), "aten::ctc_loss", "host_index")
        return loss

    return ctc_loss


def _covariance(api: TorchApi, original: Callable[..., Any]) -> Callable[..., Any]:
    """It reads whether there are too few observations; with weights, the operators show it.

    Without, they do in some releases of torch.
    """

    def run(input: torch.Tensor, **kwargs: Any) -> torch.Tensor:
        thread, device = api.machine.thread, gpu_of(input)
        reads = device >= 0 and kwargs.get("fweights") is None and kwargs.get("aweights") is None
        thread.silent = int(reads)
        try:
            result: torch.Tensor = original(input, **kwargs)
        finally:
            thread.silent = 0
        if reads:
            api.machine.apply(device, (Effect("d2h", 1),), "aten::cov", "scalar_readback")
        return result

    return run


def _from_dlpack(
    api: TorchApi, original: Callable[..., Any], exported: dict[int, int]
) -> Callable[..., Any]:
    def convert(ext_tensor: Any, *args: Any, **kwargs: Any) -> Any:
        thread = api.machine.thread
        thread.exchanging = True
        try:
            made = original(ext_tensor, *args, **kwargs)
        finally:
            thread.exchanging = False
        if isinstance(ext_tensor, torch.Tensor):
            mark_as(made, gpu_of(ext_tensor), api.machine)
        else:
            mark_as(made, exported.pop(made.data_ptr(), -1), api.machine)
        return made

    return convert


def _to_dlpack(original: Callable[..., Any], exported: dict[int, int]) -> Callable[..., Any]:
    """A capsule tells nothing of the GPU: `exported` does, by address, until it is read."""

    def convert(tensor: torch.Tensor) -> Any:
        if gpu_of(tensor) >= 0:
            exported[tensor.data_ptr()] = gpu_of(tensor)
        return original(tensor)

    return convert


def _nested(api: TorchApi, original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.nested.nested_tensor` of strided layout: built where its rows are, then moved."""

    def nested_tensor(tensor_list: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        rows = max((gpu_of(row) for row in tensors_in(tensor_list)), default=-1)
        strided = kwargs.get("layout", torch.strided) is torch.strided
        if not strided or (device is None and rows < 0):
            return original(tensor_list, *args, device=device, **kwargs)
        made = original(tensor_list, *args, device="cpu", **kwargs)
        mark_as(made, rows, api.machine)
        return made if device is None else made.to(device)

    return overridable(original, nested_tensor, by_arguments=False)


def _load_script(original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.jit.load`: a module for the GPU is read to the host, then moved."""

    def load(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        target = None if map_location is None else as_device(map_location)
        if target is None or target.type != "cuda":
            return original(f, map_location, *args, **kwargs)
        return original(f, "cpu", *args, **kwargs).to(target)

    return load


def _recurrent(original: Callable[..., Any]) -> Callable[..., Any]:
    """CUDA's check of devices, which the CPU's code does not make (ATen/native/RNN.cpp)."""

    def run(*args: Any) -> Any:
        packed = isinstance(args[1], torch.Tensor) and not isinstance(args[2], list)
        hidden, weights = args[2:4] if packed else args[1:3]
        hidden = list(hidden) if isinstance(hidden, (list, tuple)) else [hidden]
        for kind, others in (("parameter", weights), ("hidden", hidden)):
            for other in others:
                if other.device != args[0].device:
                    raise RuntimeError(
                        f"Input and {kind} tensors are not at the same device, found input "
                        f"tensor at {args[0].device} and {kind} tensor at {other.device}"
                    )
        return original(*args)

    return run


def _parse_to(original: Callable[..., Any]) -> Callable[..., Any]:
    """For `Module.to(0)`: a torch without CUDA does not know what device a bare number is."""

    def parse_to(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is int:
            args = (as_device(args[0]), *args[1:])
        elif type(kwargs.get("device")) is int:
            kwargs["device"] = as_device(kwargs["device"])
        return original(*args, **kwargs)

    return parse_to


class _CudaTensorType(StandIn):
    """`torch.cuda.FloatTensor` and its kin: for `isinstance` and `Tensor.type`, and callable."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if not isinstance(instance, torch.Tensor) or gpu_of(instance) < 0:
            return False
        return instance.dtype == cls.dtype and instance.layout == torch.strided


class _HostTensorType(StandIn):
    """`torch.FloatTensor` and its kin, which do not hold the GPU's tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.original) and gpu_of(instance) < 0


def _install_tensor_types(api: TorchApi, patches: FunctionPatches) -> None:
    def maker(dtype: torch.dtype) -> Callable[..., torch.Tensor]:
        def make(*args: Any) -> torch.Tensor:
            """Sizes make an uninitialized tensor, a sequence its values."""
            if len(args) == 1 and not isinstance(args[0], (int, torch.Size)):
                return api.tensor(args[0], dtype=dtype, device="cuda")
            return torch.empty(*(args or (0,)), dtype=dtype, device="cuda")

        return make

    for name, dtype in tensor_types().items():
        on_gpu, on_host = getattr(torch.cuda, name), getattr(torch, name)
        patches.put_function(torch.cuda, name, stand_in(on_gpu, maker(dtype), kind=_CudaTensorType))
        patches.put_function(torch, name, stand_in(on_host, on_host, kind=_HostTensorType))
    legacy = _LegacyTensors(api)
    patches.wrap(torch, "set_default_tensor_type", legacy.setting)
    patches.put(torch.Tensor, "__new__", _new_tensor(legacy))


def _new_tensor(legacy: _LegacyTensors) -> Callable[..., Any]:
    """A plain function that names no arguments, which is what TorchDynamo expects."""

    def new(*args: Any, **kwargs: Any) -> Any:
        return legacy.make(*args, **kwargs)

    return new


class _LegacyTensors:
    """`torch.Tensor(2)`, its subclasses, and `torch.set_default_tensor_type`."""

    def __init__(self, api: TorchApi) -> None:
        self.api = api
        self.on_gpu = False

    def setting(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        """The type of the GPU's tensors means the dtype and a default device."""

        def set_default_tensor_type(t: Any, /) -> None:
            name = t if isinstance(t, str) else f"{t.__module__}.{t.__name__}"
            place, _, kind = name.rpartition(".")
            original(getattr(torch, kind).original if kind in tensor_types() else t)
            self.on_gpu = place == "torch.cuda"
            torch.set_default_device("cuda" if self.on_gpu else None)

        return set_default_tensor_type

    def make(self, cls: Any, *args: Any, **kwargs: Any) -> Any:
        """`torch.Tensor(sizes or values)`: sizes make an uninitialized tensor.

        Of a subclass, PyTorch cannot make one where a dispatch mode looks on.
        """
        with torch._C._DisableTorchDispatch():
            made = torch._C.TensorBase.__new__(cls, *args, **kwargs)
        if not self.on_gpu or cls is not torch.Tensor or isinstance((*args, None)[0], cls):
            return made
        if args and not isinstance(args[0], (int, torch.Size)):
            return self.api.api.move(
                made, self.api.machine.thread.device, "torch.Tensor", cause="literal_upload"
            )
        mark_as(made, self.api.machine.thread.device, self.api.machine)
        return made


def group_by_device_and_dtype(
    tensorlistlist: list[list[torch.Tensor | None]], with_indices: bool = False
) -> dict[tuple[torch.device, torch.dtype], tuple[list[list[Any]], list[int]]]:
    """`torch._C._group_tensors_by_device_and_dtype` that sees shadow devices.

    As there, the first list decides, and the order of groups is that of first appearance.
    """
    groups: dict[tuple[torch.device, torch.dtype], tuple[list[list[Any]], list[int]]] = {}
    for index, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError(
                "Tensors of the first list of nested Tensor lists are supposed to "
                "be defined but the tensor is None"
            )
        key = (first.device, first.dtype)
        group = groups.get(key)
        if group is None:
            group = groups[key] = ([[] for _ in tensorlistlist], [])
        for target, column in zip(group[0], tensorlistlist, strict=True):
            if column:
                target.append(column[index])
        if with_indices:
            group[1].append(index)
    return groups
