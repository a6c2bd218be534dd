"""Each implicit synchronization that torch knows of, with its Python stack."""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType

from syncscope.capture.sync_filter import SyncFilter
from syncscope.context import CaptureContext
from syncscope.forbidding import check
from syncscope.recording.tables import BlockingRow


class SyncWarnings:
    """Collector of torch's sync warnings.

    `spanned_by` is the code of a wrapper that notes each of its calls itself: a wait right
    under it needs no row of its own.
    """

    name = "sync_warnings"

    def __init__(self, context: CaptureContext, spanned_by: CodeType | None = None) -> None:
        self._context = context
        self._spanned_by = spanned_by
        self._rows = context.writer.rows("blocking")
        self._filter = SyncFilter(self._synchronized)
        self.listeners: list[Callable[[], bool]] = []
        """Asked on the thread that synchronized, right after it did, until one answers True: that
        one tells of it."""

    def start(self) -> None:
        """Needs CUDA to be initialized."""
        self._filter.start()
        self._context.can_mute = self._can_mute
        self._context.mute, self._context.unmute = self._filter.mute, self._filter.unmute

    def stop(self) -> None:
        """Hear no more of them."""
        self._filter.stop()

    def _can_mute(self) -> bool:
        return not self.listeners and self._filter.can_mute()

    def tell(self, stack_id: int) -> None:
        """Note a wait that ended just now at this stack."""
        context = self._context
        now_ns = context.now()
        self._rows.append(
            BlockingRow(
                context.threads.current(), now_ns, now_ns, stack_id,
                "warning", "", "sync", False, "",
            )
        )  # fmt: skip
        context.waited(now_ns)

    def _synchronized(self, caller: FrameType | None) -> None:
        self._context.waits += 1
        told = self.listeners and any(listener() for listener in self.listeners)
        if caller is not None and not told and caller.f_code is not self._spanned_by:
            self.tell(self._context.stacks.capture(caller))
        check()
