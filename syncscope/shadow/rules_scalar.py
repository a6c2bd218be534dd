"""Rules of operators that read a number back: sizes, checks, scalar arguments; and of losses."""

from __future__ import annotations

from collections.abc import Callable

import torch

from syncscope.shadow.effects import Effect
from syncscope.shadow.rules_call import (
    FLAG_READ,
    Call,
    Effects,
    Rule,
    always,
    read,
    reads_scalars,
    size_bytes,
    trace,
    unless_empty,
    upload,
)


def _item(call: Call) -> Effects:
    subject = call.subject
    return () if subject is None else (read(subject.element_size()),)


def _equal(call: Call) -> Effects:
    """Compared on the device and read back, unless shapes or storages settle it."""
    left, right = call.subject, call.gpu_arg(1, "other")
    if left is None or right is None or left.shape != right.shape or not left.numel():
        return ()
    same = (
        left.data_ptr() == right.data_ptr()
        and left.stride() == right.stride()
        and left.dtype == right.dtype
        and left.is_conj() == right.is_conj()
        and left.is_neg() == right.is_neg()
    )
    return () if same else (FLAG_READ,)


def _std_tensor(position: int, name: str) -> Rule:
    """Both ends of the standard deviations are checked, unless there are none."""

    def apply(call: Call) -> Effects:
        std = call.gpu_arg(position, name)
        if std is None or not std.numel() or std.is_complex():
            return ()
        return (FLAG_READ, FLAG_READ)

    return Rule(apply, "measured; Distributions.h, CHECK_NORMAL_TENSOR_STD")


def _bincount(call: Call) -> Effects:
    """The largest value is read, and the smallest where it could be negative."""
    values = call.subject
    if values is None or not values.numel():
        return ()
    number = read(values.element_size())
    return (number,) if values.dtype == torch.uint8 else (number, number)


def _histc(call: Call) -> Effects:
    """Without a range the data's smallest and largest values are read."""
    values = call.subject
    if values is None or not values.numel():
        return ()
    if call.arg(2, "min", 0) != call.arg(3, "max", 0):
        return ()
    return (read(values.element_size()),) * 2


def _unique(call: Call) -> Effects:
    values = call.subject
    if values is None or not values.numel():
        return ()
    return (read(4 if values.dtype == torch.bool else 8),)


def _rows(base: str) -> Callable[[torch.Tensor, int, bool, bool], Effects]:
    """thrust on the rows; inverse indices and counts add their own waits."""

    def apply(values: torch.Tensor, dim: int, inverse: bool, counts: bool) -> Effects:
        if not values.dim() or not values.shape[dim]:
            return ()
        waits = f"{base} D4 S"
        if inverse:
            waits = f"3*S {waits}"
        return trace(waits + " S" if counts else waits)

    return apply


_SORTED_ROWS = _rows("S S")
_CONSECUTIVE_ROWS = _rows("S")


def _unique_rows(call: Call) -> Effects:
    """`unique_dim(self, dim, sorted, return_inverse, return_counts)`."""
    values = call.subject
    if values is None:
        return ()
    inverse, counts = call.arg(3, "return_inverse", False), call.arg(4, "return_counts", False)
    return _SORTED_ROWS(values, call.arg(1, "dim"), inverse, counts)


def _unique_consecutive_rows(call: Call) -> Effects:
    """`unique_dim_consecutive(self, dim, return_inverse, return_counts)`."""
    values = call.subject
    if values is None:
        return ()
    inverse, counts = call.arg(2, "return_inverse", False), call.arg(3, "return_counts", False)
    return _CONSECUTIVE_ROWS(values, call.arg(1, "dim"), inverse, counts)


def _unique_consecutive(call: Call) -> Effects:
    """`unique_consecutive(self, return_inverse, return_counts, dim)`."""
    values, dim = call.subject, call.arg(3, "dim")
    if values is None:
        return ()
    if dim is None:
        return (read(8),) if values.numel() else ()
    inverse, counts = call.arg(1, "return_inverse", False), call.arg(2, "return_counts", False)
    return _CONSECUTIVE_ROWS(values, dim, inverse, counts)


def _isin(call: Call) -> Effects:
    """Small test sets are compared one by one, larger ones sorted."""
    elements, tests = call.arg(0, "elements"), call.arg(1, "test_elements")
    tensors = [value for value in (elements, tests) if isinstance(value, torch.Tensor)]
    if not any(call.on_gpu(tensor) for tensor in tensors):
        return ()
    count = elements.numel() if isinstance(elements, torch.Tensor) else 1
    test_count: int = tests.numel() if isinstance(tests, torch.Tensor) else 1
    if not count or test_count < 10.0 * float(count) ** 0.145:
        return ()
    if call.arg(2, "assume_unique", False):
        return (upload(1),)
    return (read(8), read(8), upload(1))


def _repeat_interleave(call: Call) -> Effects:
    """The total and a sign check are read when the output's size is not given."""
    repeats = call.subject
    if repeats is None or not repeats.numel():
        return ()
    if call.kwargs.get("output_size") is not None:
        return ()
    return (read(8), FLAG_READ)


def _segment_reduce(call: Call) -> Effects:
    """`lengths` are checked: their smallest value and their sum."""
    if call.subject is None or call.kwargs.get("unsafe", False):
        return ()
    lengths = call.arg(2, "lengths")
    return () if lengths is None else (read(8), FLAG_READ)


def _searchsorted(call: Call) -> Effects:
    """The range of `sorter` is checked."""
    sorter, values = call.kwargs.get("sorter"), call.arg(1, "self")
    if sorter is None or not sorter.numel() or not call.on_gpu(sorter):
        return ()
    if isinstance(values, torch.Tensor) and not values.numel():
        return ()
    return (read(8), read(8))


def _mode(call: Call) -> Effects:
    """Rows longer than a block sorts are handled by thrust, one after the other."""
    values, dim = call.subject, call.arg(1, "dim", -1)
    if values is None or not values.dim():
        return ()
    length: int = values.shape[dim]
    if length <= 2048:
        return ()
    row = f"3*S D4 S S D4 S S D16 S D4 S S D16 S D8 S H{values.element_size()} H8 S"
    return trace(row) * (values.numel() // length)


def _empty_dot(call: Call) -> Effects:
    """The zero of an empty product is uploaded and nobody waits."""
    subject = call.subject
    if subject is None or subject.numel():
        return ()
    return (Effect("h2d", subject.element_size(), waits=False),)


def _empty_median(call: Call) -> Effects:
    """The NaN of an empty median is uploaded."""
    subject = call.subject
    return () if subject is None or subject.numel() else (upload(subject.element_size()),)


def _fill(call: Call) -> Effects:
    """A host tensor filled with a number that lives on the GPU."""
    value = call.gpu_arg(1, "value")
    target = call.host_arg(0, "self")
    return () if value is None or target is None else (read(value.element_size()),)


def _host_scalars(*arguments: tuple[int, str], source: str) -> Rule:
    """Zero-dimensional host tensors are moved to the GPU first."""

    def apply(call: Call) -> Effects:
        values = [call.arg(position, name) for position, name in arguments]
        scalars = [v for v in values if isinstance(v, torch.Tensor) and not v.dim()]
        return tuple(upload(t.element_size()) for t in scalars if not call.on_gpu(t))

    return Rule(apply, source)


def _host_probabilities(call: Call) -> Effects:
    """Probabilities in host memory are moved to the GPU first."""
    probabilities = call.host_arg(1, "p")
    if call.subject is None or probabilities is None:
        return ()
    return (upload(size_bytes(probabilities)),)


def _chunk_cat(call: Call) -> Effects:
    """Pointers and offsets of contiguous inputs go up from pinned memory; nobody waits."""
    tensors = call.arg(0, "tensors")
    if not all(tensor.is_contiguous() and call.on_gpu(tensor) for tensor in tensors):
        return ()
    return (Effect("h2d", 16 + 56 * len(tensors), waits=False, pinned=True),)


def _split_copy_out(call: Call) -> Effects:
    """As `_chunk_cat`: one packed upload for all splits of a contiguous input."""
    subject = call.subject
    if subject is None or not subject.is_contiguous():
        return ()
    splits = len(call.arg(1, "split_sizes"))
    return (Effect("h2d", 16 + 56 * splits, waits=False, pinned=True),)


def _ctc_loss(call: Call) -> Effects:
    """Targets are read to see whether cuDNN could do it, lengths and offsets are uploaded.

    Lengths given as GPU tensors are read as well, and the targets then a second time.
    """
    if call.subject is None:
        return ()
    log_probs, targets, lengths = call.args[0], call.args[1], call.args[2:4]
    copies: list[Effect] = []
    if call.on_gpu(targets):
        copies.append(read(size_bytes(targets)))
    if isinstance(lengths[0], torch.Tensor):
        copies.extend(read(size_bytes(length)) for length in lengths if call.on_gpu(length))
        copies.extend(copies[:1] if call.on_gpu(targets) else ())
    if call.on_gpu(targets):
        return (*copies, *_ctc_uploads(log_probs))
    if _suits_cudnn(call):
        batch = Effect("h2d", 4 * log_probs.shape[1], waits=False)
        all_targets = Effect("h2d", 4 * targets.numel(), waits=False)
        return (*copies, batch, batch, all_targets, batch, batch)
    return (*copies, upload(8 * targets.numel()), *_ctc_uploads(log_probs))


def _suits_cudnn(call: Call) -> bool:
    """Targets of all samples in one row on the host as int32, all inputs of full length."""
    log_probs, targets, lengths = call.args[:3]
    if isinstance(lengths, torch.Tensor):
        full = bool((lengths == log_probs.shape[0]).all())
    else:
        full = all(length == log_probs.shape[0] for length in lengths)
    short = targets.dim() == 1 and targets.dtype == torch.int32
    single = log_probs.dtype == torch.float32 and log_probs.dim() == 3
    return full and short and single and call.arg(4, "blank", 0) == 0


def _ctc_uploads(log_probs: torch.Tensor) -> Effects:
    """Target offsets, input lengths and target lengths, as int64."""
    batch = log_probs.shape[1] if log_probs.dim() == 3 else 1
    return (upload(8 * batch),) * 3


def _ctc_loss_backward(call: Call) -> Effects:
    """A plain backward has the lengths on the host already and uploads them again."""
    return () if call.subject is None else _ctc_uploads(call.args[1])


_LINSPACE = "measured; RangeFactories.cpp reads the tensors with item()"
_LOSS = "measured; LossCTC.cu"

SCALAR_RULES: dict[str, Rule] = {
    "aten::_local_scalar_dense": Rule(_item, "measured; CUDAScalar.cu"),
    "aten::equal": Rule(_equal, "measured; cuda/Equal.cpp"),
    "aten::allclose": always("D1 S", "measured; TensorCompare.cpp"),
    "aten::nonzero": always("D4 S", "measured; Nonzero.cu copies the count to the host"),
    "aten::masked_select": always("D4 S", "measured; an index with a mask"),
    "aten::masked_scatter_backward": always("D4 S", "measured; a masked_select"),
    "aten::_unique": Rule(_unique, "measured; Unique.cu"),
    "aten::_unique2": Rule(_unique, "measured; Unique.cu"),
    "aten::unique_dim": Rule(_unique_rows, "measured; UniqueCub.cu, thrust"),
    "aten::unique_dim_consecutive": Rule(_unique_consecutive_rows, "measured; Unique.cu"),
    "aten::unique_consecutive": Rule(_unique_consecutive, "measured; Unique.cu"),
    "aten::isin": Rule(_isin, "measured; TensorCompare.cpp, isin_sorting"),
    "aten::bincount": Rule(_bincount, "measured; SummaryOps.cu"),
    "aten::histc": Rule(_histc, "measured; SummaryOps.cu"),
    "aten::repeat_interleave.Tensor": Rule(_repeat_interleave, "measured; Repeat.cpp"),
    "aten::segment_reduce": Rule(_segment_reduce, "measured; SegmentReduce.cpp"),
    "aten::searchsorted": Rule(_searchsorted, "measured; BucketizationUtils.h"),
    "aten::mode": Rule(_mode, "measured; TensorModeKernel.cu"),
    "aten::dot": Rule(_empty_dot, "measured; cuda/Blas.cpp"),
    "aten::vdot": Rule(_empty_dot, "measured; cuda/Blas.cpp"),
    "aten::median": Rule(_empty_median, "measured; cuda/Sorting.cpp"),
    "aten::median.dim": Rule(lambda call: (), "measured: never"),
    "aten::nanmedian": Rule(_empty_median, "cuda/Sorting.cpp"),
    "aten::nanmedian.dim": Rule(lambda call: (), "measured: never"),
    "aten::normal.Tensor_Tensor": _std_tensor(1, "std"),
    "aten::normal.float_Tensor": _std_tensor(1, "std"),
    "aten::linspace.Tensor_Tensor": reads_scalars((1, "end"), (0, "start"), source=_LINSPACE),
    "aten::linspace.Tensor_Scalar": reads_scalars((0, "start"), source=_LINSPACE),
    "aten::linspace.Scalar_Tensor": reads_scalars((1, "end"), source=_LINSPACE),
    "aten::logspace.Tensor_Tensor": reads_scalars((1, "end"), (0, "start"), source=_LINSPACE),
    "aten::logspace.Tensor_Scalar": reads_scalars((0, "start"), source=_LINSPACE),
    "aten::logspace.Scalar_Tensor": reads_scalars((1, "end"), source=_LINSPACE),
    "aten::masked_fill.Tensor": reads_scalars(
        (2, "value"), source="measured; IndexKernel.cu, masked_fill"
    ),
    "aten::index_fill.int_Tensor": reads_scalars(
        (3, "value"), source="measured; TensorAdvancedIndexing.cpp, index_fill"
    ),
    "aten::fill.Tensor": Rule(_fill, "Fill.cpp"),
    "aten::where.self": _host_scalars(
        (0, "condition"), (1, "self"), (2, "other"), source="measured; TensorCompare.cpp, where"
    ),
    "aten::bernoulli.Tensor": Rule(_host_probabilities, "measured; DistributionTemplates.h"),
    "aten::_chunk_cat": Rule(_chunk_cat, "measured; cuda/TensorShape.cu"),
    "aten::split_with_sizes_copy.out": Rule(_split_copy_out, "cuda/TensorShape.cu"),
    "aten::_ctc_loss": Rule(_ctc_loss, _LOSS),
    "aten::_ctc_loss_backward": Rule(_ctc_loss_backward, _LOSS),
    "aten::fake_quantize_per_channel_affine_cachemask": Rule(
        lambda call: (
            ()
            if (zero_point := call.gpu_arg(2, "zero_point")) is None
            else (read(zero_point.element_size()),) * 2
        ),
        "measured; FakeQuantPerChannelAffine.cpp checks the zero points' range",
    ),
    "aten::quantize_per_tensor.tensor_qparams": reads_scalars(
        (1, "scale"), (2, "zero_point"), source="quantized/QTensor.cpp"
    ),
    "aten::_fake_quantize_learnable_per_tensor_affine": reads_scalars(
        (1, "scale"), (2, "zero_point"), source="FakeQuantPerTensorAffine.cpp"
    ),
    "torchvision::nms": unless_empty("D4 S", "measured; nms_kernel.cu of torchvision"),
}
