"""Activities and the calls that launched them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from syncscope.analysis.launches import Launches

APART = 1_000_000_007


@pytest.mark.parametrize("scale", [1, APART])
def test_the_first_call_that_launches_and_has_the_number_is_found(scale: int) -> None:
    calls = [("event", 3), ("launch", 3), ("memcpy", 5), ("launch", 3), ("launch", 0), ("sync", 9)]
    runtime = pd.DataFrame(calls, columns=["kind", "correlation_id"])
    runtime["correlation_id"] *= scale
    asked = np.array([5, 3, 0, 9, 4, -1, 3, 1 << 40]) * scale
    assert Launches(runtime).of(asked).tolist() == [2, 1, -1, -1, -1, -1, 1, -1]


def test_without_calls_nothing_was_launched() -> None:
    runtime = pd.DataFrame({"kind": [], "correlation_id": np.empty(0, dtype=np.int64)})
    assert Launches(runtime).of(np.array([1, 2])).tolist() == [-1, -1]
