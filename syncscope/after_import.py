"""Run a callback right after the program has imported a module, without importing it first.

A program may set OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES or PYTORCH_CUDA_ALLOC_CONF before
its own `import torch`; importing torch earlier on its behalf would undo that. And what it
never imports would only cost it time and memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class AfterImport(MetaPathFinder):
    """A finder that steps aside once the module has been imported."""

    def __init__(self, module: str, callback: Callable[[], None]) -> None:
        self._module = module
        self._callback = callback

    def start(self) -> None:
        """Call back at once if the module is loaded, else after its import."""
        if self._module in sys.modules:
            self._callback()
        else:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Stop waiting."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Hand the module's own spec on, with a loader that calls back when it is done.

        A spec may be asked for and never loaded (`importlib.util.find_spec("torch")` is a
        common test of whether torch is installed): so we stay until the module is there.
        """
        if fullname != self._module:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = None if find is None else find(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _CallingLoader(spec.loader, self)
                return spec
        return None

    def loaded(self) -> None:
        """The module is there: step aside and call back, once."""
        if self in sys.meta_path:
            self.stop()
            self._callback()


class _CallingLoader(Loader):
    def __init__(self, loader: Loader, waiting: AfterImport) -> None:
        self._loader = loader
        self._waiting = waiting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._waiting.loaded()
