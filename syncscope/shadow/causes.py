"""Which cause an operator's hidden wait has, by the operator's name."""

from __future__ import annotations

_BY_NAME = {
    "aten::_local_scalar_dense": "scalar_readback",
    "aten::equal": "scalar_readback",
    "aten::is_nonzero": "scalar_readback",
    "aten::allclose": "scalar_readback",
    "aten::masked_select": "mask_read",
    "aten::index": "mask_read",
    "aten::_unsafe_index": "mask_read",
    "aten::index_put": "mask_read",
    "aten::index_put_": "mask_read",
    "aten::_index_put_impl_": "mask_read",
}


def cause_of(name: str) -> str:
    """Cause of a wait inside an operator, given as "aten::nonzero" (no overload)."""
    known = _BY_NAME.get(name)
    if known is not None:
        return known
    if "linalg" in name or "cholesky" in name or name.endswith(("lu_solve", "inverse", "svd")):
        return "linalg_info"
    return "data_dependent_size"
