"""Replacements that a program cannot tell from what they replace: classes and overridable calls."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.overrides import handle_torch_function, has_torch_function

_NOTHING = (None,)
"""Modes are asked only if there is an argument."""


class StandIn(type):
    """A class in place of one of PyTorch's that is sealed or must stay as it is.

    Calls make what `make` makes; in every other respect (instances, subclasses, equality,
    attributes, pickling by name) it is the original.
    """

    original: Any
    make: Callable[..., Any]
    others: tuple[type, ...]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.make(*args, **kwargs)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (cls.original, *cls.others))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return subclass is cls or issubclass(subclass, (cls.original, *cls.others))

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.original

    def __hash__(cls) -> int:
        return hash(cls.original)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.original, name)

    def __repr__(cls) -> str:
        return repr(cls.original)


def stand_in(
    original: Any, make: Callable[..., Any], *others: type, kind: type[StandIn] = StandIn
) -> StandIn:
    """A stand-in for a class, whose instances `make` makes; those of `others` count as such."""
    body = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        "original": original,
        "make": staticmethod(make),
        "others": others,
    }
    return kind(original.__name__, (), body)


def overridable(
    original: Callable[..., Any], replacement: Callable[..., Any], *, by_arguments: bool
) -> Callable[..., Any]:
    """A function that function modes see as they would have seen the original.

    `by_arguments`: so do the classes of its arguments, if these are tensor subclasses.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        relevant = (args or tuple(kwargs.values()) or _NOTHING) if by_arguments else _NOTHING
        if has_torch_function(relevant):
            return handle_torch_function(call, relevant, *args, **kwargs)
        return replacement(*args, **kwargs)

    return functools.update_wrapper(call, original)
