"""What a program can ask of `torch.cuda` and `torch.accelerator`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from syncscope.errors import ShadowUnsupportedError

REFUSED = {
    "CUDAPluggableAllocator",
    "GreenContext",
    "MemPool",
    "MemPoolContext",
    "caching_allocator_alloc",
    "caching_allocator_delete",
    "caching_allocator_enable",
    "change_current_allocator",
    "clock_rate",
    "list_gpu_processes",
    "memory_usage",
    "power_draw",
    "temperature",
    "use_mem_pool",
    "utilization",
}
ARGUMENTS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "CudaError": lambda: (2,),
    "ExternalStream": lambda: (0,),
    "StreamContext": lambda: (None,),
    "can_device_access_peer": lambda: (0, 0),
    "check_error": lambda: (0,),
    "device": lambda: (0,),
    "device_of": lambda: (torch.ones(1, device="cuda"),),
    "get_stream_from_external": lambda: (0,),
    "export_dot": lambda: ("",),
    "export_graph_data": lambda: ("",),
    "graph": lambda: (torch.cuda.CUDAGraph(),),
    "make_graphed_callables": lambda: (
        nn.Linear(1, 1).cuda(),
        (torch.ones(1, 1, device="cuda"),),
    ),
    "manual_seed": lambda: (1,),
    "manual_seed_all": lambda: (1,),
    "set_device": lambda: (0,),
    "set_per_process_memory_fraction": lambda: (0.5,),
    "set_rng_state": lambda: (torch.cuda.get_rng_state(),),
    "set_rng_state_all": lambda: (torch.cuda.get_rng_state_all(),),
    "set_stream": lambda: (torch.cuda.Stream(),),
    "set_sync_debug_mode": lambda: (0,),
    "stream": lambda: (None,),
}


@pytest.mark.filterwarnings("ignore")
def test_every_public_function_answers_or_says_in_one_line_that_it_cannot(session: Any) -> None:
    for name in torch.cuda.__all__:
        function = getattr(torch.cuda, name)
        if not callable(function):
            continue
        arguments = ARGUMENTS.get(name, lambda: ())()
        if name not in REFUSED:
            function(*arguments)
            continue
        with pytest.raises(ShadowUnsupportedError, match=f"torch.cuda.{name}") as caught:
            function(*arguments)
        assert "\n" not in str(caught.value)


def test_what_is_refused_looks_as_it_is(session: Any) -> None:
    assert not isinstance(1, torch.cuda.MemPool)
    assert inspect.unwrap(torch.cuda.use_mem_pool).__name__ == "use_mem_pool"


@pytest.mark.skipif(not hasattr(torch.accelerator, "Graph"), reason="torch 2.6 has less of graphs")
def test_what_is_not_modelled_of_graphs_is_refused(session: Any) -> None:
    with pytest.raises(ShadowUnsupportedError, match=r"torch\.cuda\.CUDAGraph\.raw_cuda_graph"):
        torch.cuda.CUDAGraph().raw_cuda_graph()
    with pytest.raises(ShadowUnsupportedError, match=r"torch\.accelerator\.Graph"):
        torch.accelerator.Graph()


def test_memory_is_counted_as_the_caching_allocator_counts(session: Any) -> None:
    torch.cuda.reset_peak_memory_stats()
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == 1 << 20
    assert torch.cuda.memory_reserved() == 2 << 20
    del x
    torch.empty(100, device="cuda")
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.cuda.memory_allocated() == 0
    assert stats["allocated_bytes.all.peak"] == torch.cuda.max_memory_allocated() == 1 << 20
    assert stats["allocation.all.allocated"] == stats["allocation.all.freed"] == 2
    assert stats["allocation.all.current"] == 0
    assert stats["allocated_bytes.all.freed"] == (1 << 20) + 512
    free, total = torch.cuda.mem_get_info()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0
    assert torch.cuda.mem_get_info() == (free + (2 << 20), total)
    assert "allocated_bytes" in torch.cuda.memory_summary()
    assert torch.cuda.memory._snapshot()["segments"] == []


def test_split_blocks_are_those_of_segments_in_use(session: Any) -> None:
    x = torch.empty(512, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["inactive_split_bytes.all.current"] == (2 << 20) - 512
    del x
    assert torch.cuda.memory_stats()["inactive_split_bytes.all.current"] == 0


def test_devices_that_are_not_there_are_refused_as_on_cuda(make_session: Any) -> None:
    make_session(count=2)
    assert torch.cuda.get_device_name(1) == "NVIDIA H200"
    assert torch.cuda.get_device_capability("cuda:1") == (9, 0)
    with pytest.raises(AssertionError, match="Invalid device id"):
        torch.cuda.get_device_name(2)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.cuda.set_device(2)


def test_generic_streams_and_events_are_those_of_the_gpu(session: Any) -> None:
    for made in (torch.Stream(), torch.Stream("cuda"), torch.Stream(device=0)):
        assert isinstance(made, torch.cuda.Stream)
        assert isinstance(made, torch.Stream)
    stream = torch.Stream(device="cuda")
    with stream:
        assert torch.accelerator.current_stream() == stream
        assert torch._C._cuda_getCurrentRawStream(0) == stream.cuda_stream != 0
    assert torch.cuda.ExternalStream(stream.cuda_stream) == stream
    rebuilt = torch.cuda.Stream(stream_id=stream.stream_id, device_index=0, device_type=1)
    assert rebuilt == stream
    first, last = (torch.Event("cuda", enable_timing=True) for _ in range(2))
    x = torch.ones(512, 512, device="cuda")
    first.record()
    x @ x
    last.record()
    last.synchronize()
    assert first.elapsed_time(last) > 0
    assert torch.Stream("cpu").device.type == "cpu"


def test_the_accelerator_is_the_gpu(make_session: Any) -> None:
    make_session(count=2)
    accelerator = torch.accelerator
    assert accelerator.is_available()
    assert str(accelerator.current_accelerator()) == "cuda"
    assert accelerator.device_count() == 2
    accelerator.set_device_index(1)
    assert accelerator.current_device_index() == torch.cuda.current_device() == 1
    assert torch.ones(1, device="cuda").get_device() == 1
    stream = torch.cuda.Stream()
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == torch.cuda.current_stream() == stream
    accelerator.synchronize()


def test_the_runtime_below_answers_what_profiling_scripts_call(session: Any) -> None:
    assert torch.cuda.cudart().cudaProfilerStart() == 0
    assert torch.cuda.cudart().cudaMemGetInfo(0) == torch.cuda.mem_get_info()
    torch.cuda.check_error(torch.cuda.cudart().cudaProfilerStop())
    with pytest.raises(ShadowUnsupportedError, match="cudaHostRegister"):
        torch.cuda.cudart().cudaHostRegister(0, 0, 0)


def test_data_parallel_splits_over_the_gpus_and_gathers(make_session: Any) -> None:
    make_session(count=2)
    layer = nn.Linear(3, 2).cuda()
    model = nn.DataParallel(layer)
    x = torch.randn(5, 3, device="cuda")
    y = model(x)
    assert y.get_device() == 0
    assert torch.allclose(y, layer(x))
    y.sum().backward()
    assert layer.weight.grad is not None
    assert torch.allclose(layer.weight.grad, x.sum(0).expand(2, 3))
    assert torch.allclose(nn.DataParallel(layer)(x.cpu()), layer(x))


def test_profilers_record_the_cpu_and_say_so(session: Any) -> None:
    cpu, cuda = torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA
    for activities in ([cpu, cuda], [cuda]):
        with torch.profiler.profile(activities=activities) as profile:
            torch.ones(2, device="cuda").sum()
        assert "aten::sum" in {event.key for event in profile.key_averages()}
    with torch.autograd.profiler.emit_nvtx():
        torch.ones(2, device="cuda").sum()
    session.gpu.stop()
    assert [row.op for row in session.take("unmodelled")] == ["torch.profiler"]
