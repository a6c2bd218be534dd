"""Rules on plain CPU tensors that all count as GPU tensors, unless a test says otherwise."""

from __future__ import annotations

import importlib
import timeit
from typing import Any

import pytest
import torch

from syncscope.shadow.effects import Effect
from syncscope.shadow.rules import RULES, effects_of, has_rule
from syncscope.shadow.rules_call import trace

aten = torch.ops.aten
importlib.import_module("sympy")  # torch imports it late, and it changes the warning filters


def everywhere(tensor: torch.Tensor) -> bool:
    return True


def hidden(func: Any, *args: Any, **kwargs: Any) -> tuple[Effect, ...]:
    """Effects of a call that is really made."""
    with torch.no_grad():
        result = func(*args, **kwargs)
    return effects_of(func, args, kwargs, result, everywhere)


FLAG = Effect("d2h", 1)
COUNT = Effect("d2h", 4)
X = torch.arange(12.0).reshape(3, 4)
MASK = X > 5
SQUARE = torch.eye(5) * 3
ROWS = torch.tensor([[1, 2], [1, 2], [3, 4]])
COO = torch.sparse_coo_tensor(
    torch.tensor([[0, 1, 1], [1, 0, 0]]), torch.ones(3), (3, 4), check_invariants=True
)


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "expected"),
    [
        (aten._local_scalar_dense.default, (torch.tensor(1.0),), {}, "D4 S"),
        (aten._local_scalar_dense.default, (torch.tensor(1, dtype=torch.int16),), {}, "D2 S"),
        (aten.nonzero.default, (X,), {}, "D4 S"),
        (aten.nonzero.default, (X[:0],), {}, "D4 S"),
        (aten.masked_select.default, (X, MASK), {}, "D4 S"),
        (aten.index.Tensor, (X, [MASK]), {}, "D4 S"),
        (aten.index.Tensor, (X, [MASK[:, 0], MASK[0]]), {}, "D4 S D4 S"),
        (aten.index.Tensor, (X, [torch.tensor([0, 2])]), {}, ""),
        (aten.index.Tensor, (X, [None, torch.tensor([0, 2])]), {}, ""),
        (aten.index_put.default, (X, [MASK], torch.tensor(1.0)), {}, "D4 S"),
        (aten.index_put.default, (X, [torch.tensor([0])], torch.tensor(1.0)), {}, ""),
        (aten.repeat_interleave.Tensor, (torch.tensor([1, 2]),), {}, "D8 S D1 S"),
        (aten.repeat_interleave.Tensor, (torch.tensor([1, 2]),), {"output_size": 3}, ""),
        (aten.repeat_interleave.Tensor, (torch.tensor([], dtype=torch.int64),), {}, ""),
        (aten._unique2.default, (X,), {}, "D8 S"),
        (aten._unique2.default, (MASK,), {}, "D4 S"),
        (aten._unique2.default, (X[:0],), {}, ""),
        (aten.unique_dim.default, (ROWS, 0), {}, "S S D4 S"),
        (aten.unique_dim.default, (ROWS, 0, True, True, True), {}, "5*S D4 S S"),
        (aten.unique_consecutive.default, (ROWS,), {}, "D8 S"),
        (aten.unique_consecutive.default, (ROWS, True, True, 0), {}, "4*S D4 S S"),
        (aten.bincount.default, (torch.tensor([1, 1, 3]),), {}, "D8 S D8 S"),
        (aten.bincount.default, (torch.tensor([1], dtype=torch.uint8),), {}, "D1 S"),
        (aten.histc.default, (X, 4), {}, "D4 S D4 S"),
        (aten.histc.default, (X, 4, 0, 10), {}, ""),
        (aten.isin.Tensor_Tensor, (X, torch.arange(100.0)), {}, "D8 S D8 S H1 S"),
        (aten.isin.Tensor_Tensor, (X, torch.arange(3.0)), {}, ""),
        (aten.equal.default, (X, X + 1), {}, "D1 S"),
        (aten.equal.default, (X, X), {}, ""),
        (aten.equal.default, (X, X[:2]), {}, ""),
        (aten.allclose.default, (X, X), {}, "D1 S"),
        (aten.normal.Tensor_Tensor, (X, X), {}, "D1 S D1 S"),
        (aten.normal.Tensor_float, (X, 2.0), {}, ""),
        (aten.normal.float_Tensor, (0.0, X[:0]), {}, ""),
        (aten.masked_fill.Tensor, (X, MASK, torch.tensor(1.0)), {}, "D4 S"),
        (aten.masked_fill.Scalar, (X, MASK, 1.0), {}, ""),
        (aten.linspace.Tensor_Tensor, (torch.tensor(0), torch.tensor(1.0), 3), {}, "D4 S D8 S"),
        (aten.searchsorted.Tensor, (torch.arange(4.0), X), {}, ""),
        (aten.dot.default, (X[0], X[0]), {}, ""),
        (aten.dot.default, (X[0, :0], X[0, :0]), {}, "H4"),
        (
            aten._linalg_check_errors.default,
            (torch.zeros(2, dtype=torch.int32), "x"),
            {"is_matrix": False},
            "D1 S",
        ),
        (aten._linalg_svd.default, (SQUARE,), {}, "D4 S D1 S"),
        (aten._linalg_svd.default, (SQUARE.expand(3, 5, 5),), {}, "D12 S D1 S"),
        (aten._linalg_svd.default, (SQUARE[:, :0],), {}, ""),
        (aten._linalg_eigh.default, (SQUARE,), {}, "D4 S D1 S"),
        (aten._linalg_eigh.default, (SQUARE.double(),), {}, "D8 S D1 S"),
        (aten._linalg_eigh.default, (SQUARE.expand(2, 5, 5),), {}, "D1 S"),
        (aten.linalg_pinv.atol_rtol_tensor, (SQUARE,), {}, "D4 S D1 S"),
        (aten.linalg_lu_factor_ex.default, (SQUARE,), {}, ""),
        (aten.linalg_lu_factor_ex.default, (SQUARE[:, :3],), {}, "S S S"),
        (aten.linalg_inv_ex.default, (torch.eye(40).expand(20, 40, 40),), {}, "S S S"),
        (aten.linalg_ldl_factor_ex.default, (SQUARE,), {}, "D24 S " * 5),
        (aten.linalg_ldl_factor_ex.default, (torch.tensor([[0.0, 1], [1, 0]]),), {}, "D24 S D24 S"),
        (aten.linalg_matrix_exp.default, (SQUARE,), {}, "D4 S H8 S H100 S D8 S D16 S H8 S"),
        (aten.linalg_matrix_exp.default, (SQUARE.expand(2, 5, 5),), {}, "H100 S D8 S D16 S"),
        (aten.linalg_matrix_exp.default, (SQUARE / 3,), {}, "D4 S H8 S H64 S"),
        (aten.cholesky_solve.default, (SQUARE, SQUARE.expand(2, 5, 5)), {}, "S"),
        (aten._to_sparse.default, (X,), {}, "D4 S"),
        (aten._to_sparse.sparse_dim, (X, 1), {}, "D4 S S S D4 S"),
        (aten._to_sparse.sparse_dim, (X, 2), {}, "D4 S"),
        (aten._to_sparse_csr.default, (X,), {}, "D4 S D4 S"),
        (aten._to_sparse_csr.default, (COO.coalesce(),), {}, ""),
        (aten._to_sparse_csc.default, (COO.coalesce(),), {}, "4*S D4 S"),
        (aten._coalesce.default, (COO,), {}, "4*S D4 S"),
        (aten._sparse_sum.dim, (COO.coalesce(), [0]), {}, "4*S D4 S"),
        (aten.select.int, (X, 0, 1), {}, ""),
        (aten.index_select.default, (X, 0, torch.tensor([1])), {}, ""),
        (aten._chunk_cat.default, ([X, X], 0, 3), {}, "H128"),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, torch._ops.OpOverload) else "",
)
def test_a_call_hides_these_driver_calls(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], expected: str
) -> None:
    found = hidden(func, *args, **kwargs)
    assert [(e.action, e.size_bytes, e.waits) for e in found] == [
        (e.action, e.size_bytes, e.waits) for e in trace(expected)
    ]


def test_a_trace_joins_a_copy_with_the_wait_that_follows_it() -> None:
    assert trace("D8 S H4 2*S") == (
        Effect("d2h", 8),
        Effect("h2d", 4),
        Effect("sync"),
    )
    assert trace("S D8") == (Effect("sync"), Effect("d2h", 8, waits=False))


def test_host_scalars_are_uploaded_by_where_and_need_no_indices_in_masked_writes() -> None:
    scalar = torch.tensor(0.0)

    def on_gpu(tensor: torch.Tensor) -> bool:
        return tensor is not scalar

    where = effects_of(aten.where.self, (MASK, X, scalar), {}, None, on_gpu)
    assert where == (Effect("h2d", 4),)
    put = aten.index_put_.default
    assert effects_of(put, (X, [MASK], scalar), {}, None, on_gpu) == ()
    assert effects_of(put, (X, [MASK], scalar, True), {}, None, on_gpu) == (COUNT,)
    assert effects_of(put, (X, [MASK[:, 0], MASK[0]], scalar), {}, None, on_gpu) == (COUNT, COUNT)


def test_ctc_loss_reads_targets_on_the_gpu_and_hands_targets_on_the_host_to_cudnn() -> None:
    log_probs = torch.randn(50, 4, 20).log_softmax(-1)
    targets = torch.randint(1, 20, (40,), dtype=torch.int32)
    lengths = [50] * 4, [10] * 4
    lengths_on_gpu = torch.tensor(lengths[0]), torch.tensor(lengths[1])

    def hosted(tensor: torch.Tensor) -> bool:
        return tensor is not targets

    def effects(given: Any, where: Any) -> tuple[Effect, ...]:
        func = aten._ctc_loss.Tensor if given is lengths_on_gpu else aten._ctc_loss.default
        return effects_of(func, (log_probs, targets, *given), {}, None, where)

    assert effects(lengths, everywhere) == trace("D160 S H32 S H32 S H32 S")
    assert effects(lengths_on_gpu, everywhere) == trace(
        "D160 S D32 S D32 S D160 S H32 S H32 S H32 S"
    )
    assert effects(lengths, hosted) == trace("H16 H16 H160 H16 H16")
    assert effects(lengths_on_gpu, hosted) == trace("D32 S D32 S H16 H16 H160 H16 H16")


def test_tensors_in_host_memory_cost_nothing() -> None:
    for func in (aten.nonzero.default, aten._local_scalar_dense.default, aten.bincount.default):
        assert effects_of(func, (torch.tensor([1]),), {}, None, lambda tensor: False) == ()


def test_in_place_and_out_variants_share_the_rule() -> None:
    assert has_rule(aten.masked_fill_.Tensor)
    assert has_rule(aten.index_fill.int_Tensor_out)
    assert has_rule(aten.nonzero.out)
    assert not has_rule(aten.masked_fill_.Scalar)
    assert not has_rule(aten.__and__.Tensor)
    out = torch.empty(0, dtype=torch.int64)
    assert effects_of(aten.nonzero.out, (X,), {"out": out}, out, everywhere) == (COUNT,)


def test_every_rule_names_its_source_and_an_operator_that_exists() -> None:
    for name, rule in RULES.items():
        assert rule.source
        namespace, operator = name.split("::")
        removed = name == "aten::cholesky" and not hasattr(aten, operator)  # in torch 2.14
        if namespace != "aten" or removed:
            continue
        packet = getattr(aten, operator.partition(".")[0])
        overloads = packet.overloads()
        assert "." not in operator or operator.partition(".")[2] in overloads


def test_an_operator_without_a_rule_costs_a_lookup() -> None:
    func = aten.add.Tensor
    args = (X, X)
    assert effects_of(func, args, {}, X, everywhere) == ()
    best = min(
        timeit.repeat(lambda: effects_of(func, args, {}, X, everywhere), number=10_000, repeat=5)
    )
    assert best / 10_000 < 2e-6
