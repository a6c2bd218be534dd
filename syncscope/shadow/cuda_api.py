"""`torch.cuda` and its relatives: devices, memory, random state, waiting."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.cuda.nccl
import torch.cuda.nvtx
import torch.cuda.tunable

from syncscope.shadow import cuda_graphs, cuda_memory, cuda_streams
from syncscope.shadow.cuda_memory import MemoryApi
from syncscope.shadow.devices import as_device
from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.unsupported import refuse, refused_methods

CUDA_VERSION = "13.0"
NCCL_VERSION = (2, 27, 7)
"""What PyTorch's builds for this CUDA bring."""


@dataclass(frozen=True, slots=True)
class DeviceProperties:
    """What `torch.cuda.get_device_properties` returns."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    warp_size: int = 32
    max_threads_per_multi_processor: int = 2048
    max_threads_per_block: int = 1024
    regs_per_multiprocessor: int = 65536
    shared_memory_per_block: int = 49152
    shared_memory_per_block_optin: int = 232448
    shared_memory_per_multiprocessor: int = 233472
    L2_cache_size: int = 52428800
    is_integrated: int = 0
    is_multi_gpu_board: int = 0
    gcnArchName: str = ""
    uuid: str = "00000000-0000-0000-0000-000000000000"
    pci_bus_id: int = 0
    pci_device_id: int = 0
    pci_domain_id: int = 0


class CudaApi:
    """Functions of `torch.cuda`, bound to a machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine

    def index(self, device: Any = None) -> int:
        """Index of a device given in any way; raises CUDA's error if it is not there."""
        if device is None or (isinstance(device, int) and device < 0):
            return self.machine.thread.device
        found = as_device(device)
        if found.type != "cuda":
            raise ValueError(f"Expected a cuda device, but got: {found}")
        index = self.machine.thread.device if found.index is None else int(found.index)
        self.machine.check_device(index)
        return index

    # devices

    def set_device(self, device: Any) -> None:
        if not (isinstance(device, int) and device < 0):
            self.machine.thread.device = self.index(device)

    def exchange_device(self, device: int) -> int:
        before = self.machine.thread.device
        self.set_device(device)
        return before

    def get_device_name(self, device: Any = None) -> str:
        return self.get_device_properties(device).name

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        properties = self.get_device_properties(device)
        return properties.major, properties.minor

    def get_device_properties(self, device: Any = None) -> DeviceProperties:
        try:
            self.index(device)
        except RuntimeError:
            raise AssertionError("Invalid device id") from None
        model = self.machine.model
        return DeviceProperties(
            model.name, *model.capability, model.memory_bytes, model.multiprocessors
        )

    def synchronize(self, device: Any = None) -> None:
        machine = self.machine
        index = self.index(device)
        if machine.thread.capture is not None:
            machine.forbid_in_capture("torch.cuda.synchronize")
        start = machine.timeline.now()
        machine.timeline.wait_device(index)
        machine.add_blocking(start, "torch.cuda.synchronize", "explicit_wait", explicit=True)

    # streams

    def current_stream(self, device: Any = None) -> Any:
        state = self.machine.timeline.stream(self.index(device))
        return self.stream_class(_state=state)

    def default_stream(self, device: Any = None) -> Any:
        return self.stream_class(_state=self.machine.timeline.default[self.index(device)])

    def set_stream(self, stream: Any) -> None:
        if stream is not None:
            self.machine.thread.device = stream.state.device
            self.machine.thread.streams[stream.state.device] = stream.state

    @property
    def stream_class(self) -> Any:
        return cuda_streams.bound_to(self.machine, cuda_streams.ShadowStream)


class DeviceContext:
    """`torch.cuda.device(...)`: makes a device the current one of this thread."""

    api: CudaApi

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else self.api.index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = self.api.exchange_device(self.idx)

    def __exit__(self, *exc: Any) -> None:
        self.api.set_device(self.prev_idx)


class TensorDeviceContext(DeviceContext):
    """`torch.cuda.device_of(tensor)`."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def _answers(machine: Machine, api: CudaApi) -> dict[str, Callable[..., Any]]:
    """Functions of `torch.cuda` that answer something."""
    return {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "init": lambda: None,
        "_lazy_init": lambda: None,
        "_lazy_call": lambda callable, **kwargs: callable(),
        "_is_in_bad_fork": lambda: machine.forked,
        "device_count": lambda: machine.count,
        "current_device": lambda: machine.thread.device,
        "set_device": api.set_device,
        "_exchange_device": api.exchange_device,
        "_maybe_exchange_device": api.exchange_device,
        "get_device_name": api.get_device_name,
        "get_device_capability": api.get_device_capability,
        "get_device_properties": api.get_device_properties,
        "can_device_access_peer": lambda device, peer_device: True,
        "is_bf16_supported": lambda including_emulation=True: (
            including_emulation or machine.model.capability >= (8, 0)
        ),
        "is_tf32_supported": lambda: machine.model.capability >= (8, 0),
        "get_arch_list": lambda: ["sm_{}{}".format(*machine.model.capability)],
        "get_gencode_flags": lambda: "",
        "get_sync_debug_mode": lambda: 0,
        "set_sync_debug_mode": lambda debug_mode: None,
        "ipc_collect": lambda: None,
        "synchronize": api.synchronize,
        "current_blas_handle": lambda: 0,
        "current_solver_handle": lambda: 0,
    }


def _install_streams(machine: Machine, api: CudaApi, patches: FunctionPatches) -> None:
    stream = cuda_streams.bound_to(machine, cuda_streams.ShadowStream)
    context = cuda_streams.bound_to(machine, cuda_streams.ShadowStreamContext)
    external = cuda_streams.bound_to(machine, cuda_streams.ShadowExternalStream)
    shadow = cuda_graphs.ShadowGraph
    refused = refused_methods("torch.cuda.CUDAGraph", torch.cuda.CUDAGraph, shadow)
    graph = type("CUDAGraph", (shadow,), {"machine": machine, **refused})
    handles = itertools.count(1)
    for name, value in {
        "Stream": stream,
        "ExternalStream": external,
        "get_stream_from_external": lambda data_ptr, device=None: external(data_ptr, device),
        "Event": cuda_streams.bound_to(machine, cuda_streams.ShadowEvent),
        "StreamContext": context,
        "stream": context,
        "current_stream": api.current_stream,
        "default_stream": api.default_stream,
        "set_stream": api.set_stream,
        "CUDAGraph": graph,
        "graph_pool_handle": lambda: (next(handles), 0),
        "is_current_stream_capturing": lambda: machine.thread.capture is not None,
        "device": type("device", (DeviceContext,), {"api": api}),
        "device_of": type("device_of", (TensorDeviceContext,), {"api": api}),
    }.items():
        patches.put_function(torch.cuda, name, value)
    patches.put_function(torch, "Stream", cuda_streams.generic_stream(machine))
    patches.put_function(torch, "Event", cuda_streams.generic_event(machine))
    patches.put(torch.cuda.graph, "default_capture_stream", None)


def _install_nvtx(patches: FunctionPatches) -> None:
    @contextmanager
    def named(*args: Any, **kwargs: Any) -> Iterator[None]:
        yield

    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        patches.put_function(torch.cuda.nvtx, name, lambda *args, **kwargs: 0)
    patches.put_function(torch.cuda.nvtx, "range", named)
    emit = torch.autograd.profiler.emit_nvtx
    patches.put(emit, "__enter__", lambda self: self)
    patches.put(emit, "__exit__", lambda self, *exc: None)
    patches.put_function(torch.cuda.profiler, "start", lambda: None)
    patches.put_function(torch.cuda.profiler, "stop", lambda: None)


def _install_accelerator(api: CudaApi, memory: MemoryApi, patches: FunctionPatches) -> None:
    """`torch.accelerator` (2.6 and later), which DataLoader and others ask: its C++ side."""
    model = api.machine.model
    functions: dict[str, Callable[..., Any]] = {
        "getAccelerator": lambda: torch.device("cuda"),
        "deviceCount": lambda: api.machine.count,
        "getDeviceIndex": lambda: api.machine.thread.device,
        "setDeviceIndex": api.set_device,
        "exchangeDevice": api.exchange_device,
        "maybeExchangeDevice": api.exchange_device,
        "getDeviceCapability": lambda index: {"supported_dtypes": _dtypes(model.capability)},
        "getStream": api.current_stream,
        "setStream": api.set_stream,
        "synchronizeDevice": api.synchronize,
        "isAllocatorInitialized": lambda: True,
        "emptyCache": memory.empty_cache,
        "emptyHostCache": lambda: None,
        "getDeviceStats": memory.stats,
        "resetAccumulatedStats": lambda index: None,
        "resetPeakStats": torch.cuda.reset_peak_memory_stats,
        "getMemoryInfo": memory.mem_get_info,
    }
    for name, function in functions.items():
        if hasattr(torch._C, f"_accelerator_{name}"):
            patches.put(torch._C, f"_accelerator_{name}", _alone(function))
    patches.put_function(torch.accelerator, "is_available", lambda: True)


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is equal to no other: dynamo's tables have one rule for each."""
    return lambda *args, **kwargs: function(*args, **kwargs)


def _dtypes(capability: tuple[int, int]) -> set[torch.dtype]:
    """Types that kernels of a GPU can compute with."""
    found = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
    found |= {torch.float16, torch.float32, torch.float64, torch.complex64, torch.complex128}
    return found | {torch.bfloat16} if capability >= (8, 0) else found


def _install_drivers(api: CudaApi, memory: MemoryApi, patches: FunctionPatches) -> None:
    """What programs reach below `torch.cuda`: the runtime, NCCL, and PyTorch's own bindings."""
    runtime = Runtime(memory)
    patches.put(torch.cuda, "_cudart", runtime)
    patches.put(torch.cuda, "has_half", True)
    patches.put(torch.cuda, "has_magma", True)
    patches.put_function(torch.cuda.nccl, "version", lambda: NCCL_VERSION)
    for name in ("is_enabled", "tuning_is_enabled"):
        patches.put_function(torch.cuda.tunable, name, lambda: False)
    bindings: dict[str, Callable[..., Any]] = {
        "getCurrentRawStream": lambda device: api.current_stream(device).cuda_stream,
        "getDevice": lambda: api.machine.thread.device,
        "setDevice": api.set_device,
        "getDeviceCount": lambda: api.machine.count,
        "synchronize": api.synchronize,
    }
    for name, function in bindings.items():
        patches.put(torch._C, f"_cuda_{name}", _alone(function))


class CudaErrorCode(int):
    """`cudaError_t`."""

    success = 0


class Runtime:
    """`torch.cuda.cudart()`: the functions of CUDA's runtime that have a meaning here."""

    cudaError = CudaErrorCode

    def __init__(self, memory: MemoryApi) -> None:
        self.cudaMemGetInfo = memory.mem_get_info

    def cudaGetErrorString(self, error: int) -> str:
        return f"CUDA error {int(error)}"

    def cudaProfilerStart(self) -> int:
        return 0

    def cudaProfilerStop(self) -> int:
        return 0

    def __getattr__(self, name: str) -> Any:
        refuse(f"torch.cuda.cudart().{name} was used")


def install(machine: Machine, patches: FunctionPatches) -> CudaApi:
    """Replace `torch.cuda` as far as a program can tell."""
    api = CudaApi(machine)
    for name, function in _answers(machine, api).items():
        if hasattr(torch.cuda, name):
            patches.put_function(torch.cuda, name, function)
    memory = cuda_memory.install(api, patches)
    _install_streams(machine, api, patches)
    _install_nvtx(patches)
    _install_accelerator(api, memory, patches)
    _install_drivers(api, memory, patches)
    patches.put(torch._C, "_host_emptyCache", lambda: None)
    patches.put(torch.version, "cuda", CUDA_VERSION)
    patches.put(torch.cuda, "_initialized", True)
    patches.put_function(torch.backends.cuda, "is_built", lambda: True)
    patches.put_function(torch.backends.cudnn, "is_available", lambda: True)
    patches.put_function(torch.backends.cudnn, "version", lambda: 91300)
    # RNN weights need no flattening: the CPU computes them.
    patches.put_function(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    return api
