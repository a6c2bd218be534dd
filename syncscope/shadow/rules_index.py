"""Rules of indexing with masks. Indices and values in host memory are the caller's business."""

from __future__ import annotations

from typing import Any

import torch

from syncscope.shadow.rules_call import Call, Effects, Rule, read

_COUNT_READ = read(4)
"""A mask on the GPU is turned into indices by `nonzero`, whose count comes to the host."""


def _is_mask(index: Any) -> bool:
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _mask_reads(call: Call) -> Effects:
    """One for each mask on the GPU among the indices."""
    masks = (index for index in call.arg(1, "indices") if _is_mask(index))
    return tuple(_COUNT_READ for mask in masks if call.on_gpu(mask))


def _index(call: Call) -> Effects:
    return () if call.subject is None else _mask_reads(call)


def _index_put(call: Call) -> Effects:
    """A host scalar through one mask needs no indices: it becomes a `masked_fill`."""
    if call.subject is None:
        return ()
    value = call.host_arg(2, "values")
    if value is not None and value.numel() == 1 and not call.arg(3, "accumulate", False):
        given = [index for index in call.arg(1, "indices") if index is not None]
        if len(given) == 1 and _is_mask(given[0]) and call.on_gpu(given[0]):
            return ()
    return _mask_reads(call)


_INDEX = "measured; TensorAdvancedIndexing.cpp expands masks with nonzero"
_PUT = "measured; TensorAdvancedIndexing.cpp, _index_put_impl_"

INDEX_RULES: dict[str, Rule] = {
    "aten::index.Tensor": Rule(_index, _INDEX),
    "aten::_unsafe_index.Tensor": Rule(_index, _INDEX),
    "aten::index_put": Rule(_index_put, _PUT),
    "aten::_unsafe_index_put": Rule(_index_put, _PUT),
    "aten::_index_put_impl_": Rule(_index_put, _PUT),
}
