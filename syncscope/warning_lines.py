"""Warnings name the program's line, though a function of ours stands in between.

PyTorch warns in C++ in the name of the innermost Python frame. Where that is one of ours, the
warning is issued again for the frame that called us, with that module's filters and registry.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from types import FrameType
from typing import Any

from syncscope.callsite import owner_of
from syncscope.patches import Patches


def install_warning_lines(patches: Patches) -> None:
    """Look at each warning that is about to be shown."""
    show = warnings._showwarnmsg  # type: ignore[attr-defined]

    def show_warning(message: Any) -> None:
        if owner_of(message.filename) != "syncscope":
            show(message)
            return
        named = _outwards(sys._getframe(1), lambda file: file == message.filename)
        caller = _outwards(named, lambda file: owner_of(file) != "syncscope")
        if caller is None:
            show(message)
            return
        _forget(named)
        warnings.warn_explicit(
            message.message,
            message.category,
            caller.f_code.co_filename,
            caller.f_lineno,
            module=caller.f_globals.get("__name__", "<unknown>"),
            registry=caller.f_globals.setdefault("__warningregistry__", {}),
            source=message.source,
        )

    patches.put(warnings, "_showwarnmsg", show_warning)


def _outwards(frame: FrameType | None, wanted: Callable[[str], bool]) -> FrameType | None:
    """The first frame whose file is wanted, of this one and its callers."""
    while frame is not None and not wanted(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _forget(frame: FrameType | None) -> None:
    """Our own line may warn again, for another line of the program."""
    while frame is not None and owner_of(frame.f_code.co_filename) == "syncscope":
        frame.f_globals.get("__warningregistry__", {}).clear()
        frame = frame.f_back
