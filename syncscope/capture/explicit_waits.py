"""Waits that somebody asked for, waits that torch does not warn of, and the scopes of threads."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.distributed

from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import BlockingRow


class ExplicitWaits:
    """Collector of synchronize calls, barriers, `empty_cache`, `coalesce` and backward passes."""

    name = "explicit_waits"

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._rows = context.writer.rows("blocking")
        self._patches = Patches()

    def start(self) -> None:
        """Wrap the calls, below their public names so that imported names count too."""
        wait = functools.partial(self._wrap, source="explicit", explicit=True)
        wait(torch._C, "_cuda_synchronize", op="torch.cuda.synchronize")
        wait(torch._C, "_accelerator_synchronizeDevice", op="torch.accelerator.synchronize")
        wait(torch.cuda.Stream, "synchronize", op="torch.cuda.Stream.synchronize")
        wait(torch.cuda.Event, "synchronize", op="torch.cuda.Event.synchronize")
        wait(torch._C, "_cuda_emptyCache", op="torch.cuda.empty_cache", kind="allocator")
        if torch.distributed.is_available():
            collectives = torch.distributed.distributed_c10d
            for module in (torch.distributed, collectives):
                for name in ("barrier", "destroy_process_group"):
                    wait(module, name, op=f"torch.distributed.{name}")
            wait(collectives.Work, "wait", op="torch.distributed.Work.wait")
        # Its size is read back by thrust, of which torch does not warn.
        self._wrap(torch.Tensor, "coalesce", "Tensor.coalesce", source="explicit", explicit=False)
        for module in (torch.autograd, torch.autograd.graph):
            self._wrap(module, "_engine_run_backward", "backward", source="scope", explicit=False)

    def stop(self) -> None:
        """Unwrap the calls."""
        self._patches.undo()

    def _wrap(
        self, owner: Any, name: str, op: str, *, source: str, explicit: bool, kind: str = "sync"
    ) -> None:
        original = getattr(owner, name, None)
        if original is None:
            return
        context, rows = self._context, self._rows
        cause = "explicit_wait" if explicit else ""

        @functools.wraps(original)
        def waiting(*args: Any, **kwargs: Any) -> Any:
            if args and isinstance(args[0], torch.Tensor) and not args[0].is_cuda:
                return original(*args, **kwargs)
            start_ns = context.now()
            try:
                return original(*args, **kwargs)
            finally:
                end_ns = context.now()
                context.waits += explicit
                rows.append(
                    BlockingRow(
                        context.threads.current(), start_ns, end_ns,
                        context.stacks.capture(skip=2), source, op, kind, explicit, cause,
                    )
                )  # fmt: skip
                if explicit:
                    context.waited(end_ns)

        self._patches.put(owner, name, waiting)
