"""Shared fixtures: nothing may stay patched after a test."""

from __future__ import annotations

import gc
import shutil
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
PATCHED_TENSOR_METHODS = ("to", "cpu", "cuda", "copy_", "item", "tolist", "numpy")


def _state() -> dict[str, Any]:
    """Everything that a recording replaces while it runs."""
    state: dict[str, Any] = {
        # hypothesis leaves a callback of its own there at its first use
        "gc": [c for c in gc.callbacks if not c.__module__.startswith("hypothesis")],
        # modules that a test imports for the first time may add filters of theirs
        "filters": [entry for entry in warnings.filters if _is_ours(entry[1])],
        "showwarning": (warnings.showwarning, warnings._showwarnmsg),  # type: ignore[attr-defined]
        "threads": {t.name for t in threading.enumerate() if t.name.startswith("syncscope")},
        "meta_path": [finder for finder in sys.meta_path if _is_ours(finder)],
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        state["methods"] = {name: getattr(torch.Tensor, name) for name in PATCHED_TENSOR_METHODS}
        state["printing"] = (torch._tensor_str._str, torch._tensor_str._Formatter.format)
        state["synchronize"] = torch.cuda.synchronize
        state["lazy_init"] = torch.cuda._lazy_init
        state["is_available"] = torch.cuda.is_available
        state["run_backward"] = torch.autograd._engine_run_backward
        state["dispatch_modes"] = torch._C._len_torch_dispatch_stack()
        state["function_modes"] = torch._C._len_torch_function_stack()
    return state


def _is_ours(thing: object) -> bool:
    return type(thing).__module__.startswith("syncscope")


@pytest.fixture(autouse=True)
def nothing_stays_patched() -> Iterator[None]:
    """Fail a test after which a hook, mode, filter or thread of ours is still there."""
    before = _state()
    yield
    after = _state()
    for name, value in before.items():
        assert after[name] == value, f"{name} stayed changed"


@pytest.fixture
def syncscope_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the real `syncscope` command in a subprocess, in a folder of its own."""

    def run(
        *args: str | Path, cwd: Path = tmp_path, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        options = {"capture_output": True, "text": True, "timeout": 240} | options
        return subprocess.run(command_line(args), cwd=cwd, **options)

    return run


@pytest.fixture
def command_of() -> Callable[[Sequence[str | Path]], list[str]]:
    """The argument list of the real command, for tests that manage the process themselves."""
    return command_line


def command_line(args: Sequence[str | Path]) -> list[str]:
    """`syncscope args...` with the interpreter that runs the tests."""
    beside = Path(sys.executable).with_name("syncscope")
    executable = str(beside) if beside.exists() else shutil.which("syncscope")
    assert executable is not None, "install the package first: pip install -e ."
    return [executable, *map(str, args)]
