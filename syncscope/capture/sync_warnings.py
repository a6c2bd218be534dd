"""Each implicit synchronization that torch knows of, with its Python stack.

`torch.cuda.set_sync_debug_mode("warn")` makes torch raise a Python warning for each. Torch
buffers warnings until the binding that was called returns, so the warning comes right
after the wait, on the thread that waited (for waits inside C++ autograd: on the thread
that called backward, when backward returns).

What the program sees stays as it was: the warnings never reach its filters or its
`showwarning` unless it had switched the mode on itself, and its own calls of
`set_sync_debug_mode` and `get_sync_debug_mode` keep their meaning.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import torch

from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.recording.tables import BlockingRow

_MESSAGE = "called a synchronizing CUDA operation"
_FILTER = ("always", re.compile(re.escape(_MESSAGE)), Warning, None, 0)
_OFF, _WARN, _ERROR = 0, 1, 2
_MUTATION_HOOKS = ("_filters_mutated", "_filters_mutated_lock_held")


class SyncWarnings:
    """Collector of torch's sync warnings. Free: it works only when something synchronizes."""

    name = "sync_warnings"

    def __init__(self, context: CaptureContext) -> None:
        self._context = context
        self._rows = context.writer.rows("blocking")
        self._patches = Patches()
        self._program_mode = _OFF
        self._forwarding = threading.local()
        self.listeners: list[Callable[[], None]] = []
        """Called on the thread that synchronized, right after it did."""

    def start(self) -> None:
        """Needs CUDA to be initialized."""
        self._program_mode = torch._C._cuda_get_sync_debug_mode()
        self._patch_warnings()
        self._patch_mode()
        if self._program_mode != _ERROR:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch says once that the mode is a prototype
                self._set_mode(_WARN)

    def stop(self) -> None:
        """Give the program its own mode, filters and hooks back."""
        self._patches.undo()
        _remove_filter()
        torch._C._cuda_set_sync_debug_mode(self._program_mode)

    def _patch_warnings(self) -> None:
        show = warnings._showwarnmsg  # type: ignore[attr-defined]

        def show_message(message: warnings.WarningMessage) -> None:
            ours = str(message.message).startswith(_MESSAGE)
            if not ours or getattr(self._forwarding, "now", False):
                show(message)
                return
            self._record()
            if self._program_mode == _WARN:
                self._forward(message)

        self._patches.put(warnings, "_showwarnmsg", show_message)
        for name in _MUTATION_HOOKS:
            if hasattr(warnings, name):
                self._patches.put(warnings, name, _then_first(getattr(warnings, name)))
        _put_filter_first()

    def _patch_mode(self) -> None:
        self._set_mode = torch._C._cuda_set_sync_debug_mode

        def set_mode(mode: int) -> None:
            self._program_mode = int(mode)
            self._set_mode(_ERROR if self._program_mode == _ERROR else _WARN)

        self._patches.put(torch._C, "_cuda_set_sync_debug_mode", set_mode)
        self._patches.put(torch._C, "_cuda_get_sync_debug_mode", lambda: self._program_mode)

    def _forward(self, message: warnings.WarningMessage) -> None:
        """Send a warning that the program asked for through the program's own filters."""
        self._forwarding.now = True
        _remove_filter()
        try:
            warnings.warn_explicit(
                str(message.message), message.category, message.filename, message.lineno
            )
        finally:
            _put_filter_first()
            self._forwarding.now = False

    def _record(self) -> None:
        context = self._context
        now = context.now()
        self._rows.append(
            BlockingRow(
                context.threads.current(),
                now,
                now,
                context.stacks.capture(skip=3),
                "warning",
                "",
                "sync",
                False,
                "",
            )
        )
        for listener in self.listeners:
            listener()


def _filters() -> list[Any]:
    """The filter list in force (a context variable's from Python 3.14 on)."""
    get = getattr(warnings, "_get_filters", None)
    return get() if get is not None else warnings.filters  # type: ignore[return-value]


def _put_filter_first() -> None:
    # Inserting without `_filters_mutated` keeps the registries of warnings already shown, so
    # that no warning of the program is shown a second time because of us.
    filters = _filters()
    if not filters or filters[0] is not _FILTER:
        _remove_filter()
        filters.insert(0, _FILTER)


def _remove_filter() -> None:
    filters = _filters()
    filters[:] = [entry for entry in filters if entry is not _FILTER]


def _then_first(original: Callable[[], None]) -> Callable[[], None]:
    # `simplefilter`, `filterwarnings`, `resetwarnings` and `catch_warnings` all end in this
    # hook: whatever the program puts in front ("error", say), our entry goes before it.
    def mutated() -> None:
        original()
        _put_filter_first()

    return mutated
