"""Replaced functions are also reached by the names under which modules have imported them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from syncscope.patches import Patches


class FunctionPatches(Patches):
    """Patches that reach `from torch import tensor`, too."""

    def __init__(self) -> None:
        super().__init__()
        self._replaced: dict[int, tuple[Any, Any]] = {}
        self._originals: dict[int, tuple[Any, Any]] = {}
        self._at_undo: list[Callable[[], None]] = []

    def at_undo(self, action: Callable[[], None]) -> None:
        """Call `action` when everything is put back."""
        self._at_undo.append(action)

    def put_function(self, owner: Any, name: str, value: Any) -> None:
        """Set `owner.name` and, by `put_aliases`, every module global that is the same object.

        So a program that did `from torch import tensor` beforehand is reached as well.
        """
        original = getattr(owner, name, None)
        if original is not None:
            self._replaced.setdefault(id(original), (original, value))
            self._originals[id(value)] = (value, original)
        self.put(owner, name, value)

    def wrap(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Replace `owner.name` by `make(original)`."""
        self.put_function(owner, name, make(getattr(owner, name)))

    def put_aliases(self) -> None:
        """Replace the names under which loaded modules hold functions given to `put_function`."""
        _swap(self._replaced)

    def put_builtins(self) -> None:
        """Let TorchScript compile calls of the replacements as calls of the originals."""
        from torch.jit import _builtins

        known: dict[int, str] = _builtins._get_builtin_table()
        table = dict(known)
        for original, value in self._replaced.values():
            if id(original) in known:
                table[id(value)] = known[id(original)]
        self.put(_builtins, "_builtin_table", table)

    def undo(self) -> None:
        """Put everything back. Safe to call twice."""
        while self._at_undo:
            self._at_undo.pop()()
        super().undo()
        # Modules that were imported meanwhile may hold replacements, too.
        if self._originals:
            _swap(self._originals)
        self._replaced.clear()
        self._originals.clear()


def _swap(table: dict[int, tuple[Any, Any]]) -> None:
    """In all modules, replace globals that are a first of a pair by the second."""
    for module_name, module in list(sys.modules.items()):
        names = getattr(module, "__dict__", None)
        if module_name.startswith("syncscope") or not isinstance(names, dict):
            continue
        for name, value in list(names.items()):
            pair = table.get(id(value))
            if pair is not None and pair[0] is value:
                names[name] = pair[1]
