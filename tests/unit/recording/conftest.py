"""Fixtures of the tests of the recording format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st


@pytest.fixture(scope="session", autouse=True)
def hypothesis_has_started() -> None:
    """Run one example now: its first one leaves a gc callback for the whole session."""
    given(st.none())(lambda _: None)()
