"""Entries in Python's warning filters, wherever these are."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from syncscope.capture.warning_filters import Ignored


def test_a_context_with_filters_of_its_own_gets_an_entry_as_well_as_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own: list[Any] = list(warnings.filters)
    before = list(own)
    monkeypatch.setattr(warnings, "_get_filters", lambda: own, raising=False)
    ignored = Ignored(lambda text: text == "noise", "noise")
    ignored.put_first()
    ignored.put_first()
    for filters in (own, warnings.filters):
        assert filters[0][1] is ignored
        assert list(filters[1:]) == before
    ignored.remove()
    assert own == before == list(warnings.filters)


def test_an_entry_that_goes_while_a_warning_is_looked_up_hides_none_from_an_earlier_one() -> None:
    heard: list[str] = []

    def hear(text: str) -> bool:
        heard.append(text)
        return True

    def leave(text: str) -> bool:
        later.remove()  # as another thread may do just then
        return False

    earlier, later = Ignored(hear, "$."), Ignored(leave, "$.")
    earlier.put_first()
    later.put_first()
    try:
        warnings.warn("waited", stacklevel=1)
    finally:
        later.remove()
        earlier.remove()
    assert heard == ["waited"]
