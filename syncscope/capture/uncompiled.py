"""Keep torch.compile away from the collectors' own functions.

Where a graph breaks, what runs next is compiled on its own: also a collector's wrapper, with
guards on its lists that fail as soon as these grow, and what that calls.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import CO_NESTED
from types import CodeType, FunctionType, ModuleType
from typing import Any

from torch._C._dynamo import eval_frame


def leave_uncompiled(package: str) -> None:
    """Have dynamo run all functions of the loaded modules of a package as they are.

    Also what these call, of Python's library for example; but not what a nested function calls,
    for such a one wraps a function of the program's. Torch 2.6 itself leaves Python's library
    alone. Costs some milliseconds; does less where this torch offers no way to say so.
    """
    skip = _skipper()
    seen: set[CodeType] = set()
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == package and getattr(module, "__file__", None):
            for function in _functions(module, module):
                vars(function)["_torchdynamo_disable"] = True  # as torch.compiler.disable does
                for code in _nested(function.__code__, seen):
                    skip(code)


def _skipper() -> Any:
    """torch's function that takes a code object: its name changed after torch 2.6."""
    old = getattr(eval_frame, "skip_code", None)
    if old is not None:
        return old
    names = ("set_code_exec_strategy", "_FrameExecStrategy", "_FrameAction")
    if not all(hasattr(eval_frame, name) for name in names):
        return _nothing
    put, strategy, action = (getattr(eval_frame, name) for name in names)
    alone, with_callees = strategy(action.SKIP, action.DEFAULT), strategy(action.SKIP, action.SKIP)
    return lambda code: put(code, alone if code.co_flags & CO_NESTED else with_callees)


def _nothing(code: CodeType) -> None:
    return None


def _functions(owner: Any, module: ModuleType) -> Iterator[FunctionType]:
    """Functions and methods of a module or a class in it: written in its file, or generated."""
    files = (module.__file__, "<string>")
    for value in list(vars(owner).values()):
        value = getattr(value, "__func__", value)  # of static and class methods
        value = getattr(value, "fget", value)  # of properties
        value = getattr(value, "__wrapped__", value)  # of what has a decorator
        if isinstance(value, FunctionType) and value.__code__.co_filename in files:
            yield value
        elif isinstance(value, type) and value.__module__ == module.__name__:
            yield from _functions(value, module)


def _nested(code: CodeType, seen: set[CodeType]) -> Iterator[CodeType]:
    if code in seen:
        return
    seen.add(code)
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant, seen)
