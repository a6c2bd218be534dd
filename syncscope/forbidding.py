"""Whether the code that a thread runs may make the host wait implicitly (`syncscope.forbid`)."""

from __future__ import annotations

import os
import sys
import threading
from types import FrameType

from syncscope.callsite import display_name, expression_at, owner_of, position_of
from syncscope.errors import ImplicitSyncError


class _Held(threading.local):
    forbidden = False


_held = _Held()


def exchange(forbidden: bool) -> bool:
    """Forbid waits on this thread, or permit them; returns what held before."""
    before, _held.forbidden = _held.forbidden, forbidden
    return before


def check(cause: str = "") -> None:
    """This thread has waited implicitly: raises ImplicitSyncError if that is forbidden.

    The error names the program's line, its expression and, where it is known, the cause.
    """
    if _held.forbidden:
        why = f" ({cause.replace('_', ' ')})" if cause else ""
        raise ImplicitSyncError(
            f"{_line(sys._getframe(1))} makes the host wait for the GPU{why}, which "
            "syncscope.forbid() forbids"
        )


def _line(frame: FrameType | None) -> str:
    """Place and expression of the innermost frame of the program itself."""
    while frame is not None and owner_of(frame.f_code.co_filename) != "user":
        frame = frame.f_back
    if frame is None:
        return "a line"
    file = frame.f_code.co_filename
    position = position_of(frame.f_code, frame.f_lasti)
    where = f"{display_name(file, os.getcwd())}:{position.line}"
    expression = " ".join(expression_at(file, position).split())
    return f"{where}: {expression}" if expression else where
