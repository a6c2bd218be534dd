"""Names of calls and of device activity, as CUPTI, kineto and roctracer write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from syncscope.recording.cuda_names import (
    activity_kind,
    blocks_host,
    copy_direction,
    copy_memory,
    drains_device,
    runtime_kind,
)

KINDS_OF_CALLS = {
    "launch": (
        "cudaLaunchKernel cudaLaunchKernel_v7000 cudaLaunchKernelExC cudaLaunchKernelExC_v11060 "
        "cudaLaunchCooperativeKernel cudaGraphLaunch cudaGraphLaunch_v10000 cuLaunchKernel "
        "cuLaunchKernelEx cuLaunchKernel_ptsz cuGraphLaunch hipLaunchKernel hipGraphLaunch "
        "hipModuleLaunchKernel hipExtModuleLaunchKernel hipExtLaunchKernel"
    ),
    "memcpy": (
        "cudaMemcpy cudaMemcpy_v3020 cudaMemcpyAsync cudaMemcpyAsync_ptsz cudaMemcpy2DAsync "
        "cudaMemcpyPeerAsync cuMemcpyDtoH_v2 cuMemcpyHtoDAsync_v2 hipMemcpy hipMemcpyWithStream "
        "hipMemcpyAsync_spt"
    ),
    "memset": "cudaMemset cudaMemsetAsync cuMemsetD8_v2 cuMemsetD32Async hipMemsetAsync",
    "sync": (
        "cudaStreamSynchronize cudaStreamSynchronize_ptsz cudaDeviceSynchronize "
        "cudaThreadSynchronize cudaEventSynchronize cuStreamSynchronize cuCtxSynchronize "
        "cuCtxSynchronize_v2 cuEventSynchronize hipDeviceSynchronize hipStreamSynchronize"
    ),
    "malloc": (
        "cudaMalloc cudaMallocAsync cudaMallocManaged cudaMallocHost cudaHostAlloc cuMemAlloc_v2 "
        "cuMemAllocAsync cuMemHostAlloc cuMemAllocHost_v2 cuMemCreate cudaHostRegister hipMalloc "
        "hipHostMalloc hipExtMallocWithFlags"
    ),
    "free": (
        "cudaFree cudaFreeAsync cudaFreeHost cuMemFree_v2 cuMemFreeHost cuMemUnmap "
        "cudaHostUnregister hipFree hipHostFree"
    ),
    "event": (
        "cudaEventRecord cudaEventRecordWithFlags cudaEventQuery cudaEventCreateWithFlags "
        "cudaEventElapsedTime cudaStreamWaitEvent cuStreamWaitEvent cuEventRecord hipEventRecord"
    ),
    "other": (
        "cudaStreamIsCapturing cudaGetDeviceCount cudaLaunchHostFunc cudaFuncSetAttribute "
        "cudaGraphAddMemcpyNode cudaMemGetInfo cuMemGetInfo_v2 hipGetDevicePropertiesR0600 "
        "INVALID cuda"
    ),
}
CALLS = [(name, kind) for kind, names in KINDS_OF_CALLS.items() for name in names.split()]

COPIES = [
    ("Memcpy HtoD (Pageable -> Device)", "h2d", "pageable"),
    ("Memcpy HtoD (Pinned -> Device)", "h2d", "pinned"),
    ("Memcpy DtoH (Device -> Pageable)", "d2h", "pageable"),
    ("Memcpy DtoH (Device -> Pinned)", "d2h", "pinned"),
    ("Memcpy HtoD (Host -> Device)", "h2d", "unknown"),
    ("Memcpy HtoA (Pinned -> Array)", "h2d", "pinned"),
    ("Memcpy DtoD (Device -> Device)", "d2d", ""),
    ("Memcpy PtoP (Device -> Device)", "p2p", ""),
    ("Memcpy HtoH (Pageable -> Pinned)", "", ""),
    ("Memcpy Unknown (Unknown -> Unknown)", "", ""),
    ("CopyHostToDevice", "h2d", "unknown"),
    ("CopyDeviceToHost", "d2h", "unknown"),
    ("CopyDeviceToDevice", "d2d", ""),
    ("MEMORY_COPY_HOST_TO_DEVICE", "h2d", "unknown"),
    ("[CUDA memcpy DtoH]", "d2h", "unknown"),
]


@pytest.mark.parametrize(("name", "kind"), CALLS)
def test_a_call_has_the_kind_of_its_name(name: str, kind: str) -> None:
    assert runtime_kind(name) == kind


@pytest.mark.parametrize(
    "name",
    ["cudaMemcpy", "cuMemcpyDtoH_v2", "hipMemcpyWithStream", "cudaStreamSynchronize_ptsz"],
)
def test_synchronous_calls_block_the_host(name: str) -> None:
    assert blocks_host(name)


@pytest.mark.parametrize(
    "name",
    ["cudaMemcpyAsync", "cudaMemcpyPeer", "cuMemcpyDtoD_v2", "cudaLaunchKernel", "cudaEventQuery"],
)
def test_asynchronous_calls_do_not_block_the_host(name: str) -> None:
    assert not blocks_host(name)


def test_only_plain_allocations_drain_the_device() -> None:
    assert all(map(drains_device, ("cudaMalloc", "cudaFree", "cuMemFree_v2", "cudaHostAlloc")))
    assert not any(map(drains_device, ("cudaMallocAsync", "cudaFreeAsync", "cuMemCreate")))


@pytest.mark.parametrize(("name", "direction", "memory"), COPIES)
def test_a_copy_says_its_direction_and_its_host_memory(
    name: str, direction: str, memory: str
) -> None:
    assert (copy_direction(name), copy_memory(name)) == (direction, memory)
    assert activity_kind(name, "kernel") == "memcpy"


def test_the_category_decides_unless_it_is_that_of_kernels() -> None:
    assert activity_kind("void gemm<float>(int)", "kernel") == "kernel"
    assert activity_kind("CopyKernel<HtoD>", "kernel") == "kernel"
    assert activity_kind("anything", "gpu_memcpy") == "memcpy"
    assert activity_kind("Memset (Device)", "gpu_memset") == "memset"
    assert activity_kind("FillBuffer", "kernel") == "memset"
    assert activity_kind("Stream Sync", "cuda_sync") == ""


@given(st.text(), st.text())
def test_every_text_has_an_answer(name: str, category: str) -> None:
    assert runtime_kind(name) in KINDS_OF_CALLS
    assert activity_kind(name, category) in {"kernel", "memcpy", "memset", ""}
    assert copy_direction(name) in {"h2d", "d2h", "d2d", "p2p", ""}
    assert copy_memory(name) in {"pageable", "pinned", "unknown", ""}
    assert not (blocks_host(name) and drains_device(name))


@given(
    st.sampled_from([name for name, kind in CALLS if kind not in ("other", "memcpy")]),
    st.sampled_from(["_v2", "_v7000", "_ptsz", "_v11060_ptsz", "_ptds", "_spt"]),
)
def test_versions_change_no_answer(name: str, suffix: str) -> None:
    assert runtime_kind(name + suffix) == runtime_kind(name)
    assert blocks_host(name + suffix) == blocks_host(name)
    assert drains_device(name + suffix) == drains_device(name)


@given(st.sampled_from(["h2d", "d2h"]), st.sampled_from(["Pageable", "Pinned"]))
def test_kineto_names_come_back_as_they_were_made(direction: str, memory: str) -> None:
    sides = (memory, "Device") if direction == "h2d" else ("Device", memory)
    arrow = direction.upper().replace("2", "to")
    name = f"Memcpy {arrow} ({sides[0]} -> {sides[1]})"
    assert (copy_direction(name), copy_memory(name)) == (direction, memory.lower())
