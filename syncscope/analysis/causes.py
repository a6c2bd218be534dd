"""Why a line waits or copies, and what to write instead: a list of rules.

A rule looks at a finding and says whether it is the cause; the first that does, counts.
Hooks that know the cause (the shadow GPU's) name it, and the rule is not asked. On a real
GPU the op is often unknown: then the syntax tree of the expression is the evidence.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from syncscope.analysis import rewrites
from syncscope.analysis.findings import FACTORIES, Finding
from syncscope.analysis.syntax import last_name, words
from syncscope.records import Advice


@dataclass(frozen=True, slots=True)
class Rule:
    """A cause: how to recognise it, and the advice for a finding that has it."""

    cause: str
    applies: Callable[[Finding], bool]
    title: str
    text: Callable[[Finding], str]
    rewrite: Callable[[Finding], str] = rewrites.none


def diagnose(finding: Finding) -> tuple[str, Advice]:
    """The cause of a finding, and the advice for it.

    A hook knows the operator but not who called it: rules about the surroundings go first.
    """
    told = _told_cause(finding)
    for rule in RULES:
        asked = not told or rule.cause in _SURROUNDINGS
        if rule is _BY_CAUSE.get(told) or ((asked or rule.cause == told) and rule.applies(finding)):
            break
    return rule.cause, Advice(rule.title, rule.text(finding), rule.rewrite(finding))


def _told_cause(finding: Finding) -> str:
    """The cause that a hook named, where the line does not say more; "" if there is none."""
    told = finding.group.hook_cause
    if told == "scalar_readback" and _sizes_depend_on_data(finding):
        return "data_dependent_size"
    if told == "created_on_host" and not _may_be_made_on_device(finding):
        return ""
    return told if told in CAUSES and told != "explicit_wait" else ""


def _may_be_made_on_device(finding: Finding) -> bool:
    origin, place = finding.group.origin, finding.group.place.frame
    if finding.group.memory == "pinned" or "pin_memory" in origin.frame.expression:
        return False
    if not origin.known:
        return True
    # What another function made may be data, kept on the host on purpose and moved in batches.
    here = (origin.frame.file, origin.frame.function) == (place.file, place.function)
    return origin.owner == "user" and here


def _always(text: str) -> Callable[[Finding], str]:
    return lambda finding: text


_LINALG = words(
    "cholesky cholesky_inverse inv inverse solve solve_ex lu_factor lu_solve ldl_factor slogdet "
    "logdet det eig eigh eigvals eigvalsh svd svdvals lstsq matrix_rank pinv matrix_power "
    "tensorinv tensorsolve linalg_cholesky linalg_inv linalg_solve linalg_eigh linalg_eig "
    "linalg_svd linalg_lu_factor linalg_ldl_factor linalg_lstsq"
)
_SIZE_OPS = words(
    "nonzero argwhere one_hot repeat_interleave unique unique_consecutive bincount histc "
    "sparse_coo_tensor coalesce to_sparse to_dense combinations cartesian_prod _unique2 "
    "to_padded_tensor nested_tensor masked_scatter"
)
_UPLOADING = words("tensor as_tensor asarray scalar_tensor new_tensor")
_MOVING = words("to cuda copy_ _to_copy")
_READING = words(
    "item float int bool tolist complex is_nonzero equal allclose _local_scalar_dense __bool__ "
    "__int__ __float__ __index__ __contains__ _assert"
)


def _is_asynchronous(finding: Finding) -> bool:
    group = finding.group
    return group.kind == "transfer" and group.memory == "pinned" and not group.blocking


def _is_object_collective(finding: Finding) -> bool:
    return any(name.endswith(("_object", "_object_list")) for name in finding.names)


def _is_capture(finding: Finding) -> bool:
    named = finding.expression.dotted.endswith(("cuda.graph", "make_graphed_callables"))
    return finding.is_inside("torch/cuda/graphs.py") or named


def _is_distribution(finding: Finding) -> bool:
    return finding.is_inside("torch/distributions/") or (
        finding.expression.dotted.startswith(("torch.distributions.", "distributions."))
    )


def _is_print(finding: Finding) -> bool:
    if finding.is_inside("torch/_tensor_str.py") or "print" in finding.called.split("_"):
        return True
    if finding.names & {"__format__", "__repr__", "__str__", "str", "repr", "format"}:
        return True
    nodes = (finding.expression.node, *finding.expression.around)
    reads = finding.expression.called in {"item", "tolist", "float", "int"}
    return not reads and any(isinstance(node, ast.JoinedStr) for node in nodes)


def _is_linalg(finding: Finding) -> bool:
    if not finding.is_readback or finding.called.endswith("_ex"):
        return False
    return finding.called in _LINALG or ".linalg." in f".{finding.expression.dotted}"


def _is_in_library(finding: Finding) -> bool:
    return finding.owner != "user" and finding.place.frame.owner == "user"


def _is_literal_upload(finding: Finding) -> bool:
    if finding.group.direction == "d2h":
        return False
    call, factory = finding.expression.call, finding.factory
    made = factory if factory and last_name(factory.func) in _UPLOADING else call
    return made is not None and last_name(made.func) in _UPLOADING


def _is_made_on_host(finding: Finding) -> bool:
    moves = finding.called in _MOVING and finding.group.direction != "d2h"
    moves = moves and _may_be_made_on_device(finding)
    return moves and (finding.factory is not None or _factory_of_origin(finding) is not None)


def _factory_of_origin(finding: Finding) -> str | None:
    """Where the program made the host tensor that the line moves, if that is known."""
    frame = finding.group.origin.frame
    called = frame.expression.partition("(")[0].rpartition(".")[2]
    made = finding.group.origin.known and called in FACTORIES and frame.owner == "user"
    return f"{frame.file}:{frame.line}" if made else None


def _is_scalar_assignment(finding: Finding) -> bool:
    subscript = isinstance(finding.expression.node, ast.Subscript)
    stores = subscript and finding.expression.is_store
    return stores and finding.is_upload and finding.each_bytes <= 16


def _is_host_index(finding: Finding) -> bool:
    return isinstance(finding.expression.node, ast.Subscript) and finding.is_upload


def _lacks_non_blocking(finding: Finding) -> bool:
    pinned = finding.group.memory == "pinned" and finding.is_upload
    return pinned and finding.group.blocking and not finding.group.non_blocking


def _is_pageable(finding: Finding) -> bool:
    if finding.is_upload:
        return finding.group.memory == "pageable" or finding.called in _MOVING
    return not finding.group.direction and finding.called == "cuda"


def _is_index_readback(finding: Finding) -> bool:
    """An index or a bound that lives on the device, used by the host."""
    node = finding.expression.node
    if not isinstance(node, ast.Subscript) or not finding.is_readback:
        return False
    slices = any(isinstance(part, ast.Slice) for part in ast.walk(node.slice))
    return slices or finding.each_bytes == 8


def _is_mask_read(finding: Finding) -> bool:
    if finding.group.kind == "transfer":
        return False
    subscript = isinstance(finding.expression.node, ast.Subscript | ast.AugAssign)
    return subscript or bool({finding.op, finding.expression.called} & _MASKING)


_MASKING = frozenset({"masked_select", "index_put_", "index"})


def _sizes_depend_on_data(finding: Finding) -> bool:
    if not finding.is_readback:
        return False
    call = finding.expression.call
    if call is not None and last_name(call.func) == "where":
        return len(call.args) == 1 and not call.keywords
    sized = call is not None and last_name(call.func) in _SHAPED and bool(call.args)
    return sized or bool({finding.op, finding.expression.called} & _SIZE_OPS)


_SHAPED = words("zeros ones empty full rand randn arange new_zeros new_ones new_empty")


def _is_scalar_readback(finding: Finding) -> bool:
    if not finding.is_readback or finding.group.kind == "transfer":
        return False
    small = finding.group.direction == "d2h"
    compares = isinstance(finding.expression.node, ast.Compare | ast.BoolOp | ast.UnaryOp)
    reads = bool({finding.op, finding.expression.called} & _READING)
    return small or reads or compares or finding.is_test


def _is_tensor_readback(finding: Finding) -> bool:
    to_host = finding.called in {"cpu", "numpy", "tolist"}
    return finding.group.direction == "d2h" or (finding.is_readback and to_host)


_FEW_BYTES = 1024

_LIBRARY_ADVICE: tuple[tuple[str, str], ...] = (
    (
        "torch/autograd/",
        "An operation waits while gradients are computed, on a thread of autograd. Look for masks "
        "and other data-dependent sizes in the forward pass that leads here.",
    ),
    (
        "torch/nn/utils/clip_grad.py",
        "clip_grad_norm_ reads the norm because of error_if_nonfinite=True. Leave that off, or "
        "turn it on only every N steps.",
    ),
    (
        "torch/optim/",
        "The optimizer reads its state, one value per parameter. Keep state['step'] on the CPU "
        "when restoring (load_state_dict does), or build the optimizer with fused=True or "
        "capturable=True.",
    ),
    (
        "torch/amp/grad_scaler.py",
        "GradScaler reads found_inf or the scale. A fused optimizer keeps found_inf on the "
        "device; count optimizer steps instead of comparing get_scale() before and after.",
    ),
    (
        "torch/nn/modules/transformer.py",
        "The encoder compares the mask with a causal one to see which it is. Pass is_causal=True "
        "or is_causal=False.",
    ),
    (
        "torch/nn/modules/activation.py",
        "The layer inspects its mask. Pass is_causal and need_weights explicitly.",
    ),
    (
        "torch/nn/utils/rnn.py",
        "The lengths have to be on the host, and the sort order goes back to the device. Sort "
        "the batch and keep its lengths on the CPU in the collate function, and leave "
        "enforce_sorted at True.",
    ),
    (
        "torch/distributed/",
        "The collective exchanges sizes through the host. Use one that takes tensors of a known "
        "size.",
    ),
)


def _asynchronous_text(finding: Finding) -> str:
    if finding.is_upload:
        return "Pinned memory, and nobody waits. Do not refill the source before the copy is done."
    return (
        "Pinned memory, and nobody waits. Record an event after the copy, and read the result only "
        "after the event's synchronize()."
    )


def _library_text(finding: Finding) -> str:
    files = [frame.file for frame in finding.place.inner]
    for start, text in _LIBRARY_ADVICE:
        if any(file.startswith(start) for file in files):
            return text
    where = f"{finding.culprit.file}:{finding.culprit.line}"
    whose = "PyTorch" if finding.owner == "torch" else "a library"
    return (
        f"The wait is inside {whose}, at {where}, in {finding.culprit.function}. Look for an "
        "argument that gives it the value it reads, or call it less often."
    )


def _made_on_host_text(finding: Finding) -> str:
    origin = _factory_of_origin(finding)
    made = f"at {origin} " if origin and not finding.factory else ""
    text = (
        f"The tensor is made on the CPU {made}and copied from pageable memory. Make it on the "
        "device: pass device= to the function that makes it."
    )
    factory = finding.factory
    if factory is not None and last_name(factory.func).startswith("rand"):
        text += " The numbers then come from the GPU's generator."
    return text


def _pageable_text(finding: Finding) -> str:
    if finding.group.blocking and finding.each_bytes <= _FEW_BYTES:
        return (
            "A few bytes are uploaded with a wait, each time. Keep them on the device, upload them "
            "once before the loop, or use a Python number as the operand."
        )
    if finding.group.non_blocking:
        return (
            "non_blocking=True does nothing for pageable memory: the driver copies it to a buffer "
            "of its own first, and the host may wait. Pin the source: pin_memory=True in the "
            "DataLoader, or one pinned, contiguous staging buffer that is reused."
        )
    return (
        "The source is in pageable memory, so the copy cannot overlap with anything and the host "
        "waits for it. Use pin_memory=True in the DataLoader (or a pinned staging buffer) together "
        "with non_blocking=True; each alone changes nothing."
    )


def _size_text(finding: Finding) -> str:
    name = finding.called
    specific = {
        "repeat_interleave": "Pass output_size=, the total that the host knows or can bound.",
        "one_hot": "Pass num_classes=.",
        "bincount": "Use a zeros tensor of the known length and scatter_add_.",
        "sparse_coo_tensor": "Pass size=, and leave check_invariants off in the loop.",
        "coalesce": "Scatter into a dense tensor, or say is_coalesced=True when it is known.",
        "nonzero": "Use nonzero_static(size=...), argmax of the mask, or keep the mask.",
        "where": "Use the three-argument where, nonzero_static(size=...), or keep the mask.",
        "argwhere": "Use nonzero_static(size=...), or keep the mask.",
    }
    return (
        "The size of the result depends on values on the device, so the host waits to learn it. "
        + specific.get(name, "Carry the size on the host from where the data is made.")
    )


def _allocator_text(finding: Finding) -> str:
    if finding.group.explicit:
        return (
            "empty_cache gives memory back to the driver, which waits for the device, and the next "
            "step has to ask for it again. Leave it out of the loop."
        )
    return (
        "No cached block fits, so the allocator asks the driver, and gives memory back first when "
        "it is short of it: that waits for the device. Allocate the largest shape first, pad to a "
        "few sizes, lower the peak, or set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
    )


def _explicit_text(finding: Finding) -> str:
    if "barrier" in finding.names:
        return (
            "The barrier makes the host wait for all ranks. Collectives order the ranks already: "
            "drop it, or keep it outside the loop."
        )
    return (
        "The program asks to wait. For timing, record events and read elapsed_time() later; to "
        "order streams use wait_event() or wait_stream(), which the host does not wait for."
    )


def _scalar_text(finding: Finding) -> str:
    if "tolist" in finding.names:
        return "One wait for all values. Do it every N steps, for as many values as possible."
    if isinstance(finding.expression.statement, ast.Assert) or "_assert" in finding.names:
        return (
            "The check needs the value on the host now. torch._assert_async checks on the device; "
            "shapes and dtypes are known on the host."
        )
    if finding.is_test:
        return (
            "The branch needs the value on the host now. Compute both ways on the device "
            "(torch.where, clamp, masked updates), or decide one step late on a copy that an "
            "event says is complete."
        )
    return (
        "The host waits for one value. Keep a running sum on the device (`total += x.detach()`), "
        "and read it once every N steps, several values stacked into one .tolist()."
    )


def _readback_text(finding: Finding) -> str:
    return (
        "The host waits for a copy. Leave the data on the device if nothing on the host needs it "
        "now, or gather several copies into one. If it may come later: copy into a pinned buffer "
        "with non_blocking=True, record an event, and read only after the event's synchronize()."
    )


RULES: tuple[Rule, ...] = (
    Rule(
        "unsafe_readback",
        lambda finding: finding.group.kind == "race",
        "Wait for the copy before touching its buffer",
        _always(
            "A non_blocking copy of this buffer may still be under way. Record an event after the "
            "copy and call its synchronize() before the host reads or refills the buffer, or leave "
            "non_blocking out."
        ),
    ),
    Rule(
        "asynchronous_copy",
        _is_asynchronous,
        "Nothing to change: this copy does not wait",
        _asynchronous_text,
    ),
    Rule(
        "allocator_churn",
        lambda finding: finding.group.kind == "allocator",
        "Keep the allocator from asking the driver",
        _allocator_text,
    ),
    Rule(
        "object_collective",
        _is_object_collective,
        "Send tensors instead of objects",
        _always(
            "Object collectives pickle on the host, upload, read sizes back and download. Put the "
            "numbers into one tensor and all_reduce or all_gather it, on logging steps only."
        ),
    ),
    Rule(
        "graph_capture",
        _is_capture,
        "Capture once, outside the loop",
        _always(
            "Starting a capture waits for the device. Capture once before the loop and replay; "
            "choose data-dependent parts before the capture."
        ),
    ),
    Rule(
        "explicit_wait",
        lambda finding: finding.group.explicit,
        "Do not wait for the device in the loop",
        _explicit_text,
    ),
    Rule(
        "distribution_validation",
        _is_distribution,
        "Switch off the distribution's checks",
        _always(
            "The distribution checks its arguments on the host. Pass validate_args=False (or call "
            "Distribution.set_default_validate_args(False) once). Normal.sample() checks the scale "
            "as well: rsample(), or mean + std * torch.randn_like(std), does not."
        ),
        rewrites.without_validation,
    ),
    Rule(
        "print_format",
        _is_print,
        "Do not format device values in the loop",
        _always(
            "Formatting reads every shown element back, one wait each. Print every N steps, and "
            "fetch what is printed with one .tolist() first."
        ),
    ),
    Rule(
        "linalg_info",
        _is_linalg,
        "Use the variant that does not check",
        _always(
            "The function reads an info code back to raise an error. The *_ex variant leaves the "
            "code on the device; look at it when it suits."
        ),
        rewrites.linalg_ex,
    ),
    Rule("library_readback", _is_in_library, "Tell the library what it reads back", _library_text),
    Rule(
        "literal_upload",
        _is_literal_upload,
        "Make constants once, or on the device",
        _always(
            "Python data becomes a CPU tensor and is copied with a wait, each time. Build it once "
            "outside the loop (a buffer of the module), use Python numbers as operands, or fill it "
            "on the device with full, zeros or arange."
        ),
        rewrites.filled_on_device,
    ),
    Rule(
        "created_on_host",
        _is_made_on_host,
        "Create the tensor on the device",
        _made_on_host_text,
        rewrites.created_on_device,
    ),
    Rule(
        "host_scalar_assign",
        _is_scalar_assignment,
        "Fill on the device instead of assigning a number",
        _always(
            "The number becomes a CPU tensor and is uploaded with a wait. Use x[i].fill_(value), "
            "x.index_fill_(dim, index, value), masked_fill_, or assign x.new_zeros(())."
        ),
        rewrites.filled_in_place,
    ),
    Rule(
        "host_index",
        _is_host_index,
        "Keep the index on the device",
        _always(
            "A list or a CPU tensor used as an index is uploaded with a wait, each time. Build the "
            "index once on the device, or use a slice."
        ),
    ),
    Rule(
        "missing_non_blocking",
        _lacks_non_blocking,
        "Let the copy overlap",
        _always(
            "The source is pinned, but the host waits for the copy. Pass non_blocking=True; do not "
            "refill the source before the copy is done."
        ),
        rewrites.with_non_blocking,
    ),
    Rule(
        "pageable_batch",
        _is_pageable,
        "Pin the source and copy without waiting",
        _pageable_text,
        rewrites.with_non_blocking,
    ),
    Rule(
        "data_dependent_size",
        _sizes_depend_on_data,
        "Give the size, or keep it fixed",
        _size_text,
    ),
    Rule(
        "scalar_readback",
        _is_index_readback,
        "Keep indices and bounds on the side that uses them",
        _always(
            "An index or a bound lives on the device and the host reads it, one wait each. Carry "
            "lengths and positions on the host, read them all with one .tolist() before the loop, "
            "or index a table that is on the device."
        ),
    ),
    Rule(
        "mask_read",
        _is_mask_read,
        "Keep the shape and mask the values",
        _always(
            "A boolean mask selects an unknown number of elements, so the host waits for the "
            "count. Keep the shape: torch.where(mask, new, old), masked_fill, multiply by the "
            "mask, or topk with a fixed k."
        ),
    ),
    Rule(
        "scalar_readback",
        _is_scalar_readback,
        "Read values back together, and rarely",
        _scalar_text,
        rewrites.asserted_on_device,
    ),
    Rule(
        "tensor_readback",
        _is_tensor_readback,
        "Copy to the host less, or later",
        _readback_text,
    ),
    Rule(
        "generic",
        lambda finding: True,
        "The host waits for the device here",
        _always(
            "The host stops until the device has caught up. See whether the value is needed on the "
            "host at all, at this point, and in every step."
        ),
    ),
)
"""In the order in which they are asked; the last applies always."""

_FIRST_OF_EXPRESSION = [rule.cause for rule in RULES].index("literal_upload")
_BY_CAUSE = {rule.cause: rule for rule in RULES}

_SURROUNDINGS = frozenset(rule.cause for rule in RULES[:_FIRST_OF_EXPRESSION])

CAUSES = tuple(dict.fromkeys(rule.cause for rule in RULES))
"""Names of the causes, which hooks may give in the column `cause`."""
