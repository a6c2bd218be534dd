"""Host intervals that explain why nothing was launched: gc pauses and DataLoader waits."""

from __future__ import annotations

import functools
import gc
from typing import Any

from torch.utils.data import dataloader

from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import HostRow


class HostEvents:
    """Collector of garbage collections and of waits for the next batch."""

    name = "host_events"

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._rows = context.writer.rows("host")
        self._patches = Patches()
        self._gc_start_ns = -1

    def start(self) -> None:
        """Add a gc callback and wrap the DataLoader iterator."""
        gc.callbacks.append(self._on_gc)
        original = dataloader._BaseDataLoaderIter.__next__
        context, rows = self._context, self._rows

        @functools.wraps(original)
        def next_batch(iterator: Any) -> Any:
            start = context.now()
            batch = original(iterator)
            stack = context.stacks.capture(skip=2)
            rows.append(
                HostRow(
                    context.threads.current(), start, context.now(), "dataloader", "next", stack
                )
            )
            return batch

        self._patches.put(dataloader._BaseDataLoaderIter, "__next__", next_batch)

    def stop(self) -> None:
        """Undo both."""
        self._patches.undo()
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)

    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._gc_start_ns = self._context.now()
        elif self._gc_start_ns >= 0:
            self._rows.append(
                HostRow(
                    self._context.threads.current(),
                    self._gc_start_ns,
                    self._context.now(),
                    "gc",
                    f"generation {info['generation']}",
                    -1,
                )
            )
            self._gc_start_ns = -1
