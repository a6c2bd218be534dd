"""Rules of sparse and nested tensors: thrust and cuSPARSE wait, sizes are read back."""

from __future__ import annotations

import torch

from syncscope.shadow.effects import Effect
from syncscope.shadow.rules_call import (
    SYNC,
    Call,
    Effects,
    Rule,
    always,
    read,
    size_bytes,
    trace,
    upload,
)

_COALESCE = trace("4*S D4 S")
"""thrust sorts and counts the indices of two or more entries."""

_SPGEMM = trace("D4 D16 D4 D4 D4 D4")
"""cuSPARSE's sizes of a sparse product: small copies that nobody waits for by name."""


def _coalesced(tensor: torch.Tensor) -> Effects:
    """What it takes to coalesce a COO tensor."""
    if tensor.layout != torch.sparse_coo or tensor.is_coalesced() or tensor._nnz() < 2:
        return ()
    return _COALESCE


def _coalesce(call: Call) -> Effects:
    """Of the inputs that are not coalesced yet."""
    found = [arg for arg in call.args if isinstance(arg, torch.Tensor) and call.on_gpu(arg)]
    return tuple(effect for tensor in found for effect in _coalesced(tensor))


def _mm(call: Call) -> Effects:
    """Products of two sparse matrices; the second is converted to CSR when it is CSC."""
    left, right = call.args[:2]
    if torch.strided in (left.layout, right.layout) or not call.on_gpu(left):
        return ()
    if left.layout == torch.sparse_coo:
        return (*_coalesced(left), *_coalesced(right), *_SPGEMM, SYNC, SYNC)
    converted = trace("H8 S") if right.layout == torch.sparse_csc else ()
    return (*converted, *_SPGEMM)


def _sparse_sum(call: Call) -> Effects:
    """The shrunken indices are coalesced, unless no sparse dimension is left or summed."""
    tensor = call.subject
    if tensor is None or tensor.layout != torch.sparse_coo or tensor._nnz() < 2:
        return ()
    summed = {dim % tensor.dim() for dim in call.arg(1, "dim")}
    sparse = set(range(tensor.sparse_dim()))
    return _COALESCE if summed & sparse and sparse - summed else ()


def _sparse_softmax(call: Call) -> Effects:
    """Entries are pooled by thrust along a sparse dimension."""
    tensor = call.subject
    if tensor is None or tensor.layout != torch.sparse_coo or not tensor._nnz():
        return ()
    if call.arg(1, "dim") % tensor.dim() >= tensor.sparse_dim():
        return _coalesced(tensor)
    return (*_coalesced(tensor), *trace(f"H{8 * tensor.sparse_dim()} 4*S D4 3*S"))


def _to_sparse(call: Call) -> Effects:
    """`nonzero`; fewer sparse dimensions than there are also need unique rows."""
    tensor = call.subject
    if tensor is None or tensor.layout != torch.strided:
        return ()
    sparse_dim = call.arg(1, "sparse_dim", None)
    if not isinstance(sparse_dim, int) or sparse_dim == tensor.dim():
        return (read(4),)
    if isinstance(call.result, torch.Tensor) and not call.result._nnz():
        return (read(4),)
    return trace("D4 3*S D4 S")


def _to_sparse_compressed(call: Call) -> Effects:
    """Dense: two `nonzero`. COO: sorted by thrust as needed. CSR to CSC and back: cuSPARSE."""
    tensor = call.subject
    if tensor is None:
        return ()
    if tensor.layout == torch.strided:
        return (read(4), read(4))
    result = call.result
    if tensor.layout == torch.sparse_coo:
        by_column = isinstance(result, torch.Tensor) and result.layout == torch.sparse_csc
        return _COALESCE if by_column and tensor._nnz() > 1 else _coalesced(tensor)
    same = isinstance(result, torch.Tensor) and result.layout == tensor.layout
    return () if same else (upload(8),)


def _to_blocks(call: Call) -> Effects:
    """Blocks of a sparse matrix are gathered on the host."""
    tensor, result = call.subject, call.result
    if tensor is None or tensor.layout == torch.strided:
        return _to_sparse_compressed(call)
    if not isinstance(result, torch.Tensor) or result.layout == tensor.layout:
        return ()
    number = tensor.element_size()
    entries, rows = tensor._nnz(), tensor.shape[-2] + 1
    indices = result.crow_indices() if result.layout == torch.sparse_bsr else result.ccol_indices()
    columns = result.col_indices() if result.layout == torch.sparse_bsr else result.row_indices()
    return (
        *_coalesced(tensor),
        read(entries * number),
        read(8 * rows),
        read(8 * entries),
        upload(size_bytes(result.values())),
        upload(size_bytes(indices)),
        upload(size_bytes(columns)),
    )


def _compressed_without_size(call: Call) -> Effects:
    """The largest plain index gives the missing size."""
    return () if call.subject is None else (read(8),)


def _select(call: Call) -> Effects:
    """Selecting along a sparse dimension searches the indices, twice."""
    tensor = call.args[0]
    if tensor.layout != torch.sparse_coo or not call.on_gpu(tensor):
        return ()
    return (read(4), read(4)) if call.arg(1, "dim") % tensor.dim() < tensor.sparse_dim() else ()


def _index_select(call: Call) -> Effects:
    """The number of entries found is read."""
    tensor = call.args[0]
    if tensor.layout != torch.sparse_coo or not call.on_gpu(tensor):
        return ()
    return (read(8),) if call.arg(1, "dim") % tensor.dim() < tensor.sparse_dim() else ()


def _nested_from_mask(call: Call) -> Effects:
    """The row lengths come to the host and the sizes go up."""
    mask = call.gpu_arg(1, "mask")
    if mask is None:
        return ()
    rows = mask.shape[0]
    return (read(16 * rows), Effect("h2d", 40 * rows, waits=False))


def _rows_of_nested(call: Call) -> int:
    """How many tensors a strided nested tensor holds; 0 for any other tensor."""
    tensor = call.subject
    if tensor is None or not tensor.is_nested or tensor.layout != torch.strided:
        return 0
    rows: int = tensor.size(0)
    return rows


def _to_padded(call: Call) -> Effects:
    """Offsets and sizes are uploaded for the kernel."""
    rows = _rows_of_nested(call)
    return (upload(4 * (3 * rows + 1)),) if rows else ()


def _encoder_layer(call: Call) -> Effects:
    """Offsets and sizes for attention, nobody waits: to pad, and to take the padding off."""
    rows = _rows_of_nested(call)
    sizes = (4 * (2 * rows + 1), 8 * rows, 8 * (5 * rows + 1)) if rows else ()
    return tuple(Effect("h2d", size, waits=False) for size in sizes)


_NESTED = "measured; NestedTensorTransformerFunctions.cu"
_DENSE_TO_SPARSE = "measured; TensorConversions.cpp"

SPARSE_RULES: dict[str, Rule] = {
    "aten::_coalesce": Rule(_coalesce, "measured; SparseCUDATensor.cu, thrust"),
    "aten::_sparse_addmm": Rule(_coalesce, "measured; SparseCUDATensorMath.cu"),
    "aten::_sparse_sparse_matmul": Rule(_mm, "measured; SparseMatMul.cu"),
    "aten::mm": Rule(_mm, "measured; SparseBlasImpl.cpp, spgemm"),
    "aten::hspmm": always("S", "measured; SparseCUDATensorMath.cu, thrust"),
    "aten::_sparse_sum.dim": Rule(_sparse_sum, "measured; SparseTensorMath.cpp"),
    "aten::_sparse_sum_backward": always("4*S D4 2*S", "measured; SparseCUDATensorMath.cu"),
    "aten::_sparse_softmax": Rule(_sparse_softmax, "measured; sparse/cuda/SoftMax.cu"),
    "aten::_sparse_log_softmax": Rule(_sparse_softmax, "measured; sparse/cuda/SoftMax.cu"),
    "aten::_to_sparse": Rule(_to_sparse, _DENSE_TO_SPARSE),
    "aten::_to_sparse_csr": Rule(_to_sparse_compressed, _DENSE_TO_SPARSE),
    "aten::_to_sparse_csc": Rule(_to_sparse_compressed, _DENSE_TO_SPARSE),
    "aten::_to_sparse_bsr": Rule(_to_blocks, _DENSE_TO_SPARSE),
    "aten::_to_sparse_bsc": Rule(_to_blocks, _DENSE_TO_SPARSE),
    "aten::sparse_compressed_tensor.comp_plain_value": Rule(
        _compressed_without_size, "measured; SparseCsrTensor.cpp"
    ),
    "aten::select.int": Rule(_select, "measured; a sparse select is an index_select"),
    "aten::index_select": Rule(_index_select, "measured; sparse index_select counts its entries"),
    "aten::_nested_tensor_from_mask": Rule(_nested_from_mask, "measured; NestedTensorMath.cpp"),
    "aten::_nested_tensor_from_mask_left_aligned": always("D1 S", "measured"),
    "aten::to_padded_tensor": Rule(_to_padded, _NESTED),
    "aten::_transformer_encoder_layer_fwd": Rule(_encoder_layer, _NESTED),
}
