"""Whether the code that a thread runs may make the host wait implicitly (`syncscope.forbid`)."""

from __future__ import annotations

import threading

from syncscope.errors import ImplicitSyncError


class _Held(threading.local):
    forbidden = False


_held = _Held()


def exchange(forbidden: bool) -> bool:
    """Forbid waits on this thread, or permit them; returns what held before."""
    before, _held.forbidden = _held.forbidden, forbidden
    return before


def check() -> None:
    """This thread has waited implicitly: raises ImplicitSyncError if that is forbidden."""
    if _held.forbidden:
        raise ImplicitSyncError(
            "this line makes the host wait for the GPU, which syncscope.forbid() forbids"
        )
