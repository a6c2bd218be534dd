"""What the names of CUDA and HIP calls and of device activity mean.

Sources: the function lists of the CUDA runtime and driver API and of the HIP runtime, and
the names that kineto writes for CUPTI records (`memcpyKindString` and `memoryKindString`
of libkineto), for roctracer and for rocprofiler records. All functions are total: any text
has an answer, an unknown one the least telling. Answers about calls are cached, for a run
repeats a few dozen names.
"""

from __future__ import annotations

import re
from functools import lru_cache

_PREFIX = re.compile(r"(?:cuda|cu|hip)(?=[A-Z])")
_SUFFIX = re.compile(r"(?:_v\d+|_ptsz|_ptds|_spt|R\d{4})+$")

_KINDS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"(?:Graph|Ext|Module|ExtModule|HccModule)?Launch(?!HostFunc)", "launch"),
        (r".*Synchronize$", "sync"),
        (r"Mem(?:cpy|Prefetch)", "memcpy"),
        (r"Memset", "memset"),
        (r"Malloc|Mem(?:Host)?Alloc|HostAlloc|HostMalloc|ExtMalloc|ExtHostAlloc", "malloc"),
        (r"Mem(?:HostRegister|Create$|Map$|AddressReserve)|HostRegister|ArrayCreate", "malloc"),
        (r"Free(?!d)|HostFree|MemFree|MemRelease|MemUnmap|MemAddressFree", "free"),
        (r"(?:Mem)?HostUnregister|ArrayDestroy", "free"),
        (r"Event|StreamWaitEvent", "event"),
    )
)
_WAITING_COPY = re.compile(r"Memcpy(?!.*(?:Async|Peer|Batch|DtoD|AtoD|DtoA|AtoA))")
_DRAINING = re.compile(
    r"(?!.*(?:Async|Pool|Register|Unregister|Address|Mem(?:Create|Map|Unmap|Release)$))"
)

MAY_WAIT = ("sync", "memcpy", "malloc", "free")
"""Kinds of calls that may make the host wait."""

_ARROW = re.compile(
    r"(?<![A-Za-z])(?P<from>[HDAP])(?:to|2)(?P<to>[HDAP])(?![a-z])"
    r"|(?P<source>Host|Device|Peer|Array)_?To_?(?P<target>Host|Device|Peer|Array)",
    re.IGNORECASE,
)
_SIDES = re.compile(r"\(\s*(?P<source>\w+)\s*->\s*(?P<target>\w+)\s*\)")
_CATEGORIES = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
}
_COPY_NAME = re.compile(
    r"Memcpy |MEMORY_COPY_|\[CUDA memcpy |Copy(?:Host|Device|Peer)To(?:Host|Device|Peer)"
)
_FILL_NAME = re.compile(r"Memset\b|FillBuffer\b|\[CUDA memset\]")


def _stem(name: str) -> str:
    """A call's name without its API prefix and version; "" if it has no such prefix."""
    prefix = _PREFIX.match(name)
    return _SUFFIX.sub("", name[prefix.end() :]) if prefix else ""


@lru_cache(maxsize=4096)
def runtime_kind(name: str) -> str:
    """launch, memcpy, memset, sync, malloc, free, event or other, of a runtime or driver call."""
    stem = _stem(name)
    for pattern, kind in _KINDS:
        if pattern.match(stem):
            return kind
    return "other"


@lru_cache(maxsize=4096)
def blocks_host(name: str) -> bool:
    """Whether the call by its name alone makes the host wait until earlier work is done.

    True for synchronize calls and for copies that are not asynchronous. A cudaMemcpyAsync
    waits as well when it copies to pageable memory: its name does not tell.
    """
    return runtime_kind(name) == "sync" or bool(_WAITING_COPY.match(_stem(name)))


@lru_cache(maxsize=4096)
def drains_device(name: str) -> bool:
    """Whether the call allocates or frees memory in a way that can wait for the device.

    True for cudaMalloc, cudaFree, cudaHostAlloc and their kin; false for stream-ordered
    and for virtual memory calls.
    """
    return runtime_kind(name) in ("malloc", "free") and bool(_DRAINING.match(_stem(name)))


@lru_cache(maxsize=4096)
def activity_kind(name: str, category: str) -> str:
    """kernel, memcpy or memset; "" for a category of something that runs on no device.

    The name decides where the category says "kernel" or nothing: roctracer reports copies
    and fills as operations of the same sort as kernels.
    """
    kind = _CATEGORIES.get(category.lower(), "") if category else "kernel"
    if kind != "kernel":
        return kind
    if _COPY_NAME.match(name):
        return "memcpy"
    return "memset" if _FILL_NAME.match(name) else "kernel"


def copy_direction(name: str) -> str:
    """h2d, d2h, d2d or p2p; "" for a copy that stays on the host, and where it is unknown."""
    match = _ARROW.search(name)
    if match is None:
        return ""
    source, target = (side[0].upper() for side in match.groups() if side)
    if "P" in (source, target):
        return "p2p"
    ends = ("h" if source == "H" else "d") + "2" + ("h" if target == "H" else "d")
    return "" if ends == "h2h" else ends


def copy_memory(name: str) -> str:
    """pageable, pinned or unknown: the host side of a copy between host and device.

    "" for any other copy. roctracer says only "Host": unknown.
    """
    direction = copy_direction(name)
    if direction not in ("h2d", "d2h"):
        return ""
    sides = _SIDES.search(name)
    if sides is None:
        return "unknown"
    side = sides["source" if direction == "h2d" else "target"].lower()
    return side if side in ("pageable", "pinned") else "unknown"
