"""Which cause an operator's hidden wait has, by the operator's name and tags."""

from __future__ import annotations

from typing import Any

import torch

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


def cause_of(func: Any) -> str:
    """Cause of a wait inside an operator's overload; "" where only the program's line tells it.

    PyTorch tags the operators whose result has a size that depends on data.
    """
    name = func._schema.name
    known = _BY_NAME.get(name)
    if known is not None:
        return known
    if "linalg" in name or "cholesky" in name or name.endswith(("lu_solve", "inverse", "svd")):
        return "linalg_info"
    return "data_dependent_size" if torch.Tag.dynamic_output_shape in func.tags else ""
