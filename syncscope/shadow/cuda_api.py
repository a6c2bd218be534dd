"""`torch.cuda` and its relatives: devices, memory, random state, waiting."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.cuda.nvtx

from syncscope.shadow import cuda_graphs, cuda_streams
from syncscope.shadow.machine import Machine
from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.tensor_api import as_device

CUDA_VERSION = "13.0"


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
        self.fractions = [1.0] * machine.count

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
        return self.machine.model.name

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        return self.machine.model.capability

    def get_device_properties(self, device: Any = None) -> DeviceProperties:
        self.index(device)
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

    # memory

    def allocator(self, device: Any = None) -> Any:
        """The allocator of a device, with all freed blocks taken back."""
        allocator = self.machine.allocators[self.index(device)]
        allocator.collect()
        return allocator

    def empty_cache(self) -> None:
        machine = self.machine
        start = machine.timeline.now()
        freed = 0
        for device, allocator in enumerate(machine.allocators):
            sizes = allocator.empty_cache()
            freed += len(sizes)
            machine.timeline.memory_call(device, sizes, 0)
        if freed:
            machine.add_blocking(
                start,
                "torch.cuda.empty_cache",
                "allocator_churn",
                kind="allocator",
                explicit=True,
            )

    def set_fraction(self, fraction: float, device: Any = None) -> None:
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        index = self.index(device)
        self.fractions[index] = fraction
        allocator = self.machine.allocators[index]
        allocator.limit = int(allocator.total * fraction)

    def get_fraction(self, device: Any = None) -> float:
        return self.fractions[self.index(device)]

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        allocator = self.allocator(device)
        free = allocator.total - allocator.context_bytes - allocator.reserved
        return free, allocator.total

    def memory_stats(self, device: Any = None) -> OrderedDict[str, int]:
        allocator = self.allocator(device)
        stats = {
            "num_alloc_retries": allocator.retries,
            "num_ooms": allocator.ooms,
            "allocation.all.allocated": allocator.allocations,
            "segment.all.current": allocator.segments,
        }
        for name, current, peak in (
            ("allocated_bytes", allocator.allocated, allocator.peak_allocated),
            ("active_bytes", allocator.allocated, allocator.peak_allocated),
            ("requested_bytes", allocator.allocated, allocator.peak_allocated),
            ("reserved_bytes", allocator.reserved, allocator.peak_reserved),
        ):
            stats[f"{name}.all.current"] = current
            stats[f"{name}.all.peak"] = peak
        return OrderedDict(sorted(stats.items()))

    def memory_summary(self, device: Any = None, abbreviated: bool = False) -> str:
        lines = [f"{name:32} {value}" for name, value in self.memory_stats(device).items()]
        return "\n".join(["memory of the shadow GPU", *lines])

    def reset_peaks(self, device: Any = None) -> None:
        self.allocator(device).reset_peaks()

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
        "utilization": lambda device=None: 0,
        "memory_usage": lambda device=None: 0,
        "ipc_collect": lambda: None,
        "synchronize": api.synchronize,
        "current_blas_handle": lambda: 0,
    }


def _memory(api: CudaApi) -> dict[str, Callable[..., Any]]:
    """Functions of `torch.cuda.memory`."""
    return {
        "empty_cache": api.empty_cache,
        "set_per_process_memory_fraction": api.set_fraction,
        "get_per_process_memory_fraction": api.get_fraction,
        "mem_get_info": api.mem_get_info,
        "memory_stats": api.memory_stats,
        "memory_stats_as_nested_dict": api.memory_stats,
        "memory_summary": api.memory_summary,
        "memory_snapshot": lambda *args, **kwargs: [],
        "memory_allocated": lambda device=None: api.allocator(device).allocated,
        "max_memory_allocated": lambda device=None: api.allocator(device).peak_allocated,
        "memory_reserved": lambda device=None: api.allocator(device).reserved,
        "max_memory_reserved": lambda device=None: api.allocator(device).peak_reserved,
        "memory_cached": lambda device=None: api.allocator(device).reserved,
        "max_memory_cached": lambda device=None: api.allocator(device).peak_reserved,
        "reset_peak_memory_stats": api.reset_peaks,
        "reset_max_memory_allocated": api.reset_peaks,
        "reset_max_memory_cached": api.reset_peaks,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "get_allocator_backend": lambda: "native",
        "host_memory_stats": lambda: OrderedDict(),
        "device_memory_used": lambda device=None: api.allocator(device).reserved,
    }


def _random(machine: Machine) -> dict[str, Callable[..., Any]]:
    """Functions of `torch.cuda.random`. The CPU's generator serves the shadow GPU too.

    Seeding the GPU alone must not disturb it, so it does nothing: values are those of the
    same program on the CPU.
    """
    get, put = torch.get_rng_state, torch.set_rng_state
    return {
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "seed": lambda: None,
        "seed_all": lambda: None,
        "initial_seed": torch.initial_seed,
        "get_rng_state": lambda device="cuda": get(),
        "get_rng_state_all": lambda: [get() for _ in range(machine.count)],
        "set_rng_state": lambda new_state, device="cuda": put(new_state),
        "set_rng_state_all": lambda new_states: put(new_states[0]) if new_states else None,
    }


def _install_streams(machine: Machine, api: CudaApi, patches: FunctionPatches) -> None:
    stream = cuda_streams.bound_to(machine, cuda_streams.ShadowStream)
    context = cuda_streams.bound_to(machine, cuda_streams.ShadowStreamContext)
    graph = type("CUDAGraph", (cuda_graphs.ShadowGraph,), {"machine": machine})
    handles = itertools.count(1)
    for name, value in {
        "Stream": stream,
        "ExternalStream": stream,
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
    patches.put(torch.cuda.graph, "default_capture_stream", None)


def _install_nvtx(patches: FunctionPatches) -> None:
    @contextmanager
    def named(*args: Any, **kwargs: Any) -> Iterator[None]:
        yield

    for name in ("range_push", "range_pop", "range_start", "range_end", "mark"):
        patches.put_function(torch.cuda.nvtx, name, lambda *args, **kwargs: 0)
    patches.put_function(torch.cuda.nvtx, "range", named)
    patches.put_function(torch.cuda.profiler, "start", lambda: None)
    patches.put_function(torch.cuda.profiler, "stop", lambda: None)


def _install_accelerator(machine: Machine, api: CudaApi, patches: FunctionPatches) -> None:
    """`torch.accelerator` (2.6 and later), which DataLoader and others ask."""
    module = getattr(torch, "accelerator", None)
    if module is None:
        return

    def synchronize(device: Any = None) -> None:
        api.synchronize(device)

    functions: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "device_count": lambda: machine.count,
        "current_accelerator": lambda check_available=False: torch.device("cuda"),
        "current_device_index": lambda: machine.thread.device,
        "current_device_idx": lambda: machine.thread.device,
        "set_device_index": api.set_device,
        "set_device_idx": api.set_device,
        "current_stream": api.current_stream,
        "set_stream": api.set_stream,
        "synchronize": synchronize,
        "empty_cache": api.empty_cache,
        "memory_stats": api.memory_stats,
        "memory_allocated": lambda device=None: api.allocator(device).allocated,
        "max_memory_allocated": lambda device=None: api.allocator(device).peak_allocated,
        "memory_reserved": lambda device=None: api.allocator(device).reserved,
        "max_memory_reserved": lambda device=None: api.allocator(device).peak_reserved,
        "reset_peak_memory_stats": api.reset_peaks,
    }
    for name, function in functions.items():
        if hasattr(module, name):
            patches.put_function(module, name, function)


def install(machine: Machine, patches: FunctionPatches) -> CudaApi:
    """Replace `torch.cuda` as far as a program can tell."""
    api = CudaApi(machine)
    for functions in (_answers(machine, api), _memory(api), _random(machine)):
        for name, function in functions.items():
            if hasattr(torch.cuda, name):
                patches.put_function(torch.cuda, name, function)
    _install_streams(machine, api, patches)
    _install_nvtx(patches)
    _install_accelerator(machine, api, patches)
    patches.put(torch._C, "_host_emptyCache", lambda: None)
    patches.put(torch.version, "cuda", CUDA_VERSION)
    patches.put(torch.cuda, "_initialized", True)
    patches.put_function(torch.backends.cuda, "is_built", lambda: True)
    patches.put_function(torch.backends.cudnn, "is_available", lambda: True)
    patches.put_function(torch.backends.cudnn, "version", lambda: 91300)
    # RNN weights need no flattening: the CPU computes them.
    patches.put_function(torch.backends.cudnn, "is_acceptable", lambda tensor: False)
    return api
