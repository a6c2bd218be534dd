"""PyTorch's caching allocator for GPU memory, as far as it decides when the host stalls.

Sizes and rules are those of c10/cuda/CUDACachingAllocator.cpp: sizes are rounded to 512
bytes, requests up to 1 MiB share segments of 2 MiB, those up to 10 MiB segments of 20 MiB,
larger ones get their own, rounded to 2 MiB; best fit, split and merge. A request that no
cached block fits calls cudaMalloc; when the limit is reached, the cache is freed first,
which waits for the device.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field

_KIB, _MIB = 1 << 10, 1 << 20
SMALL_LIMIT = _MIB
SMALL_SEGMENT = 2 * _MIB
MEDIUM_LIMIT = 10 * _MIB
MEDIUM_SEGMENT = 20 * _MIB
ROUND = 512


class Segment:
    """What one cudaMalloc returned."""

    __slots__ = ("first", "number", "size", "stream")

    def __init__(self, size: int, stream: int, number: int) -> None:
        self.size = size
        self.stream = stream
        self.number = number
        self.first: Block


class Block:
    """A piece of a segment, in use or cached."""

    __slots__ = ("after", "before", "equals", "offset", "owner", "segment", "size", "used")

    def __init__(self, owner: Allocator, segment: Segment, offset: int, size: int) -> None:
        self.owner = owner
        self.segment = segment
        self.offset = offset
        self.size = size
        self.used = False
        self.equals: list[Block]
        """While in use: where it goes when it is returned."""
        self.before: Block | None = None
        self.after: Block | None = None


@dataclass
class Stall:
    """Driver calls that an allocation needed: cudaFree per size, then cudaMalloc."""

    freed: list[int] = field(default_factory=list)
    allocated: int = 0


class OutOfMemoryError(Exception):
    """The request does not fit even with an empty cache."""

    def __init__(self, wanted: int, free: int) -> None:
        super().__init__(f"{wanted} bytes wanted, {free} free")
        self.wanted = wanted
        self.free = free


def segment_size(size: int) -> int:
    """Bytes that cudaMalloc is asked for."""
    if size <= SMALL_LIMIT:
        return SMALL_SEGMENT
    if size < MEDIUM_LIMIT:
        return MEDIUM_SEGMENT
    return (size + SMALL_SEGMENT - 1) // SMALL_SEGMENT * SMALL_SEGMENT


_Key = tuple[int, int, int]


class Allocator:
    """The memory of one device. `allocate` returns a block and the stall it caused, if any."""

    def __init__(self, total_bytes: int, context_bytes: int = 512 * _MIB) -> None:
        self.total = total_bytes
        self.limit = total_bytes
        self.context_bytes = context_bytes
        self.returned: deque[Block] = deque()
        self.allocated = self.peak_allocated = 0
        self.reserved = self.peak_reserved = 0
        self.allocations = self.retries = self.ooms = self.segments = 0
        self.returns = self.returned_bytes = 0
        self.quick: dict[tuple[int, int], list[Block]] = {}
        """Returned blocks that are not merged yet, by size and stream: the same size fits best."""
        self._free: dict[tuple[bool, int], tuple[list[_Key], dict[_Key, Block]]] = {}
        self._next_segment = 0

    def allocate(self, size: int, stream: int) -> tuple[Block, Stall | None]:
        """A block of at least `size` bytes. Raises OutOfMemoryError."""
        if self.returned:
            self.collect()
        size = (size + ROUND - 1) // ROUND * ROUND or ROUND
        ready = self.quick.get((size, stream))
        stall = None
        if ready:
            block = ready.pop()
        else:
            block, stall = self._allocate(size, stream)
        self.allocations += 1
        self.allocated += block.size
        if self.allocated > self.peak_allocated:
            self.peak_allocated = self.allocated
        return block, stall

    def collect(self) -> None:
        """Take back the blocks whose storages have died."""
        returned = self.returned
        count = size = 0
        while returned:
            block = returned.popleft()
            count += 1
            size += block.size
            block.equals.append(block)
        self.allocated -= size
        self.returns += count
        self.returned_bytes += size

    def merge_returned(self) -> None:
        """Merge returned blocks with their neighbours."""
        self.collect()
        for blocks in self.quick.values():
            for block in blocks:
                block.used = False
                self._merge(block)
            blocks.clear()

    def _allocate(self, size: int, stream: int) -> tuple[Block, Stall | None]:
        stall = None
        block = self._take(size, stream)
        if block is None and any(self.quick.values()):
            self.merge_returned()
            block = self._take(size, stream)
        if block is None:
            stall = self._grow(size, stream)
            block = self._take(size, stream)
            if block is None:
                raise AssertionError("a fresh segment does not fit its request")
        block.used = True
        block.equals = self.quick.setdefault((block.size, stream), [])
        return block, stall

    def empty_cache(self) -> list[int]:
        """Give all unused segments back; returns their sizes."""
        self.merge_returned()
        freed: list[int] = []
        for keys, blocks in self._free.values():
            for key in [key for key in keys if blocks[key].size == blocks[key].segment.size]:
                keys.remove(key)
                freed.append(blocks.pop(key).segment.size)
        self.reserved -= sum(freed)
        self.segments -= len(freed)
        return freed

    def reset_peaks(self) -> None:
        """Peaks restart from what is in use now."""
        self.collect()
        self.peak_allocated, self.peak_reserved = self.allocated, self.reserved

    def split_blocks(self) -> list[int]:
        """Sizes of the cached blocks whose segments are in use in part."""
        self.merge_returned()
        blocks = (block for _, pool in self._free.values() for block in pool.values())
        return [block.size for block in blocks if block.size != block.segment.size]

    def _pool(self, block_size: int, stream: int) -> tuple[list[_Key], dict[_Key, Block]]:
        key = (block_size <= SMALL_LIMIT, stream)
        pool = self._free.get(key)
        if pool is None:
            pool = self._free[key] = ([], {})
        return pool

    def _take(self, size: int, stream: int) -> Block | None:
        keys, blocks = self._pool(size, stream)
        index = bisect_left(keys, (size, -1, -1))
        if index == len(keys):
            return None
        block = blocks.pop(keys.pop(index))
        rest = block.size - size
        small = size <= SMALL_LIMIT
        if rest >= ROUND if small else rest > SMALL_LIMIT:
            tail = Block(self, block.segment, block.offset + size, rest)
            tail.before, tail.after = block, block.after
            if block.after is not None:
                block.after.before = tail
            block.after = tail
            block.size = size
            self._put(tail)
        return block

    def _put(self, block: Block) -> None:
        keys, blocks = self._pool_of(block.segment)
        key = (block.size, block.segment.number, block.offset)
        insort(keys, key)
        blocks[key] = block

    def _remove(self, block: Block) -> None:
        keys, blocks = self._pool_of(block.segment)
        key = (block.size, block.segment.number, block.offset)
        del keys[bisect_left(keys, key)]
        del blocks[key]

    def _pool_of(self, segment: Segment) -> tuple[list[_Key], dict[_Key, Block]]:
        small = segment.size == SMALL_SEGMENT
        return self._pool(SMALL_LIMIT if small else MEDIUM_LIMIT, segment.stream)

    def _merge(self, block: Block) -> None:
        before, after = block.before, block.after
        if after is not None and not after.used:
            self._remove(after)
            block.size += after.size
            block.after = after.after
            if after.after is not None:
                after.after.before = block
        if before is not None and not before.used:
            self._remove(before)
            before.size += block.size
            before.after = block.after
            if block.after is not None:
                block.after.before = before
            block = before
        self._put(block)

    def _grow(self, size: int, stream: int) -> Stall:
        wanted = segment_size(size)
        stall = Stall(allocated=wanted)
        if not self._fits(wanted):
            stall.freed = self.empty_cache()
            self.retries += 1
            if not self._fits(wanted):
                self.ooms += 1
                raise OutOfMemoryError(size, max(0, self.limit - self.reserved))
        self.reserved += wanted
        self.segments += 1
        self.peak_reserved = max(self.peak_reserved, self.reserved)
        segment = Segment(wanted, stream, self._next_segment)
        self._next_segment += 1
        segment.first = Block(self, segment, 0, wanted)
        self._put(segment.first)
        return stall

    def _fits(self, size: int) -> bool:
        after = self.reserved + size
        return after <= self.limit and after <= self.total - self.context_bytes
