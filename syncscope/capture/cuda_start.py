"""Wait for the program to initialize CUDA, instead of initializing it for the program.

A program may set CUDA_VISIBLE_DEVICES or fork workers before its first CUDA call; touching
the GPU before it does would change its behaviour.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from syncscope.patches import Patches


class CudaStart:
    """Calls back once, right after the program's first CUDA call has initialized CUDA."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self._patches = Patches()

    def start(self) -> None:
        """Call back at once if CUDA runs already, else when `torch.cuda._lazy_init` succeeds."""
        if torch.cuda.is_initialized():
            self._callback()
            return
        original: Callable[[], None] = torch.cuda._lazy_init

        def lazy_init() -> None:
            original()
            if torch.cuda.is_initialized():
                self._patches.undo()
                callback, self._callback = self._callback, _nothing
                callback()

        self._patches.put(torch.cuda, "_lazy_init", lazy_init)

    def stop(self) -> None:
        """Stop waiting."""
        self._callback = _nothing
        self._patches.undo()


def _nothing() -> None:
    return None
