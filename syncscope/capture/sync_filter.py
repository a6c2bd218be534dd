"""Hear of each implicit synchronization that torch knows of, right after it.

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
import sys
import threading
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

from syncscope.patches import Patches

_MESSAGE = "called a synchronizing "
"""Then "CUDA operation", or "HIP operation" where torch is built for ROCm."""

_OFF, _WARN, _ERROR = 0, 1, 2
_MUTATION_HOOKS = ("_filters_mutated", "_filters_mutated_lock_held")


class SyncFilter:
    """Calls `hears` with the frame that made the host wait, on its thread; it may raise.

    Free: it works only when something synchronizes.
    """

    def __init__(self, hears: Callable[[FrameType | None], None]) -> None:
        self._hears = hears
        self._patches = Patches()
        self._program_mode = _OFF
        self._entry = ("ignore", _Pattern(self._asked), Warning, None, 0)
        self._forwarding = _Forwarding()
        self._registries: dict[str, dict[Any, Any]] = {}

    def start(self) -> None:
        """Needs CUDA to be initialized."""
        self._program_mode = torch._C._cuda_get_sync_debug_mode()
        for name in _MUTATION_HOOKS:
            if hasattr(warnings, name):
                self._patches.put(warnings, name, self._then_first(getattr(warnings, name)))
        self._put_entry_first()
        self._patch_mode()
        if self._program_mode != _ERROR:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch says once that the mode is a prototype
                self._set_mode(_WARN)

    def stop(self) -> None:
        """Give the program its own mode, filters and hooks back."""
        self._patches.undo()
        self._remove_entry()
        torch._C._cuda_set_sync_debug_mode(self._program_mode)

    def _asked(self, text: str) -> bool:
        """Whether our filter applies to a warning: it does to torch's, which it hides."""
        if not text.startswith(_MESSAGE):
            return False
        wanted = self._program_mode == _WARN
        if wanted and self._forwarding.now:
            return False
        caller = sys._getframe().f_back
        self._hears(caller)
        if wanted:
            self._forward(text, caller)
        return True

    def _forward(self, text: str, caller: FrameType | None) -> None:
        """Send a warning that the program asked for through the program's own filters."""
        module, file, line = "<sys>", "<sys>", 0
        if caller is not None:
            module = caller.f_globals.get("__name__", module)
            file, line = caller.f_code.co_filename, caller.f_lineno
        registry = self._registries.setdefault(module, {})
        self._forwarding.now = True
        try:
            warnings.warn_explicit(text, UserWarning, file, line, module, registry)
        finally:
            self._forwarding.now = False

    def _patch_mode(self) -> None:
        self._set_mode = torch._C._cuda_set_sync_debug_mode

        def set_mode(mode: int) -> None:
            self._program_mode = int(mode)
            self._set_mode(_ERROR if self._program_mode == _ERROR else _WARN)

        self._patches.put(torch._C, "_cuda_set_sync_debug_mode", set_mode)
        self._patches.put(torch._C, "_cuda_get_sync_debug_mode", lambda: self._program_mode)

    def _put_entry_first(self) -> None:
        # Inserting without `_filters_mutated` keeps the registries of warnings already shown, so
        # that no warning of the program is shown a second time because of us.
        filters = _filters()
        if not filters or filters[0] is not self._entry:
            self._remove_entry()
            filters.insert(0, self._entry)

    def _remove_entry(self) -> None:
        filters = _filters()
        filters[:] = [entry for entry in filters if entry is not self._entry]

    def _then_first(self, original: Callable[[], None]) -> Callable[[], None]:
        # `simplefilter`, `filterwarnings`, `resetwarnings` and `catch_warnings` all end in this
        # hook: whatever the program puts in front ("error", say), our entry goes before it.
        def mutated() -> None:
            original()
            self._put_entry_first()

        return mutated


class _Forwarding(threading.local):
    now = False


class _Pattern:
    """Stands where a filter has its regular expression: python asks it about each warning.

    That is the cheapest place to hear of one: nothing is made for a warning that is ignored.
    """

    def __init__(self, hears: Callable[[str], bool]) -> None:
        self.match = hears

    def __reduce__(self) -> tuple[Any, ...]:
        # Libraries send the filters to worker processes.
        return re.compile, (re.escape(_MESSAGE),)


def _filters() -> list[Any]:
    """The filter list in force (a context variable's from Python 3.14 on)."""
    get = getattr(warnings, "_get_filters", None)
    return get() if get is not None else warnings.filters  # type: ignore[return-value]
