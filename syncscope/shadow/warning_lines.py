"""Warnings of PyTorch name the program's line, though the shadow GPU stands in between.

PyTorch warns in C++ in the name of the innermost Python frame. Where that is one of ours, the
warning is issued again for the frame that called us, with that module's filters and registry.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from syncscope.callsite import owner_of
from syncscope.shadow.patching import FunctionPatches


def install(patches: FunctionPatches) -> None:
    """Look at each warning that is about to be shown."""
    show = warnings._showwarnmsg  # type: ignore[attr-defined]

    def show_warning(message: Any) -> None:
        if owner_of(message.filename) != "syncscope":
            show(message)
            return
        frame = sys._getframe(1)
        caller = _caller(frame)
        if caller is None:
            show(message)
            return
        _forget(frame)
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


def _caller(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not ours."""
    while frame is not None and owner_of(frame.f_code.co_filename) == "syncscope":
        frame = frame.f_back
    return frame


def _forget(frame: FrameType) -> None:
    """Our own line may warn again, for another line of the program."""
    own: FrameType | None = frame
    while own is not None and owner_of(own.f_code.co_filename) == "syncscope":
        own.f_globals.get("__warningregistry__", {}).clear()
        own = own.f_back
