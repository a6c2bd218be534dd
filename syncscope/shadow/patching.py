"""Replace attributes, remember what was there, put everything back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

_MISSING = object()


class Patches:
    """A list of replaced attributes. `undo` restores them in reverse order."""

    def __init__(self) -> None:
        self._undo: list[tuple[Any, str, Any]] = []
        self._aliases: dict[int, tuple[Any, Any]] = {}

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name`; a name that the owner only inherits is deleted again by `undo`."""
        self._undo.append((owner, name, vars(owner).get(name, _MISSING)))
        setattr(owner, name, value)

    def put_function(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name` and every module global that is the same object.

        So a program that did `from torch import tensor` beforehand is reached as well.
        """
        original = getattr(owner, name, None)
        if original is not None:
            self._aliases[id(original)] = (original, value)
        self.put(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(original)`."""
        self.put_function(owner, name, make(getattr(owner, name)))

    def put_aliases(self) -> None:
        """Replace the names under which loaded modules hold functions given to `put_function`."""
        for module_name, module in list(sys.modules.items()):
            if module_name.startswith("syncscope") or not hasattr(module, "__dict__"):
                continue
            names = vars(module)
            for name, value in list(names.items()):
                alias = self._aliases.get(id(value))
                if alias is not None and alias[0] is value:
                    self._undo.append((module, name, value))
                    names[name] = alias[1]
        self._aliases.clear()

    def undo(self) -> None:
        """Put everything back. Safe to call twice."""
        while self._undo:
            owner, name, value = self._undo.pop()
            if value is _MISSING:
                if name in vars(owner):
                    delattr(owner, name)
            else:
                setattr(owner, name, value)
