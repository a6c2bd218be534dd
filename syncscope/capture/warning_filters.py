"""Put entries into Python's warning filters without a trace for the program.

`warnings.simplefilter` and `catch_warnings` make Python forget which warnings it has shown, so
that the program's would be shown a second time. A change of the list itself does not.
"""

from __future__ import annotations

import contextlib
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from itertools import takewhile
from typing import Any


class Ignored:
    """Entry of the filters: hides warnings for whose text `applies` is true.

    It stands in place of a regular expression, which Python asks about each warning. A block
    of `warnings.catch_warnings` may put filters back that hold an entry long removed: a
    removed one applies to nothing. In another process, `elsewhere` is the regular expression.
    """

    def __init__(self, applies: Callable[[str], bool], elsewhere: str) -> None:
        self.match: Callable[[str], bool] = _nothing
        self._applies = applies
        self._elsewhere = elsewhere
        self._entry = ("ignore", self, Warning, None, 0)

    def __reduce__(self) -> tuple[Any, ...]:
        # Libraries send the filters to worker processes.
        return re.compile, (self._elsewhere,)

    def put_first(self) -> None:
        """Go in front of the program's filters, behind earlier entries, or stay there.

        Were it before those, then a thread that is at it when it goes would miss one of them.
        """
        self.match = self._applies
        for filters in _in_force():
            ours = list(takewhile(lambda entry: isinstance(entry[1], Ignored), filters))
            if not any(entry is self._entry for entry in ours):
                self._take_out(filters)
                filters.insert(len(ours), self._entry)

    def remove(self) -> None:
        """Leave the filters."""
        self.match = _nothing
        for filters in _in_force():
            self._take_out(filters)

    def _take_out(self, filters: list[Any]) -> None:
        filters[:] = [entry for entry in filters if entry is not self._entry]


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Warnings of this thread are hidden in the block."""
    thread = threading.get_ident()
    ignored = Ignored(lambda text: threading.get_ident() == thread, "$.")
    ignored.put_first()
    try:
        yield
    finally:
        ignored.remove()


def _nothing(text: str) -> bool:
    return False


def _in_force() -> list[list[Any]]:
    """The filters of the process and, if `catch_warnings` gave this context its own, those.

    It does from Python 3.14 on, under `-X context_aware_warnings` or without the GIL.
    """
    filters: Any = warnings.filters
    own: Any = getattr(warnings, "_get_filters", lambda: filters)()
    return [filters] if own is filters else [filters, own]
