"""CUDA graphs of the shadow GPU: capture remembers operators, replay computes them again.

Operators run while they are captured as well, so that their results have values; on a real
GPU those are undefined until the first replay. Nothing is launched during capture.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import torch

from syncscope.shadow.machine import Machine
from syncscope.shadow.operators import tensors_in

_PREVIOUS_ERROR = "CUDA error: operation failed due to a previous error during capture"


class Capture:
    """What one capture has seen."""

    def __init__(self) -> None:
        self.failed = False
        self.kernels: list[tuple[str, int]] = []
        self.work: list[tuple[Any, tuple[Any, ...], dict[str, Any], Any]] = []

    def add(
        self,
        op: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: Any,
        name: str,
        duration_ns: int,
    ) -> None:
        """Remember an operator and its kernel."""
        self.kernels.append((name, duration_ns))
        if op is not None:
            self.work.append((op, args, kwargs, result))


class ShadowGraph:
    """`torch.cuda.CUDAGraph`."""

    machine: ClassVar[Machine]

    def __init__(self, keep_graph: bool = False) -> None:
        self._capture: Capture | None = None
        self._device = 0

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global", **_: Any) -> None:
        if self.machine.thread.capture is not None:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
        self._capture = self.machine.thread.capture = Capture()
        self._device = self.machine.thread.device

    def capture_end(self) -> None:
        self.machine.thread.capture = None
        capture = self._capture
        if capture is not None and capture.failed:
            self._capture = None
            if sys.exc_info()[0] is None:
                raise RuntimeError(_PREVIOUS_ERROR)

    def instantiate(self) -> None:
        """Nothing to do."""

    def replay(self) -> None:
        capture = self._capture
        if capture is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            for op, args, kwargs, result in capture.work:
                again = op(*args, **kwargs)
                for old, new in zip(tensors_in((result,)), tensors_in((again,)), strict=False):
                    if old is not new and old.data_ptr() != new.data_ptr():
                        old.copy_(new)
        self.machine.timeline.launch_graph(self._device, capture.kernels)

    def reset(self) -> None:
        self._capture = None

    def pool(self) -> tuple[int, int]:
        return (0, 0)

    def register_generator_state(self, generator: Any) -> None:
        """Nothing to do: captured operators draw from it as others do."""

    def enable_debug_mode(self) -> None:
        """Nothing to do."""

    def debug_dump(self, debug_path: str) -> None:
        """Nothing to do."""
