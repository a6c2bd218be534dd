"""A warning that a wrapper of ours would be blamed for names the line that called it.

PyTorch's C++ side, which warns in the name of the innermost Python frame, is played by
`warnings.warn` with a stack level.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import syncscope
from syncscope.capture.flights import Flights
from syncscope.capture.readbacks import Readbacks
from syncscope.context import CaptureContext
from syncscope.patches import Patches
from syncscope.warning_lines import install_warning_lines

Read = Callable[[torch.Tensor], Any]


@pytest.fixture
def read(context: CaptureContext, warning_lines: None) -> Read:
    """A wrapped method that warns."""

    def original(tensor: torch.Tensor) -> None:
        warnings.warn("Converting a tensor", UserWarning, stacklevel=2)

    wrapped: Read = Readbacks(context, Flights(context))._readback("Tensor.item", original)
    return wrapped


def lines(read: Read, action: str) -> list[int]:
    """Reads at two lines, twice each; the lines of the warnings shown, from the first on."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.resetwarnings()
        warnings.simplefilter(action)  # type: ignore[arg-type]
        first = sys._getframe().f_lineno + 1
        for _ in range(2):
            read(torch.ones(()))
            read(torch.ones(()))
    assert {warning.filename for warning in seen} <= {__file__}
    return [warning.lineno - first for warning in seen]


@pytest.mark.parametrize(
    ("action", "shown"),
    [("always", [1, 2, 1, 2]), ("default", [1, 2]), ("module", [1]), ("once", [1])]
)  # fmt: skip
def test_it_is_shown_as_often_as_without_us(
    read: Read, action: str, shown: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(globals(), "__warningregistry__", raising=False)
    assert lines(read, action) == shown


def test_filters_for_the_programs_module_apply(read: Read) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", module=__name__)
        read(torch.ones(()))
    assert seen == []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.filterwarnings("error", module=__name__)
        with pytest.raises(UserWarning, match="Converting"):
            read(torch.ones(()))


@pytest.mark.usefixtures("warning_lines")
def test_a_warning_of_the_programs_own_is_left_alone() -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("mine", FutureWarning, stacklevel=1)
    assert [(w.filename, str(w.message)) for w in seen] == [(__file__, "mine")]


def test_a_recording_does_that(tmp_path: Path) -> None:
    with (
        syncscope.record(tmp_path / "run", device="shadow"),
        warnings.catch_warnings(record=True) as seen,
    ):
        warnings.simplefilter("always")
        torch.tensor(torch.ones(2))
    assert [warning.filename for warning in seen] == [__file__]


def test_it_is_undone() -> None:
    patches = Patches()
    show = warnings._showwarnmsg  # type: ignore[attr-defined]
    install_warning_lines(patches)
    assert warnings._showwarnmsg is not show  # type: ignore[attr-defined]
    patches.undo()
    assert warnings._showwarnmsg is show  # type: ignore[attr-defined]
