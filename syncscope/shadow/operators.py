"""What the shadow GPU does with each aten operator: decided once per overload, then cached.

A handler is a function (args, kwargs) -> result. Which one an overload gets follows from
its schema: makes a view, makes a tensor from nothing, moves data, or computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from syncscope.shadow import clock, copying
from syncscope.shadow.causes import cause_of
from syncscope.shadow.clock import flops_of
from syncscope.shadow.kernels import kernel_of
from syncscope.shadow.machine import Machine
from syncscope.shadow.marks import (
    NO_STORAGE,
    PLAIN,
    UNCLAIMED,
    gpu_of,
    mark_of,
    note_mask,
    set_mark,
    storage_of,
)
from syncscope.shadow.random_state import drawing
from syncscope.shadow.tensor_api import check_types

Tensor, Parameter = torch.Tensor, torch.nn.Parameter

Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]
EffectsOf = Callable[..., tuple[Any, ...]]

NO_KERNEL = frozenset(
    {
        "aten::empty",
        "aten::empty_like",
        "aten::empty_strided",
        "aten::empty_permuted",
        "aten::new_empty",
        "aten::new_empty_strided",
        "aten::_local_scalar_dense",
        "aten::_linalg_check_errors",
        "aten::resize_",
        "aten::set_",
        "aten::_unsafe_view",
        "aten::_sparse_coo_tensor_with_dims_and_tensors",
        "aten::_sparse_coo_tensor_unsafe",
        "aten::_sparse_compressed_tensor_unsafe",
        "aten::_coalesced_",
        "aten::_nnz",
        "aten::_dimI",
        "aten::_dimV",
        "aten::is_coalesced",
        "aten::sparse_dim",
        "aten::dense_dim",
        "aten::is_same_size",
        "aten::is_set_to",
        "aten::record_stream",
        "aten::_resize_output_",
        "aten::_has_compatible_shallow_copy_type",
    }
)
"""Operators that launch nothing themselves."""

TAKES_HOST_TENSORS = (
    "c10d::",
    "profiler::",
    "aten::_foreach",
    "aten::_fused",
    "aten::_amp_",
    "aten::_pack_padded_sequence",
    "aten::_ctc_loss",
    "aten::ctc_loss",
    "aten::_use_cudnn",
    "aten::tensor_split",
    "aten::_cudnn",
    "aten::lstm",
    "aten::gru",
    "aten::rnn_",
    "aten::mkldnn_rnn",
    "aten::set_",
    "aten::segment_reduce",
    "aten::_nested",
    "aten::_validate",
)
"""Operators that accept host tensors next to the GPU's, as they do on CUDA."""

HOST_RESULTS = {"aten::_pack_padded_sequence": 1}
"""Position of the result that is in host memory on CUDA, too."""

INDEXING = ("index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_")
"""Operators that upload host indices by themselves."""

_DYNAMIC = torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape

SCALARS = frozenset(
    {int, float, bool, complex, type(None), str}
    | {torch.dtype, torch.layout, torch.memory_format, torch.device}
)
"""Types of arguments that cannot hold a tensor."""

_IS_TENSOR: dict[type, bool] = {torch.Tensor: True, torch.nn.Parameter: True}


def is_tensor(value: Any) -> bool:
    """isinstance(value, torch.Tensor), cached per type."""
    kind = type(value)
    known = _IS_TENSOR.get(kind)
    if known is None:
        known = _IS_TENSOR[kind] = issubclass(kind, torch.Tensor)
    return known


def tensors_in(values: Any) -> list[torch.Tensor]:
    """Tensors among arguments, one level of lists deep."""
    found: list[torch.Tensor] = []
    for value in values:
        if is_tensor(value):
            found.append(value)
        elif type(value) is list or type(value) is tuple:
            found.extend(item for item in value if is_tensor(item))
    return found


def takes_host_tensors(name: str) -> bool:
    """Whether an operator accepts host tensors with dimensions next to the GPU's."""
    return name.startswith(TAKES_HOST_TENSORS) or name.removeprefix("aten::") in INDEXING


def takes_lists(func: Any) -> bool:
    """Whether some argument is a list of tensors."""
    types = (str(argument.type) for argument in func._schema.arguments)
    return any("Tensor" in kind and "List" in kind for kind in types)


def flattened(values: tuple[Any, ...]) -> list[Any]:
    """Arguments, with the items of lists in place of the lists."""
    flat: list[Any] = []
    for value in values:
        if type(value) is list or type(value) is tuple:
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def returns_view(func: Any) -> bool:
    """All results alias an argument that is not written."""
    returns = func._schema.returns
    return bool(returns) and all(
        ret.alias_info is not None and not ret.alias_info.is_write for ret in returns
    )


def returns_fresh(func: Any) -> bool:
    """Some result is a new tensor."""
    return any(ret.alias_info is None for ret in func._schema.returns)


class Operands:
    """Where the tensors of a call live."""

    __slots__ = ("complex", "device", "flight", "host", "size", "unclaimed")

    def __init__(self) -> None:
        self.complex = False
        self.device = -1
        self.size = 0
        """Bytes of those on the GPU."""
        self.host: torch.Tensor | None = None
        """One on the host that is more than a scalar."""
        self.flight = False
        self.unclaimed = False

    def see(self, machine: Machine, value: Any) -> None:
        """Take an argument into account: a tensor, a list of tensors, or anything else."""
        if is_tensor(value):
            self._see_tensor(machine, value)
        elif type(value) is list or type(value) is tuple:
            for item in value:
                if is_tensor(item):
                    self._see_tensor(machine, item)

    def _see_tensor(self, machine: Machine, tensor: torch.Tensor) -> None:
        if tensor.is_complex():
            self.complex = True
        mark = mark_of(tensor)
        if mark is None:
            if tensor.dim():
                self.host = tensor
            return
        index = mark.gpu
        if index >= 0:
            if self.device >= 0 and index != self.device:
                machine.mixed(self.device, index)
            self.device = index
            if tensor.layout is torch.strided:
                self.size += tensor.nbytes
        elif index == -1:
            if tensor.dim():
                self.host = tensor
            if mark.flights:
                self.flight = True
        else:
            self.unclaimed = True


ON_HOST = Operands()
"""All on the host, none of them complex or remarkable otherwise."""


class Operators:
    """Builds and keeps a handler per overload, for one machine."""

    def __init__(
        self, machine: Machine, effects_of: EffectsOf, has_rule: Callable[[Any], bool]
    ) -> None:
        self.machine = machine
        self.effects_of = effects_of
        self.has_rule = has_rule
        self.handlers: dict[Any, Handler] = {}
        """By `_op` of the overload, which C++ hashes: the overload itself does that in Python."""
        self._special: dict[str, Callable[[Any], Handler]] = {
            "aten::_to_copy": lambda func: copying.to_copy(machine, func, self.compute(func)),
            "aten::copy_": lambda func: copying.copy_(machine, func, self.compute(func)),
            "aten::is_pinned": lambda func: copying.is_pinned,
            "aten::_pin_memory": lambda func: copying.pin_memory(machine),
            "aten::record_stream": lambda func: copying.nothing,
            "aten::fill": lambda func: copying.fill(machine, func, self.compute(func)),
            "aten::fill_": lambda func: copying.fill(machine, func, self.compute(func)),
            "c10d::barrier": lambda func: copying.barrier(machine, func),
        }
        for name in INDEXING:
            self._special[f"aten::{name}"] = lambda func: copying.index(
                machine, func, self.compute(func)
            )

    def handler(self, func: Any) -> Handler:
        """The handler of an overload."""
        name = func._schema.name
        special = self._special.get(name)
        if special is not None:
            made = special(func)
        elif name.startswith("profiler::"):
            made = _plain(func)
        elif returns_view(func):
            made = self.view(func)
        elif any(argument.name == "device" for argument in func._schema.arguments):
            made = self.factory(func)
        else:
            made = self.compute(func)
        if torch.Tag.nondeterministic_seeded in func.tags:
            made = drawing(self.machine, made)
        self.handlers[func._op] = made
        return made

    def view(self, func: Any) -> Handler:
        """Results share a storage with an argument, and so its mark."""
        op = func._op
        machine = self.machine
        thread = machine.thread
        apply_rules = self._rules(func)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            result = op(*args, **kwargs)
            thread.now += clock.VIEW_NS
            if machine.has_sparse:
                device = max((gpu_of(tensor) for tensor in tensors_in(args)), default=-1)
                if device >= 0:
                    for tensor in tensors_in((result,)):
                        if mark_of(tensor) is None:
                            machine.place(tensor, device)
                    apply_rules(args, kwargs, result, device)
            return result

        return run

    def factory(self, func: Any) -> Handler:
        """Makes a tensor from sizes and values, perhaps like another tensor."""
        op, name = func._op, func._schema.name
        machine = self.machine
        compute = self.compute(func)
        kernel = name not in NO_KERNEL
        apply_rules = self._rules(func)
        zero = name in ("aten::zeros", "aten::zeros_like", "aten::new_zeros")

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            device = kwargs.get("device")
            like = is_tensor(args[0]) if args else False
            if device is not None and device.type == "cuda":
                index = machine.thread.device if device.index is None else device.index
                machine.check_device(index)
                # Without a device, which is dear to hand over: the CPU is where it is made anyway.
                kwargs = {key: kwargs[key] for key in kwargs if key not in _PLACE}
                if like and args[0].is_meta:
                    kwargs["device"] = _CPU
                result = op(*args, **kwargs)
                machine.place(result, index)
                machine.thread.now += clock.VIEW_NS
                if kernel:
                    machine.fill(name, index, result, zero)
                apply_rules(args, kwargs, result, index)
                return result
            if like and (device is None or "pin_memory" not in kwargs):
                return compute(args, kwargs)
            if device is not None and device.type != "cpu":
                return op(*args, **kwargs)
            return host(args, kwargs)

        names = {argument.name for argument in func._schema.arguments}
        sparse = name == "aten::_sparse_coo_tensor_with_dims_and_tensors"

        def host(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            pinned = kwargs.get("pin_memory")
            if pinned:
                kwargs = {**kwargs, "pin_memory": False}
            result = op(*args, **kwargs)
            machine.thread.now += clock.HOST_OP_NS
            if sparse and join_parts(machine, args, result):
                return result
            if "device" in kwargs and "pin_memory" not in kwargs and "pin_memory" in names:
                set_mark(result, UNCLAIMED)
            else:
                set_mark(result, machine.host_mark(bool(pinned), depth=4))
            return result

        return run

    def compute(self, func: Any) -> Handler:
        """An operator that reads and writes tensors where they live."""
        general = self._general(func)
        on_gpu = self._on_gpu(func)
        on_host = self._on_host(func)
        lists = takes_lists(func)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            """The common case, without a call: all tensors plain, and on one device."""
            values: Any = (*args, *kwargs.values()) if kwargs else args
            device = None
            size = 0
            for value in flattened(values) if lists else values:
                kind = type(value)
                if kind is Tensor or kind is Parameter:
                    try:
                        mark = storage_of(value)._syncscope_mark  # type: ignore[attr-defined]
                    except NO_STORAGE:
                        return general(args, kwargs)
                    index = -1 if mark is None else mark.gpu
                    if index >= 0:
                        size += value.nbytes
                    elif mark is not None and (index != -1 or mark.flights):
                        return general(args, kwargs)
                    if device is None:
                        device = index
                    elif index != device:
                        return general(args, kwargs)
                    if value.is_complex():
                        return general(args, kwargs)
                elif kind not in SCALARS and (lists or kind is not list):
                    return general(args, kwargs)
            if device is None:
                return general(args, kwargs)
            if device < 0:
                return on_host(args, kwargs, ON_HOST)
            return on_gpu(args, kwargs, device, size)

        return run

    def _general(self, func: Any) -> Handler:
        machine = self.machine
        on_gpu = self._on_gpu(func)
        on_host = self._on_host(func)
        strict = not takes_host_tensors(func._schema.name)
        convolves = "convolution" in func._schema.name

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            operands = Operands()
            for value in args:
                operands.see(machine, value)
            for value in kwargs.values():
                operands.see(machine, value)
            device = operands.device
            if device < 0:
                if operands.complex:
                    return resolving(on_host, args, kwargs, operands)
                return on_host(args, kwargs, operands)
            if operands.host is not None and strict and not machine.thread.lenient:
                if convolves:
                    check_types(*args[:3])
                machine.mixed(device, -1)
            if operands.unclaimed:
                claim(machine, args, device)
            if operands.complex:
                return resolving(on_gpu, args, kwargs, device, operands.size)
            return on_gpu(args, kwargs, device, operands.size)

        return run

    def _on_gpu(self, func: Any) -> Callable[[tuple[Any, ...], dict[str, Any], int, int], Any]:
        op = kernel_of(func)
        machine = self.machine
        timeline = machine.timeline
        roofline = timeline.roofline
        thread = machine.thread
        name = func._schema.name
        full_name = func.name()
        code = None if name in NO_KERNEL else timeline.kernel_code(name)
        fresh = returns_fresh(func)
        flops = flops_of(func)
        convolves = "convolution" in func._schema.name
        effects_of = self._effects(func)
        cause = cause_of(func)
        dynamic = any(tag in func.tags for tag in _DYNAMIC)
        ns_per_byte = roofline.ns_per_byte

        def run(args: tuple[Any, ...], kwargs: dict[str, Any], device: int, size: int) -> Any:
            try:
                result = op(*args, **kwargs) if kwargs else op(*args)
            except NotImplementedError as error:
                raise unsupported(full_name, error) from error
            if fresh:
                if type(result) is torch.Tensor:
                    size += machine.place(result, device)
                else:
                    size += place_results(machine, name, result, device)
            if code is not None:
                if flops is None:
                    duration = clock.KERNEL_FIXED_NS + int(size * ns_per_byte)
                else:
                    operations, dtype = flops(args, result), dtype_of(args)
                    duration = roofline.compute(size, operations, dtype, convolves)
                if thread.capture is None:
                    timeline.launch_kernel(device, code, duration)
                else:
                    thread.capture.add(op, args, kwargs, result, name, duration)
            else:
                thread.now += clock.VIEW_NS
            if effects_of is not None:
                effects = effects_of(func, args, kwargs, result, _lives_on_gpu)
                if effects:
                    machine.apply(device, effects, full_name, cause)
            elif dynamic:
                machine.note(full_name, "its output depends on data, and no rule says how")
            return result

        return run

    def _rules(self, func: Any) -> Callable[..., None]:
        """What applies an overload's rules after (args, kwargs, result, device)."""
        effects_of = self._effects(func)
        machine, name, cause = self.machine, func.name(), cause_of(func)

        def apply(args: Any, kwargs: Any, result: Any, device: int) -> None:
            if effects_of is not None:
                effects = effects_of(func, args, kwargs, result, _lives_on_gpu)
                if effects:
                    machine.apply(device, effects, name, cause)

        return apply

    def _effects(self, func: Any) -> EffectsOf | None:
        """The rules for an overload; None if there are none."""
        if not self.has_rule(func):
            return None
        rules = self.effects_of
        if func._schema.name.removeprefix("aten::") not in INDEXING:
            return rules

        def without_uploads(*call: Any) -> tuple[Any, ...]:
            return tuple(effect for effect in rules(*call) if effect.action != "h2d")

        return without_uploads

    def _on_host(self, func: Any) -> Callable[..., Any]:
        op = kernel_of(func)
        machine = self.machine
        thread = machine.thread
        fresh = returns_fresh(func)
        flops = flops_of(func)
        name = func.name()
        written = [
            index
            for index, argument in enumerate(func._schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

        def run(args: tuple[Any, ...], kwargs: dict[str, Any], operands: Operands) -> Any:
            if operands.flight:
                check_flights(machine, args, written, name)
            result = op(*args, **kwargs)
            spent = clock.HOST_OP_NS
            if type(result) is torch.Tensor and not result.is_sparse:
                spent += int(2 * result.nbytes / clock.HOST_BYTES_PER_NS)
                if result.dtype is torch.bool and not operands.unclaimed:
                    note_mask(result)
            if flops is not None:
                spent += int(flops(args, result) / clock.HOST_FLOPS_PER_NS)
            thread.now += spent
            if operands.unclaimed:
                settle(args, result, operands.host, fresh)
            return result

        return run


_CPU = torch.device("cpu")
_PLACE = ("device", "pin_memory")
_LAZY_KEYS = (torch._C.DispatchKey.Conjugate, torch._C.DispatchKey.Negative)


def resolving(compute: Callable[..., Any], *args: Any) -> Any:
    """Compute with lazy conjugation and negation, which PyTorch excludes in dispatch modes.

    Without them, operators that call others on conjugated views get wrong numbers.
    """
    excluded = torch._C._dispatch_tls_is_dispatch_key_excluded
    exclude = torch._C._dispatch_tls_set_dispatch_key_excluded
    before = [excluded(key) for key in _LAZY_KEYS]
    for key in _LAZY_KEYS:
        exclude(key, False)
    try:
        return compute(*args)
    finally:
        for key, value in zip(_LAZY_KEYS, before, strict=True):
            exclude(key, value)


def _plain(func: Any) -> Handler:
    op = func._op
    return lambda args, kwargs: op(*args, **kwargs)


def _lives_on_gpu(tensor: torch.Tensor) -> bool:
    return gpu_of(tensor) >= 0


def place_results(machine: Machine, name: str, result: Any, device: int) -> int:
    """Give several results memory on a GPU; returns its bytes."""
    if type(result) is not tuple and type(result) is not list:
        return 0
    on_host = HOST_RESULTS.get(name, -1)
    size = 0
    for index, item in enumerate(result):
        if index == on_host:
            continue
        if type(item) in PLAIN:
            size += machine.place(item, device)
        else:
            size += sum(machine.place(tensor, device) for tensor in tensors_in((item,)))
    return size


def join_parts(machine: Machine, args: tuple[Any, ...], result: torch.Tensor) -> bool:
    """Put a sparse tensor on the GPU that its parts live on, if they do."""
    device = max((gpu_of(tensor) for tensor in tensors_in(args)), default=-1)
    if device >= 0:
        machine.place(result, device)
    return device >= 0


def dtype_of(args: tuple[Any, ...]) -> torch.dtype:
    """Type of the first tensor among the arguments."""
    for value in args:
        if is_tensor(value):
            dtype: torch.dtype = value.dtype
            return dtype
    return torch.float32


def unsupported(name: str, error: Exception) -> Exception:
    """An operator whose kernel exists for CUDA only."""
    from syncscope.errors import ShadowUnsupportedError

    if "CPU" not in str(error):
        return error
    return ShadowUnsupportedError(
        f"{name} has a kernel for CUDA only, so the shadow GPU cannot run it; "
        "record this program on a machine with a GPU"
    )


def claim(machine: Machine, args: tuple[Any, ...], device: int) -> None:
    """Tensors that C++ code made on the way turn out to live on the GPU."""
    for tensor in tensors_in(args):
        if mark_of(tensor) is UNCLAIMED:
            set_mark(tensor, None)
            machine.place(tensor, device)


def settle(args: tuple[Any, ...], result: Any, host: Any, fresh: bool) -> None:
    """Tensors that C++ code made on the way: on the host if they meet a host tensor."""
    if host is not None:
        for tensor in tensors_in(args):
            if mark_of(tensor) is UNCLAIMED:
                set_mark(tensor, None)
    elif fresh:
        for tensor in tensors_in((result,)):
            if mark_of(tensor) is None:
                set_mark(tensor, UNCLAIMED)


def check_flights(machine: Machine, args: tuple[Any, ...], written: list[int], name: str) -> None:
    """Report host reads and writes of memory that a copy is still working on."""
    for index, value in enumerate(args):
        for tensor in tensors_in((value,)):
            mark = mark_of(tensor)
            if mark is not None and mark.gpu == -1:
                machine.check_host(tensor, mark, name, writes=index in written)
