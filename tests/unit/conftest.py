"""What a recorder installs besides its collectors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from syncscope.patches import Patches
from syncscope.warning_lines import install_warning_lines


@pytest.fixture
def warning_lines() -> Iterator[None]:
    """Warnings name the program's line."""
    patches = Patches()
    install_warning_lines(patches)
    yield
    patches.undo()
