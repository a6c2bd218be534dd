"""Keep torch.compile away from the collectors' own functions.

Where a graph breaks, what runs next is compiled on its own: also a collector's wrapper, with
guards on its lists that fail as soon as these grow.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch._C._dynamo import eval_frame


def leave_uncompiled(package: str) -> None:
    """Have dynamo run all functions of the loaded modules of a package as they are.

    Costs some milliseconds. What they call is not affected. Does nothing where this torch
    offers no way to say so.
    """
    skip = _skipper()
    if skip is None:
        return
    seen: set[CodeType] = set()
    for name, module in list(sys.modules.items()):
        if isinstance(module, ModuleType) and name.split(".")[0] == package:
            for code in _codes(module, name, seen):
                skip(code)


def _skipper() -> Any:
    """torch's function that takes a code object: its name changed after torch 2.6."""
    old = getattr(eval_frame, "skip_code", None)
    if old is not None:
        return old
    names = ("set_code_exec_strategy", "_FrameExecStrategy", "_FrameAction")
    if not all(hasattr(eval_frame, name) for name in names):
        return None
    put, strategy, action = (getattr(eval_frame, name) for name in names)
    once = strategy(action.SKIP, action.DEFAULT)
    return lambda code: put(code, once)


def _codes(owner: Any, module: str, seen: set[CodeType]) -> Iterator[CodeType]:
    """Code of the functions and methods that a module or a class defines, and inside these."""
    for value in list(vars(owner).values()):
        value = getattr(value, "__func__", value)  # of static and class methods
        value = getattr(value, "fget", value)  # of properties
        if isinstance(value, FunctionType):
            yield from _nested(value.__code__, seen)
        elif isinstance(value, type) and value.__module__ == module:
            yield from _codes(value, module, seen)


def _nested(code: CodeType, seen: set[CodeType]) -> Iterator[CodeType]:
    if code in seen:
        return
    seen.add(code)
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant, seen)
