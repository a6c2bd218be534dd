"""Copies between host and device: which wait, and why they are there."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset


def copies(session: Any) -> list[tuple[str, str, bool, str]]:
    """Direction, memory, non_blocking and cause of the transfers since the last call."""
    return [
        (row.direction, row.memory, row.non_blocking, row.cause)
        for row in session.take("transfers")
    ]


def test_uploads_differ_by_memory_and_non_blocking(session: Any) -> None:
    host = torch.ones(1000)
    pinned = host.pin_memory()
    assert (host.is_pinned(), pinned.is_pinned()) == (False, True)
    assert pinned.pin_memory() is pinned
    session.forget()
    host.cuda()
    (host * 2).cuda()
    host.to("cuda", non_blocking=True)
    pinned.cuda()
    pinned.to("cuda", non_blocking=True)
    pinned[::2].to("cuda", non_blocking=True)
    pinned.to("cuda", torch.float16, non_blocking=True)
    assert copies(session) == [
        ("h2d", "pageable", False, "created_on_host"),
        ("h2d", "pageable", False, "pageable_batch"),
        ("h2d", "pageable", True, "created_on_host"),
        ("h2d", "pinned", False, "missing_non_blocking"),
        ("h2d", "pinned", True, ""),
        ("h2d", "pageable", True, "created_on_host"),
        ("h2d", "pageable", True, "created_on_host"),
    ]
    names = [row.name for row in session.take("runtime") if row.kind == "sync"]
    assert names == ["cudaStreamSynchronize"] * 3


def test_a_transfer_holds_its_runtime_calls(session: Any) -> None:
    host = torch.ones(1000)
    session.forget()
    host.cuda()
    (transfer,) = session.take("transfers")
    runtime = {row.name: row for row in session.take("runtime")}
    for name in ("cudaMemcpyAsync", "cudaStreamSynchronize"):
        assert transfer.start_ns <= runtime[name].start_ns
        assert runtime[name].end_ns <= transfer.end_ns
    (copy,) = [row for row in session.take("activity") if row.kind == "memcpy"]
    assert copy.name == "Memcpy HtoD (Pageable -> Device)"
    assert copy.correlation_id == runtime["cudaMemcpyAsync"].correlation_id
    assert copy.size_bytes == transfer.size_bytes == 4000
    assert transfer.origin_stack_id >= 0


def test_downloads(session: Any) -> None:
    x = torch.ones(4, device="cuda")
    session.forget()
    assert x.to("cpu", non_blocking=True).is_pinned()
    x.cpu()
    x.to(device="cpu", dtype=torch.float64)
    x.tolist()
    torch.empty(4).copy_(x)
    x.sum().cpu()
    assert copies(session) == [
        ("d2h", "pinned", True, ""),
        ("d2h", "pageable", False, ""),
        ("d2h", "pageable", False, ""),
        ("d2h", "pageable", False, ""),
        ("d2h", "pageable", False, ""),
        ("d2h", "pageable", False, "scalar_readback"),
    ]


def test_literals_and_scalars_are_uploaded(session: Any) -> None:
    x = torch.zeros(4, 4, device="cuda")
    index = torch.arange(2, device="cuda")
    session.forget()
    torch.tensor(1.0, device="cuda")
    torch.as_tensor([1, 2], device="cuda")
    x[0, 0] = 1.0
    x[index] = 1.0
    x[[0, 1]]
    x[:, torch.tensor([0])]
    assert [cause for *_, cause in copies(session)] == [
        "literal_upload",
        "literal_upload",
        "host_scalar_assign",
        "host_scalar_assign",
        "host_index",
        "host_index",
    ]
    assert not session.take("blocking")
    x[0] = 1.0
    x[1:3] = 1.0
    x[x > 0.5] = 1.0
    x[index]
    x.fill_(2.0)
    assert session.waits() == []


def test_a_list_of_gpu_scalars_is_read_one_by_one(session: Any) -> None:
    x = torch.ones(2, device="cuda")
    session.forget()
    torch.tensor([x[0], x[1]])
    assert session.waits() == [("aten::_local_scalar_dense", "scalar_readback")] * 2


def test_moving_to_where_it_is_copies_nothing(session: Any) -> None:
    x = torch.ones(2, device="cuda")
    session.forget()
    x.to("cuda", copy=True)
    x.to(x)
    x.to(torch.float64)
    torch.as_tensor(x, device="cuda")
    torch.ones(2).cpu()
    assert session.waits() == []


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_loaders_pin_their_batches(session: Any, workers: int) -> None:
    data = TensorDataset(torch.randn(8, 4))
    for (x,) in DataLoader(data, batch_size=4, num_workers=workers, pin_memory=True):
        assert x.is_pinned()
        x.to("cuda", non_blocking=True)
    for (x,) in DataLoader(data, batch_size=4, num_workers=workers):
        x.to("cuda")
    assert [row[1:3] for row in copies(session)] == [("pinned", True)] * 2 + [
        ("pageable", False)
    ] * 2


def test_reading_an_unfinished_download_is_a_race(session: Any) -> None:
    x = torch.ones(4, device="cuda")
    result = x.to("cpu", non_blocking=True)
    session.forget()
    _ = result.shape
    assert not session.take("blocking")
    result.sum()
    assert [row.kind for row in session.take("blocking")] == ["race"]
    torch.cuda.synchronize()
    session.forget()
    result.sum()
    result.numpy()
    assert not session.take("blocking")


def test_an_event_that_was_waited_for_ends_a_race(session: Any) -> None:
    staging = torch.empty(4, pin_memory=True)
    done = torch.cuda.Event()
    staging.to("cuda", non_blocking=True)
    done.record()
    session.forget()
    staging.fill_(1.0)
    assert [row.kind for row in session.take("blocking")] == ["race"]
    done.synchronize()
    session.forget()
    staging.fill_(2.0)
    assert not session.take("blocking")


def races(session: Any) -> int:
    return len([row for row in session.take("blocking") if row.kind == "race"])


def test_copies_into_other_parts_of_a_buffer_do_not_race(session: Any) -> None:
    x = torch.ones(4, device="cuda")
    found = torch.empty(8, pin_memory=True)
    first, done = torch.cuda.Event(), torch.cuda.Event()
    session.forget()
    found[:4].copy_(x, non_blocking=True)
    first.record()
    found[4:].copy_(x, non_blocking=True)
    found[2:6].copy_(x, non_blocking=True)
    assert races(session) == 0
    first.synchronize()
    found[:2].tolist()
    assert races(session) == 0
    found[6:].tolist()
    assert races(session) == 1
    found[3].item()
    assert races(session) == 1
    done.record()
    done.synchronize()
    found.tolist()
    assert races(session) == 0


def test_uploads_of_parts_of_a_buffer_leave_the_rest_alone(session: Any) -> None:
    staging = torch.ones(8, pin_memory=True)
    staging[:4].to("cuda", non_blocking=True)
    staging[4:].fill_(2.0)
    staging[:4].sum()
    assert races(session) == 0
    staging[3:5].fill_(3.0)
    assert races(session) == 1


def test_copies_of_another_stream_race_unless_it_waits(session: Any) -> None:
    x = torch.ones(4, device="cuda")
    found = torch.empty(4, pin_memory=True)
    side = torch.cuda.Stream()
    found.copy_(x, non_blocking=True)
    with torch.cuda.stream(side):
        found.copy_(x, non_blocking=True)
    assert races(session) == 1
    torch.cuda.synchronize()
    found.copy_(x, non_blocking=True)
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        found.copy_(x, non_blocking=True)
    assert races(session) == 0


def test_masks_on_the_host_go_up_as_indices(session: Any) -> None:
    x = torch.zeros(4, device="cuda")
    mask = torch.tensor([True, False, True, False])
    session.forget()
    x[mask]
    x[mask & False]
    x[torch.arange(4) > 1]
    assert not session.take("transfers")
    assert not session.waits()
    copies = [row for row in session.take("activity") if row.kind == "memcpy"]
    assert [row.direction for row in copies] == ["h2d", "h2d"]
    x[mask] = 1.0
    assert [row.cause for row in session.take("transfers")] == ["host_scalar_assign"]
    assert x.tolist() == [1.0, 0.0, 1.0, 0.0]


@pytest.mark.parametrize("mask", [[True, False], np.array([True, False])], ids=["list", "numpy"])
def test_masks_that_are_no_tensors_go_up_whole_and_are_counted_there(
    session: Any, mask: Any
) -> None:
    x = torch.zeros(2, device="cuda")
    session.forget()
    x[mask]
    (row,) = session.take("transfers")
    assert (row.direction, row.size_bytes, row.non_blocking) == ("h2d", 2, False)
    (wait,) = session.take("blocking")
    assert wait.cause == "mask_read"
    x[mask] = 1.0
    assert [row.cause for row in session.take("transfers")] == ["host_index"]
    assert not session.take("blocking")
    assert x.tolist() == [1.0, 0.0]


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_new_pickles_and_sparse_tensors_copy_what_they_must(session: Any) -> None:
    x = torch.ones(3, device="cuda")
    indices = torch.tensor([[0, 1], [1, 2]], device="cuda")
    sparse = torch.sparse_coo_tensor(indices, x[:2], (3, 3))
    session.forget()
    assert x.new(3).is_cuda
    assert x.new(torch.Size([2, 3])).shape == (2, 3)
    assert x.new().shape == (0,)
    assert copies(session) == []
    assert x.new([1, 2]).tolist() == [1.0, 2.0]
    assert copies(session)[0] == ("h2d", "pageable", False, "literal_upload")
    pickle.dumps(x)
    assert [row[0] for row in copies(session)] == ["d2h"]
    on_host = sparse.cpu()
    assert [row[0] for row in copies(session)] == ["d2h"] * 2
    assert on_host.cuda().is_cuda
    assert [row[0] for row in copies(session)] == ["h2d"] * 2


def test_an_event_before_the_copy_does_not_end_it(session: Any) -> None:
    done = torch.cuda.Event()
    done.record()
    result = torch.ones(4, device="cuda").to("cpu", non_blocking=True)
    done.synchronize()
    session.forget()
    result.sum()
    assert [row.kind for row in session.take("blocking")] == ["race"]
