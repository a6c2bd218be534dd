"""Memory queries of `torch.cuda`, answered by the model of the caching allocator."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from syncscope.shadow.allocator import Allocator
from syncscope.shadow.patching import FunctionPatches

if TYPE_CHECKING:
    from syncscope.shadow.cuda_api import CudaApi


class MemoryApi:
    """Functions of `torch.cuda.memory`."""

    def __init__(self, api: CudaApi) -> None:
        self._api = api
        self._machine = api.machine
        self._fractions = [1.0] * api.machine.count

    def allocator(self, device: Any = None) -> Allocator:
        """The allocator of a device, with all freed blocks taken back."""
        allocator = self._machine.allocators[self._api.index(device)]
        allocator.collect()
        return allocator

    def empty_cache(self) -> None:
        machine = self._machine
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
        if not isinstance(fraction, float):
            raise TypeError("Invalid type for fraction argument, must be `float`")
        if not 0 <= fraction <= 1:
            raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
        self._fractions[self._api.index(device)] = fraction
        allocator = self.allocator(device)
        allocator.limit = int(allocator.total * fraction)

    def get_fraction(self, device: Any = None) -> float:
        return self._fractions[self._api.index(device)]

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        allocator = self.allocator(device)
        free = allocator.total - allocator.context_bytes - allocator.reserved
        return free, allocator.total

    def used(self, device: Any = None) -> int:
        """What the driver would call used: segments and the context."""
        free, total = self.mem_get_info(device)
        return total - free

    def stats(self, device: Any = None) -> dict[str, Any]:
        """`torch._C._cuda_memoryStats`: the counters that the model keeps, of all pools."""
        allocator = self.allocator(device)
        split = allocator.split_blocks()
        total = allocator.allocated + allocator.returned_bytes
        in_use = {
            "current": allocator.allocated,
            "peak": allocator.peak_allocated,
            "allocated": total,
            "freed": allocator.returned_bytes,
        }
        blocks = {
            "current": allocator.allocations - allocator.returns,
            "allocated": allocator.allocations,
            "freed": allocator.returns,
        }
        return {
            "num_alloc_retries": allocator.retries,
            "num_ooms": allocator.ooms,
            **{f"{name}_bytes": {"all": in_use} for name in ("allocated", "active", "requested")},
            "reserved_bytes": {
                "all": {"current": allocator.reserved, "peak": allocator.peak_reserved}
            },
            "inactive_split_bytes": {"all": {"current": sum(split)}},
            "inactive_split": {"all": {"current": len(split)}},
            "allocation": {"all": blocks},
            "active": {"all": blocks},
            "segment": {"all": {"current": allocator.segments}},
        }

    def host_stats(self) -> dict[str, Any]:
        """Of the cache of pinned memory, which is not modelled."""
        return {}

    def summary(self, device: Any = None, abbreviated: bool = False) -> str:
        stats = torch.cuda.memory_stats(device)
        lines = [f"{name:32} {value}" for name, value in stats.items()]
        return "\n".join(["memory of the shadow GPU", *lines])

    def snapshot(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """`torch.cuda.memory._snapshot`: the model keeps no history of its blocks."""
        self._machine.note("torch.cuda.memory._snapshot", "the shadow GPU keeps no history")
        return {"segments": [], "device_traces": [[] for _ in self._machine.devices]}


def install(api: CudaApi, patches: FunctionPatches) -> MemoryApi:
    """Replace what asks CUDA in `torch.cuda.memory`; PyTorch's own Python does the rest."""
    memory = MemoryApi(api)
    functions: dict[str, Callable[..., Any]] = {
        "empty_cache": memory.empty_cache,
        "set_per_process_memory_fraction": memory.set_fraction,
        "get_per_process_memory_fraction": memory.get_fraction,
        "mem_get_info": memory.mem_get_info,
        "device_memory_used": memory.used,
        "memory_summary": memory.summary,
        "memory_snapshot": lambda *args, **kwargs: memory.snapshot()["segments"],
        "get_allocator_backend": lambda: "native",
        "host_memory_stats_as_nested_dict": memory.host_stats,
        "reset_accumulated_memory_stats": lambda device=None: None,
        "reset_accumulated_host_memory_stats": lambda: None,
        "reset_peak_host_memory_stats": lambda: None,
        "reset_peak_memory_stats": lambda device=None: memory.allocator(device).reset_peaks(),
    }
    for name, function in functions.items():
        if hasattr(torch.cuda, name):
            patches.put_function(torch.cuda, name, function)
    for name, function in {
        "_snapshot": memory.snapshot,
        "_record_memory_history": lambda *args, **kwargs: None,
    }.items():
        patches.put_function(torch.cuda.memory, name, function)
    patches.put(torch._C, "_cuda_memoryStats", memory.stats)
    return memory
