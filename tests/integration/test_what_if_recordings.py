"""What the replay predicts from recordings of an H200, against what the cures gained there."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

import pytest

import syncscope

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "what_if"
PAIRS = {pair["name"]: pair for pair in json.loads((DATA / "results.json").read_text())["pairs"]}


@pytest.fixture(scope="module")
def predicted() -> dict[str, float]:
    """Predicted gain of each pair's cure, as part of the step."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        from what_if import cures
        from what_if_pairs import PAIRS as WRITTEN
    finally:
        sys.path.pop(0)
    gains = {}
    for pair in WRITTEN:
        name = pair.name
        analysis = syncscope.load(DATA / name).analysis
        assert analysis.what_if is not None
        gains[name] = analysis.what_if.without(cures(analysis, pair)).fraction
    return gains


@pytest.mark.parametrize("name", PAIRS)
def test_the_gain_is_predicted_within_a_tenth_of_the_step(
    name: str, predicted: dict[str, float]
) -> None:
    assert predicted[name] == pytest.approx(PAIRS[name]["bare"]["gain"], abs=0.10)


def test_half_of_the_predictions_are_within_a_twentieth(predicted: dict[str, float]) -> None:
    errors = [abs(predicted[name] - PAIRS[name]["bare"]["gain"]) for name in PAIRS]
    assert statistics.median(errors) < 0.05


def test_nothing_is_promised_where_the_gpu_or_the_launching_is_the_limit(
    predicted: dict[str, float],
) -> None:
    bound = [name for name, pair in PAIRS.items() if pair["bound"] in ("gpu", "launch")]
    assert len(bound) >= 3
    assert max(predicted[name] for name in bound) < 0.03
