"""Which cause the shadow GPU tells of an operator's wait, and where it leaves that to the line."""

from __future__ import annotations

import pytest
import torch

from syncscope.shadow.causes import cause_of


@pytest.mark.parametrize(
    ("overload", "cause"),
    [
        ("nonzero.default", "data_dependent_size"),
        ("_unique2.default", "data_dependent_size"),
        ("bincount.default", "data_dependent_size"),
        ("repeat_interleave.Tensor", "data_dependent_size"),
        ("_local_scalar_dense.default", "scalar_readback"),
        ("index.Tensor", "mask_read"),
        ("_linalg_svd.default", "linalg_info"),
        ("masked_fill_.Tensor", ""),
        ("where.self", ""),
        ("fill_.Tensor", ""),
    ],
)
def test_a_size_is_told_of_only_where_pytorch_says_that_it_depends_on_data(
    overload: str, cause: str
) -> None:
    packet, name = overload.split(".")
    assert cause_of(getattr(getattr(torch.ops.aten, packet), name)) == cause
