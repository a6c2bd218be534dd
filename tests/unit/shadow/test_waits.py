"""Hidden and explicit waits, streams, events, graphs, memory."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.distributed as dist

from syncscope.shadow.allocator import Allocator, OutOfMemoryError

READ = ("aten::_local_scalar_dense", "scalar_readback")

READBACKS: dict[str, Callable[[torch.Tensor], Any]] = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0]),
    "float": lambda x: float(x[0]),
    "int": lambda x: int(x[0]),
    "complex": lambda x: complex(x[0]),
    "index": lambda x: [1, 2, 3][x[0].long()],
    "range": lambda x: range(x[0].int()),
    "slice": lambda x: x[: x[0].long()],
    "contains": lambda x: 2.0 in x,
    "floor": lambda x: math.floor(x[0]),
    "size": lambda x: torch.zeros(x[0].long(), device="cuda"),
    "host table": lambda x: torch.arange(4)[x[0].long()],
}


@pytest.mark.parametrize("name", READBACKS)
def test_a_readback_blocks_once(session: Any, name: str) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda")
    session.forget()
    READBACKS[name](x)
    assert session.waits() == [READ]


def test_printing_is_told_apart(session: Any) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda")
    session.forget()
    f"{x[0]:.2f}"
    repr(x)
    waits = session.waits()
    assert len(waits) >= 2
    assert {cause for _, cause in waits} == {"print_format"}


def test_printing_one_number_reads_it_back(session: Any) -> None:
    x = torch.tensor(1.5, device="cuda")
    session.forget()
    assert str(x) == "tensor(1.5000, device='cuda:0')"
    assert {cause for _, cause in session.waits()} == {"print_format"}


def test_printing_a_vector_reads_back_for_each_element(session: Any) -> None:
    x = torch.arange(10.0, device="cuda")
    session.forget()
    assert str(x) == "tensor([0., 1., 2., 3., 4., 5., 6., 7., 8., 9.], device='cuda:0')"
    assert len(session.waits()) > 10


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_factories_views_and_covariances_read_numbers_back(session: Any) -> None:
    x = torch.tensor([1.0, 4.0], device="cuda")
    indices = torch.tensor([[0, 1], [1, 2]], device="cuda")
    sparse = torch.sparse_coo_tensor(indices, x, (3, 3))
    matrix = torch.ones(3, 4, device="cuda")

    def readbacks(call: Callable[[], Any]) -> int:
        session.forget()
        call()
        return len([row for row in session.take("runtime") if row.kind == "memcpy"])

    assert readbacks(lambda: torch.linspace(x[0], x[1], 3, device="cuda")) == 2
    assert readbacks(lambda: sparse.select(0, 1)) == 2
    assert readbacks(lambda: torch.cov(matrix)) == 1
    assert readbacks(lambda: matrix.corrcoef()) == 1
    assert readbacks(lambda: torch.sparse_coo_tensor(indices, x)) == 2
    host = torch.zeros(3)
    assert readbacks(lambda: host.fill_(x[1])) == 1
    assert host.tolist() == [4.0, 4.0, 4.0]
    assert not host.is_cuda


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_a_sparse_tensor_has_a_backward(session: Any) -> None:
    indices = torch.tensor([[0, 1], [2, 3]], device="cuda")
    values = torch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    dense = torch.sparse_coo_tensor(indices, values, (5, 5)).to_dense()
    (grad,) = torch.autograd.grad(dense.sum(), values)
    assert grad.is_cuda
    assert grad.tolist() == [1.0, 1.0]


def test_complex_numbers_and_cusolver_drivers_compute(session: Any) -> None:
    matrix = torch.tensor([[1 + 2j, 2j], [3.0, 1 - 1j], [1j, 2.0]])
    for device in ("cpu", "cuda"):
        inverse = torch.linalg.pinv(matrix.to(device)).cpu()
        torch.testing.assert_close(inverse @ matrix, torch.eye(2, dtype=matrix.dtype))
    u, s, vh = torch.linalg.svd(torch.eye(3, device="cuda"), driver="gesvd")
    assert s.tolist() == [1.0, 1.0, 1.0]
    assert u.is_cuda
    assert vh.is_cuda


def test_what_only_looks_like_a_wait_does_not_block(session: Any) -> None:
    x = torch.tensor([1.0, 2.0], device="cuda")
    session.forget()
    len(x), x.shape, x.device, hash(x), list(x), x.numel(), x.is_cuda
    torch._assert_async(x.sum() > 0)
    torch.where(x > 1, x, 0.0)
    torch.repeat_interleave(x.long(), output_size=3)
    torch.nn.functional.one_hot(x.long(), num_classes=3)
    assert session.waits() == []


def test_a_wait_in_backward_is_where_backward_is_called(session: Any) -> None:
    class Read(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            grads[0].sum().item()
            return grads[0]

    x = torch.ones(2, device="cuda", requires_grad=True)
    session.forget()
    Read.apply(x).sum().backward()
    (row,) = session.take("blocking")
    frames, stacks = {}, {}
    for resolved in session.context.stacks.resolve():
        if hasattr(resolved, "frame_ids"):
            stacks[resolved.stack_id] = resolved.frame_ids
        else:
            frames[resolved.frame_id] = resolved
    inner = next(frames[f] for f in stacks[row.stack_id] if frames[f].owner == "user")
    assert inner.expression == "grads[0].sum().item()"


def test_explicit_waits_are_explicit(session: Any) -> None:
    stream, event = torch.cuda.Stream(), torch.cuda.Event()
    session.forget()
    torch.cuda.synchronize()
    stream.synchronize()
    event.record()
    event.synchronize()
    rows = session.take("blocking")
    assert [row.op for row in rows] == [
        "torch.cuda.synchronize",
        "torch.cuda.Stream.synchronize",
        "torch.cuda.Event.synchronize",
    ]
    assert all(row.explicit and row.cause == "explicit_wait" for row in rows)
    names = [row.name for row in session.take("runtime") if row.kind == "sync"]
    assert names == ["cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"]


def test_streams_are_queues_that_events_order(session: Any) -> None:
    x = torch.ones(512, 512, device="cuda")
    side = torch.cuda.Stream()
    session.forget()
    x @ x
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream() == side
        x * 2
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        x * 3
    first, second, third = (row for row in session.take("activity") if row.kind == "kernel")
    assert first.stream == 7
    assert second.stream == third.stream != 7
    assert third.start_ns >= max(first.end_ns, second.end_ns)


def test_a_wait_lasts_until_the_work_is_done(session: Any) -> None:
    x = torch.ones(1024, 1024, device="cuda")
    torch.cuda.synchronize()
    session.forget()
    y = x
    for _ in range(20):
        y = y @ x
    y[0, 0].item()
    (wait,) = session.take("blocking")
    work = max(row.end_ns for row in session.take("activity"))
    assert wait.end_ns >= work
    inside = [
        row.name
        for row in session.take("runtime")
        if row.start_ns >= wait.start_ns and row.end_ns <= wait.end_ns
    ]
    assert inside == ["cudaMemcpyAsync", "cudaStreamSynchronize"]


def test_event_times_come_from_the_simulated_clock(session: Any) -> None:
    x = torch.ones(1024, 1024, device="cuda")
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    x @ x
    end.record()
    while not end.query():
        pass
    assert 0 < start.elapsed_time(end) < 10
    with pytest.raises(ValueError, match="enable_timing"):
        torch.cuda.Event().elapsed_time(end)


def test_capture_forbids_waits_and_replay_computes(session: Any) -> None:
    x = torch.ones(3, device="cuda")
    good, bad = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.cuda.graph(good):
        y = x * 2
    x.fill_(5.0)
    good.replay()
    assert y.tolist() == [10.0, 10.0, 10.0]
    session.forget()
    with (
        pytest.raises(RuntimeError, match="operation not permitted when stream is capturing"),
        torch.cuda.graph(bad),
    ):
        x[x > 0]
    assert ("aten::index.Tensor", "graph_capture") in session.waits()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()
    assert not torch.cuda.is_current_stream_capturing()


def test_memory_is_accounted_for(session: Any) -> None:
    before = torch.cuda.memory_allocated()
    x = torch.empty(1000, 1000, device="cuda")
    assert torch.cuda.memory_allocated() - before == 4_000_256
    view = x.view(-1)
    del x
    assert torch.cuda.memory_allocated() - before == 4_000_256
    del view
    assert torch.cuda.memory_allocated() == before
    assert torch.cuda.max_memory_allocated() >= before + 4_000_256
    assert torch.cuda.memory_reserved() >= 20 << 20
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total == torch.cuda.get_device_properties(0).total_memory
    session.forget()
    torch.cuda.empty_cache()
    (row,) = session.take("blocking")
    assert (row.kind, row.explicit) == ("allocator", True)


def test_too_much_memory_is_cudas_error(make_session: Any) -> None:
    make_session(gpu="T4")
    torch.cuda.set_per_process_memory_fraction(0.001)
    with pytest.raises(torch.cuda.OutOfMemoryError, match=r"CUDA out of memory\. Tried"):
        torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_stats()["num_ooms"] == 1


def test_the_allocator_reuses_splits_and_frees() -> None:
    allocator = Allocator(1 << 30)
    block, stall = allocator.allocate(30 << 20, 7)
    assert stall is not None
    assert (stall.freed, stall.allocated) == ([], 30 << 20)
    allocator.returned.append(block)
    again, stall = allocator.allocate(28 << 20, 7)
    assert again is block
    assert stall is None
    allocator.limit = 64 << 20
    allocator.returned.append(again)
    other, stall = allocator.allocate(40 << 20, 7)
    assert stall is not None
    assert stall.freed == [30 << 20]
    assert allocator.retries == 1
    with pytest.raises(OutOfMemoryError):
        allocator.allocate(60 << 20, 7)
    allocator.returned.append(other)
    allocator.collect()
    assert allocator.allocated == 0


def test_random_state_and_generators(session: Any) -> None:
    state = torch.cuda.get_rng_state()
    first = torch.randn(3, device="cuda")
    torch.cuda.set_rng_state(state)
    assert torch.equal(first, torch.randn(3, device="cuda"))
    generator = torch.Generator(device="cuda").manual_seed(3)
    assert generator.device.type == "cuda"
    assert isinstance(torch.default_generator, torch.Generator)
    drawn = torch.randn(3, generator=generator, device="cuda")
    assert torch.equal(drawn.cpu(), torch.randn(3, generator=torch.Generator().manual_seed(3)))


@pytest.mark.filterwarnings("ignore")
def test_collectives_do_not_block_but_barrier_and_objects_do(session: Any) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert dist.get_backend() == "nccl"
        x = torch.ones(3, device="cuda")
        session.forget()
        dist.all_reduce(x)
        dist.all_reduce(x, async_op=True).wait()
        assert session.waits() == []
        dist.barrier()
        assert session.waits() == [("torch.distributed.barrier", "explicit_wait")]
        found: list[Any] = [None]
        dist.all_gather_object(found, {"loss": 1.0})
        assert found == [{"loss": 1.0}]
        assert {cause for _, cause in session.waits()} == {"object_collective"}
        model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 3).cuda())
        model(torch.ones(2, 3, device="cuda")).sum().backward()
        assert all(p.grad.is_cuda for p in model.parameters())
    finally:
        dist.destroy_process_group()


def test_the_end_of_a_wait_is_told(session: Any) -> None:
    times: list[int] = []
    session.context.after_wait = times.append
    torch.ones(4, device="cuda").sum().item()
    torch.cuda.synchronize()
    assert times == sorted(times)
    assert len(times) == 2
    assert times[-1] <= session.context.now()
