"""Run a callback right after the program has imported torch, without importing it first.

A program may set OMP_NUM_THREADS, CUDA_VISIBLE_DEVICES or PYTORCH_CUDA_ALLOC_CONF before
its own `import torch`; importing torch earlier on its behalf would undo that.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType


class TorchImport(MetaPathFinder):
    """A finder that steps aside after it has seen `torch` being imported once."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback

    def start(self) -> None:
        """Call back at once if torch is loaded, else after its import."""
        if "torch" in sys.modules:
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
        """Hand torch's own spec on, with a loader that calls back when it is done."""
        if fullname != "torch":
            return None
        self.stop()
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _CallingLoader(spec.loader, self._callback)
        return spec


class _CallingLoader(Loader):
    def __init__(self, loader: Loader, callback: Callable[[], None]) -> None:
        self._loader = loader
        self._callback = callback

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._callback()
