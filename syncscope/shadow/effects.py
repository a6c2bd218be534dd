"""What an operator makes the host do to the device besides launching kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effect:
    """One driver-level action inside an operator.

    action: "h2d" or "d2h" (a copy of `size_bytes` on the current stream, from or to
    pageable host memory unless `pinned`), or "sync" (a wait for the current stream and no
    copy, as thrust and cuSOLVER do). `waits`: the host blocks until it is done; for copies
    that is cudaMemcpyAsync followed by cudaStreamSynchronize.
    """

    action: str
    size_bytes: int = 0
    waits: bool = True
    pinned: bool = False
