"""Rules against single aten calls that were watched on an H200 (tests/data/truth)."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from syncscope.shadow.effects import Effect
from syncscope.shadow.rules import effects_of

TRUTH = Path(__file__).parents[2] / "data" / "truth" / "aten_calls_h200.json.gz"

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support:UserWarning")

DATA_DEPENDENT = frozenset(
    {
        "aten._linalg_eigh.default",
        "aten._linalg_svd.default",
        "aten.linalg_eig.default",
        "aten.linalg_ldl_factor_ex.default",
        "aten.linalg_matrix_exp.default",
        "aten.linalg_pinv.atol_rtol_tensor",
    }
)
"""Iterations on the host: how often they wait depends on values that are not recorded."""

OF_THE_CALLER = frozenset(
    {"aten.index.Tensor", "aten.index_put.default", "aten.index_put_.default"}
)
"""Uploads of host indices and host values are counted where copies are, not by rules."""

ALIASED = "equal"
"""Whether two arguments are the same tensor is not recorded."""


class Stage:
    """Rebuilds recorded arguments on the CPU and remembers which lived on the GPU."""

    def __init__(self) -> None:
        self.gpu: list[torch.Tensor] = []

    def on_gpu(self, tensor: torch.Tensor) -> bool:
        return any(tensor is known for known in self.gpu)

    def build(self, spec: Any) -> Any:
        if isinstance(spec, list):
            return [self.build(item) for item in spec]
        if not isinstance(spec, dict):
            return spec
        if "r" in spec:
            return self._named(spec["r"])
        tensor = self._tensor(getattr(torch, spec["d"]), spec["s"], spec.get("st"))
        if spec["dev"] == "g":
            self.gpu.append(tensor)
        return tensor

    @staticmethod
    def _named(text: str) -> Any:
        if text.startswith("torch."):
            return getattr(torch, text.removeprefix("torch."))
        return torch.device("cpu") if text.startswith(("cuda", "cpu")) else complex(text)

    @staticmethod
    def _tensor(dtype: torch.dtype, shape: list[int], strides: list[int] | None) -> torch.Tensor:
        if strides is None:
            return torch.ones(shape, dtype=dtype)
        room = 1 + sum(
            stride * max(size - 1, 0) for size, stride in zip(shape, strides, strict=True)
        )
        return torch.ones(room, dtype=dtype).as_strided(shape, strides)


def overload(name: str) -> torch._ops.OpOverload:
    namespace, operator, overload_name = name.split(".")
    found: torch._ops.OpOverload = getattr(
        getattr(getattr(torch.ops, namespace), operator), overload_name
    )
    return found


def counts(effects: tuple[Effect, ...]) -> list[int]:
    """Waits, uploads and downloads."""
    return [
        sum(effect.action == "sync" or effect.waits for effect in effects),
        sum(effect.action == "h2d" for effect in effects),
        sum(effect.action == "d2h" for effect in effects),
    ]


def counts_of_trace(text: str) -> list[int]:
    """The same of a recorded trace such as `D8 S 3*H4`."""
    totals = {"S": 0, "H": 0, "D": 0}
    for token in text.split():
        repeat, star, call = token.rpartition("*")
        totals[call[0]] += int(repeat) if star else 1
    return [totals["S"], totals["H"], totals["D"]]


def recorded() -> dict[str, list[Any]]:
    with gzip.open(TRUTH, "rt") as file:
        calls: dict[str, list[Any]] = json.load(file)["calls"]
    if not hasattr(torch.ops.aten, "cholesky"):  # removed in torch 2.14
        del calls["aten.cholesky.default"]
    return calls


def replayed(name: str, rows: list[Any]) -> Iterator[tuple[list[int], list[int], Any]]:
    func = overload(name)
    for specs, keywords, trace in rows:
        stage = Stage()
        args = tuple(stage.build(spec) for spec in specs)
        kwargs = {key: stage.build(spec) for key, spec in keywords.items()}
        expected = counts_of_trace(trace) if isinstance(trace, str) else trace
        yield counts(effects_of(func, args, kwargs, None, stage.on_gpu)), expected, specs


CALLS = recorded()


@pytest.mark.parametrize("name", sorted(CALLS.keys() - OF_THE_CALLER))
def test_a_rule_blocks_exactly_where_the_h200_did(name: str) -> None:
    for got, expected, specs in replayed(name, CALLS[name]):
        if ALIASED in name and not any(expected):
            continue
        assert bool(got[0]) == bool(expected[0]), specs


@pytest.mark.parametrize("name", sorted(CALLS.keys() - OF_THE_CALLER - DATA_DEPENDENT))
def test_a_rule_counts_the_waits_and_copies_of_the_h200(name: str) -> None:
    for got, expected, specs in replayed(name, CALLS[name]):
        if ALIASED in name and not any(expected):
            continue
        assert got == expected, specs


@pytest.mark.parametrize("name", sorted(OF_THE_CALLER))
def test_masks_on_the_gpu_are_read_and_host_indices_are_left_to_the_caller(name: str) -> None:
    for got, expected, specs in replayed(name, CALLS[name]):
        uploads = expected[1]
        waits_of_uploads = expected[0] - expected[2]
        assert got == [expected[0] - waits_of_uploads, expected[1] - uploads, expected[2]], specs
