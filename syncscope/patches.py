"""Replace attributes of other modules for a while, and put every one of them back."""

from __future__ import annotations

from typing import Any

_ABSENT = object()


class Patches:
    """A stack of attribute replacements. `undo` restores in reverse order.

    An attribute that somebody else replaced on top of ours is left to them: putting the
    original back would throw their replacement away.
    """

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Replace `owner.name`; remembers whether the owner itself held the attribute."""
        held = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._done.append((owner, name, held, value))

    def undo(self) -> None:
        """Put everything back. Safe to call twice."""
        while self._done:
            owner, name, held, value = self._done.pop()
            if vars(owner).get(name) is not value:
                continue
            if held is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, held)
