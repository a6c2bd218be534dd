"""Values that a user picks from a list."""

from __future__ import annotations

from collections.abc import Iterable

from syncscope.errors import UsageError


def one_of(option: str, value: str, choices: Iterable[str]) -> str:
    """The value, if it is one of the choices; UsageError with all of them if it is not."""
    known = list(choices)
    if value in known:
        return value
    given = f"{option} cannot be {value!r}" if value else f"{option} is missing"
    raise UsageError(f"{given}; choose one of: {', '.join(known)}")
