"""Rules about values that the host reads from the device, and sizes that depend on them."""

from __future__ import annotations

import ast

from syncscope.analysis.advice.rule import Rule, always, repeats
from syncscope.analysis.bindings import loops_of
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.branches import decided_on_device
from syncscope.analysis.rewrites.calls import output_sized
from syncscope.analysis.rewrites.events import copied_in_loop
from syncscope.analysis.rewrites.loops import iterated_on_host, read_after_loop
from syncscope.analysis.rewrites.masks import masked_on_device
from syncscope.analysis.syntax import last_name, words

_SIZE_OPS = words(
    "nonzero argwhere one_hot repeat_interleave unique unique_consecutive bincount histc "
    "unique_dim sparse_coo_tensor coalesce _coalesce to_sparse to_sparse_coo to_sparse_csr "
    "to_sparse_csc to_sparse_bsr to_sparse_bsc to_dense combinations cartesian_prod _unique2 "
    "to_padded_tensor nested_tensor masked_scatter"
)
_SHAPED = words("zeros ones empty rand randn arange new_zeros new_ones new_empty")
_FILLED = words("full new_full")
_LITERAL = ast.Constant | ast.Tuple | ast.List | ast.expr_context
_MASKING = frozenset({"masked_select", "index_put_", "index"})
_READING = words(
    "item float int bool tolist complex is_nonzero equal allclose _local_scalar_dense __bool__ "
    "__int__ __float__ __index__ __contains__ _assert"
)


def sizes_depend_on_data(finding: Finding) -> bool:
    """Whether the line makes something whose size only the device knows."""
    if not finding.is_readback:
        return False
    call = finding.expression.call
    name = last_name(call.func) if call is not None else ""
    if call is not None and name == "where":
        return len(call.args) == 1 and not call.keywords
    if call is not None and name in _FILLED and call.args:  # else it is the value that is read
        return not all(isinstance(node, _LITERAL) for node in ast.walk(call.args[0]))
    sized = call is not None and name in _SHAPED and bool(call.args)
    return sized or bool({finding.op, finding.expression.called} & _SIZE_OPS)


_SIZE_TEXTS = {
    "repeat_interleave": "Pass output_size=, the sum of the repeats, if the host knows it.",
    "one_hot": "Pass num_classes=: it then looks at nothing.",
    "bincount": "Fill zeros of the known length: counts.scatter_add_(0, x, torch.ones_like(x)).",
    "histc": "Give min= and max=.",
    "unique": "Sort and compare neighbours, or find the values on the host where the data is made.",
    "unique_consecutive": "Compare neighbours and keep the mask.",
    "sparse_coo_tensor": "Pass size=, and leave check_invariants off in the loop.",
    "coalesce": "Scatter into a dense tensor, or pass is_coalesced=True when you know it is.",
    **dict.fromkeys(
        words("to_sparse to_sparse_coo to_sparse_csr to_sparse_csc to_sparse_bsr to_sparse_bsc"),
        "Keep the dense tensor and a mask.",
    ),
    "nonzero": "Keep the mask and compute with it, or use torch.nonzero_static(x, size=n); for one "
    "position use x.int().argmax(); for the number of them x.count_nonzero().",
    "where": "Use the where of three arguments, keep the mask, or use torch.nonzero_static().",
    "argwhere": "Keep the mask, or use torch.nonzero_static(x, size=n).",
    "combinations": "Make the index pairs once, before the loop.",
}


def _size_text(finding: Finding) -> str:
    advice = _SIZE_TEXTS.get(
        finding.called, "Carry the size on the host, from where the data is made."
    )
    return f"How large the result is depends on values of the device, and the host waits. {advice}"


def _is_index_readback(finding: Finding) -> bool:
    """An index or a bound that lives on the device, used by the host."""
    node = finding.expression.node
    if not isinstance(node, ast.Subscript) or not finding.is_readback:
        return False
    slices = any(isinstance(part, ast.Slice) for part in ast.walk(node.slice))
    return (slices or finding.each_bytes == 8) and finding.group.kind != "transfer"


def _is_mask_read(finding: Finding) -> bool:
    if finding.group.kind == "transfer":
        return False
    subscript = isinstance(finding.expression.node, ast.Subscript | ast.AugAssign)
    return subscript or bool({finding.op, finding.expression.called} & _MASKING)


def _is_scalar_readback(finding: Finding) -> bool:
    if not finding.is_readback or finding.group.kind == "transfer":
        return False
    small = finding.group.direction == "d2h"
    compares = isinstance(finding.expression.node, ast.Compare | ast.BoolOp | ast.UnaryOp)
    reads = bool({finding.op, finding.expression.called} & _READING)
    return small or reads or compares or finding.is_test


def _is_assert(finding: Finding) -> bool:
    asserts = isinstance(finding.expression.statement, ast.Assert) or "_assert" in finding.names
    return asserts and _is_scalar_readback(finding)


def _is_loop_test(finding: Finding) -> bool:
    statement = finding.expression.statement
    if not finding.is_test or not _is_scalar_readback(finding):
        return False
    return isinstance(statement, ast.While) or (
        isinstance(statement, ast.If)
        and any(isinstance(node, ast.Break | ast.Return) for node in statement.body)
        and bool(loops_of(finding.expression.source, statement))
    )


def _is_check(finding: Finding) -> bool:
    statement = finding.expression.statement
    raises = isinstance(statement, ast.If) and any(
        isinstance(node, ast.Raise) for node in statement.body
    )
    return raises and finding.is_test and _is_scalar_readback(finding)


def _is_branch(finding: Finding) -> bool:
    return finding.is_test and _is_scalar_readback(finding)


def _is_loop_number(finding: Finding) -> bool:
    """`int(n)` or `x[:n]` where n comes from iterating over a tensor."""
    return _is_scalar_readback(finding) and bool(iterated_on_host(finding))


def _reads_list(finding: Finding) -> bool:
    return "tolist" in {finding.op, finding.expression.called} and finding.is_readback


def _list_text(finding: Finding) -> str:
    if not repeats(finding):
        return "One wait for all values, once: nothing to gain unless it stands in a loop."
    return (
        "The host waits for the values, each time. One wait brings as many values as you stack: "
        "collect tensors of several steps, and read them with one .tolist()."
    )


def _scalar_text(finding: Finding) -> str:
    if not repeats(finding):
        return (
            "The host waits for one value, once in this run. That is what it costs to know it: "
            "change it only if this line is inside a loop of yours."
        )
    return (
        "The host waits for one value, each time. Add up on the device (`total += x.detach()`) or "
        "collect the detached tensors in a list, and read every N steps or after the loop: several "
        "values with one torch.stack(values).tolist()."
    )


def _is_host_buffer(finding: Finding) -> bool:
    """A device value stored into a tensor on the CPU."""
    stored = isinstance(finding.expression.node, ast.Subscript) and finding.expression.is_store
    return finding.group.direction == "d2h" and finding.group.kind == "transfer" and stored


def _is_tensor_readback(finding: Finding) -> bool:
    to_host = finding.called in {"cpu", "numpy", "tolist"}
    return finding.group.direction == "d2h" or (finding.is_readback and to_host)


def _tensor_text(finding: Finding) -> str:
    if not repeats(finding):
        return (
            "The host waits for a copy, once in this run. Change it only if this line is inside a "
            "loop of yours, or leave the data on the device if nothing on the host needs it."
        )
    return (
        "The host waits for a copy. Leave the data on the device if nothing on the host needs it "
        "now (compare, count and sum there), or copy several results at once. If it may come "
        "later: copy with non_blocking=True (into pinned memory), record an event, and read only "
        "after the event's synchronize()."
    )


_BRANCH_TEXT = (
    "To choose a branch the host waits for the value. Compute both ways and choose on the device: "
    "torch.where, clamp, a masked update. Or decide one step late: copy the flag with "
    "non_blocking=True, record an event, and read the copy one step later, once the event's "
    "synchronize() has returned."
)

RULES = (
    Rule(
        "data_dependent_size",
        sizes_depend_on_data,
        "Give the size, or keep it fixed",
        _size_text,
        output_sized,
    ),
    Rule(
        "scalar_readback",
        _is_loop_number,
        "Read all numbers at once, before the loop",
        always(
            "Iterating over a tensor of the device gives tensors, and each one that the host uses "
            "as a number is a wait. One .tolist() reads them all; better still, keep lengths on "
            "the host from where the data is made."
        ),
        iterated_on_host,
    ),
    Rule(
        "scalar_readback",
        _is_index_readback,
        "Keep indices and bounds on the side that uses them",
        always(
            "An index or a bound lives on the device and the host reads it, one wait each. Carry "
            "lengths and positions on the host, read them all with one .tolist() before the loop, "
            "or, if the table is on the CPU, make it on the device and index it there."
        ),
    ),
    Rule(
        "mask_read",
        _is_mask_read,
        "Keep the shape and mask the values",
        always(
            "A boolean mask selects an unknown number of elements, and the host waits for the "
            "count; the backward pass waits again. Keep the shape: torch.where(mask, new, old), "
            "masked_fill, a product with the mask (weights in a loss), or topk with a fixed k."
        ),
        masked_on_device,
    ),
    Rule(
        "scalar_readback",
        _is_assert,
        "Check on the device",
        always(
            "The check needs the value on the host now. torch._assert_async checks on the device: "
            "the host goes on, and a failure shows at a later wait, as an error of CUDA. Shapes "
            "and dtypes are known on the host: checking those is free."
        ),
        decided_on_device,
    ),
    Rule(
        "scalar_readback",
        _is_check,
        "Check every N steps",
        always(
            "To know whether to raise, the host waits for the value. Keep a flag on the device "
            "(`bad |= ...`) and look at it every N steps, or use torch._assert_async, which checks "
            "on the device and fails at a later wait."
        ),
    ),
    Rule(
        "scalar_readback",
        _is_loop_test,
        "Ask every few rounds whether to stop",
        always(
            "To know whether to go on, the host waits in every round. Ask every N rounds, or one "
            "round late: copy the flag with non_blocking=True, record an event, and read the copy "
            "one round later, once the event's synchronize() has returned. Rounds beyond the end "
            "must change nothing: keep a mask of what has ended."
        ),
    ),
    Rule(
        "scalar_readback",
        _is_branch,
        "Decide on the device",
        always(_BRANCH_TEXT),
        decided_on_device,
    ),
    Rule(
        "scalar_readback",
        lambda finding: _reads_list(finding) and _is_scalar_readback(finding),
        "Read values back together, and rarely",
        _list_text,
    ),
    Rule(
        "scalar_readback",
        _is_scalar_readback,
        "Read values back together, and rarely",
        _scalar_text,
        read_after_loop,
    ),
    Rule(
        "tensor_readback",
        _is_host_buffer,
        "Make the buffer on the device",
        always(
            "A value of the device is stored into a tensor on the CPU: the host waits for the "
            "copy, and if the tensor is used on the device it goes back. Make the buffer there: "
            "pass device= to the function that makes it."
        ),
    ),
    Rule(
        "tensor_readback",
        _is_tensor_readback,
        "Copy to the host less, or later",
        _tensor_text,
        copied_in_loop,
    ),
    Rule(
        "generic",
        lambda finding: True,
        "The host waits for the device here",
        always(
            "The host stops until the device has caught up. See whether the value is needed on the "
            "host at all, at this point, and in every step."
        ),
    ),
)
