"""Which calls of the runtime count as waits."""

from __future__ import annotations

from typing import Any

import pytest

from syncscope.analysis.pipeline import analyze

US = 1_000
MS = 1_000_000


@pytest.mark.parametrize(
    ("runs", "waits"),
    [
        ((100, 900), False),
        ((100, 1_200), True),
        ((1_100, 1_900), True),
        ((1_900, 2_100), True),
        ((2_000, 3_000), False),
    ],
)
def test_giving_memory_back_waits_if_the_device_is_at_work(
    builder: Any, runs: tuple[int, int], waits: bool
) -> None:
    builder.window(0, 5 * MS)
    builder.kernel(50 * US, runs[0] * US, runs[1] * US)
    builder.runtime("cudaFree", "free", 1_000 * US, 2_000 * US)
    coverage = analyze(builder.build()).summary.coverage
    assert coverage.blocking_calls == int(waits)


def test_giving_memory_back_counts_as_a_wait_where_nothing_is_known_of_the_device(
    builder: Any,
) -> None:
    builder.window(0, 5 * MS)
    builder.runtime("cudaFree", "free", 1_000 * US, 2_000 * US)
    assert analyze(builder.build()).summary.coverage.blocking_calls == 1
