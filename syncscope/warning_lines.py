"""Warnings name the program's line, though functions of ours stand on its stack.

PyTorch warns in C++ in the name of the innermost Python frame. Where that is one of ours, the
warning is issued again for the frame that called us, with that module's filters and registry.
Where a warning is meant for a caller further out than the program has any, it is issued again
for none, as Python does it there: in the name of `sys`.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import FrameType
from typing import Any

from syncscope.callsite import owner_of
from syncscope.patches import Patches

NO_FRAME = ("<sys>", 0) if sys.version_info >= (3, 13) else ("sys", 1)
"""File and line that Python names where there is no frame; the module is `sys`."""

_RUNNER = str(Path(__file__).with_name("program.py"))
"""What calls the outermost frame of a program under `syncscope run`."""


def install_warning_lines(patches: Patches) -> None:
    """Look at each warning that is about to be shown."""
    show = warnings._showwarnmsg  # type: ignore[attr-defined]

    def show_warning(message: Any) -> None:
        named, outside = _find(message, sys._getframe(1))
        if outside:
            _issue(message, *NO_FRAME, vars(sys))
            return
        caller = named
        while caller is not None and _is_ours(caller):
            caller = caller.f_back
        if caller is named or caller is None:
            show(message)
            return
        _forget(named)
        _issue(message, caller.f_code.co_filename, caller.f_lineno, caller.f_globals)

    patches.put(warnings, "_showwarnmsg", show_warning)


def _find(message: Any, frame: FrameType | None) -> tuple[FrameType | None, bool]:
    """The frame that a warning names, of this one and its callers; whether it calls the program."""
    outside = False
    while frame is not None:
        outside = outside or frame.f_code.co_filename == _RUNNER
        if (frame.f_code.co_filename, frame.f_lineno) == (message.filename, message.lineno):
            return frame, outside
        frame = frame.f_back
    return None, False


def _is_ours(frame: FrameType) -> bool:
    return owner_of(frame.f_code.co_filename) == "syncscope"


def _issue(message: Any, file: str, line: int, variables: dict[str, Any]) -> None:
    """Issue a warning again for a line of the module with these global variables."""
    warnings.warn_explicit(
        message.message,
        message.category,
        file,
        line,
        module=variables.get("__name__", "<unknown>"),
        registry=variables.setdefault("__warningregistry__", {}),
        source=message.source,
    )


def _forget(frame: FrameType | None) -> None:
    """Our own line may warn again, for another line of the program."""
    while frame is not None and _is_ours(frame):
        frame.f_globals.get("__warningregistry__", {}).clear()
        frame = frame.f_back
