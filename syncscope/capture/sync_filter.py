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

from syncscope.callsite import owner_of
from syncscope.capture.warning_filters import Ignored, quietly
from syncscope.own_threads import program_has_one
from syncscope.patches import Patches
from syncscope.warning_lines import NO_FRAME

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
        self._started = False
        self._entry = Ignored(self._asked, re.escape(_MESSAGE))
        self._forwarding = _Forwarding()
        self._registries: dict[str, dict[Any, Any]] = {}

    def start(self) -> None:
        """Needs CUDA to be initialized."""
        self._program_mode = torch._C._cuda_get_sync_debug_mode()
        for name in _MUTATION_HOOKS:
            if hasattr(warnings, name):
                self._patches.put(warnings, name, self._then_first(getattr(warnings, name)))
        self._entry.put_first()
        self._patch_mode()
        if self._program_mode == _WARN:
            self._take_over_shown()
        if self._program_mode != _ERROR:
            with quietly():  # torch says once that the mode is a prototype
                self._set_mode(_WARN)
        self._started = True

    def stop(self) -> None:
        """Give the program its own mode, filters and hooks back."""
        self._started = False
        self._patches.undo()
        self._entry.remove()
        torch._C._cuda_set_sync_debug_mode(self._program_mode)
        self._give_back_shown()

    def can_mute(self) -> bool:
        """Whether nobody else would go unheard, or wait for a warning, between the two below.

        The mode is that of the process. A warning costs some 2 us, heard or not.
        """
        unheard = self._started and self._program_mode == _OFF and program_has_one()
        # To a program that wants each warning torch would say each time that the mode is new.
        return unheard and not torch.is_warn_always_enabled()

    def mute(self) -> None:
        """Hear nothing until `unmute`."""
        self._set_mode(_OFF)

    def unmute(self) -> None:
        """Hear again."""
        if self._started:
            self._set_mode(_ERROR if self._program_mode == _ERROR else _WARN)

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
        module, (file, line) = "sys", NO_FRAME
        while caller is not None and owner_of(caller.f_code.co_filename) == "syncscope":
            caller = caller.f_back  # the program called torch through a wrapper of ours
        if caller is not None:
            module = caller.f_globals.get("__name__", module)
            file, line = caller.f_code.co_filename, caller.f_lineno
        registry = self._registries.setdefault(module, {})
        self._forwarding.now = True
        try:
            warnings.warn_explicit(text, UserWarning, file, line, module, registry)
        finally:
            self._forwarding.now = False

    def _take_over_shown(self) -> None:
        """Hear also of warnings at lines whose warning the program has shown before.

        Python asks no filter about those. Our own registries keep them from being shown again.
        """
        for name, module in list(sys.modules.items()):
            shown = getattr(module, "__dict__", {}).get("__warningregistry__", {})
            for key in [key for key in shown if str(key[0]).startswith(_MESSAGE)]:
                taken = self._registries.setdefault(name, {"version": shown.get("version")})
                taken[key] = shown.pop(key)

    def _give_back_shown(self) -> None:
        for name, shown in self._registries.items():
            registry = getattr(sys.modules.get(name), "__dict__", {}).setdefault(
                "__warningregistry__", {}
            )
            if registry.get("version", shown.get("version")) == shown.get("version"):
                registry.update(shown)
        self._registries.clear()

    def _patch_mode(self) -> None:
        self._set_mode = torch._C._cuda_set_sync_debug_mode

        def set_mode(mode: int) -> None:
            self._program_mode = int(mode)
            self.unmute()

        self._patches.put(torch._C, "_cuda_set_sync_debug_mode", set_mode)
        self._patches.put(torch._C, "_cuda_get_sync_debug_mode", lambda: self._program_mode)

    def _then_first(self, original: Callable[[], None]) -> Callable[[], None]:
        # `simplefilter`, `filterwarnings`, `resetwarnings` and `catch_warnings` all end in this
        # hook: whatever the program puts in front ("error", say), our entry goes before it.
        def mutated() -> None:
            original()
            self._entry.put_first()

        return mutated


class _Forwarding(threading.local):
    now = False
