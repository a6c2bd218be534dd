"""Rules about what a line calls into, or what kind of event it is.

They are asked even where a hook named the operator: who called it says more.
"""

from __future__ import annotations

import ast

from syncscope.analysis.advice.rule import Rule, always
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.calls import left_out, linalg_ex, without_validation
from syncscope.analysis.rewrites.events import waited_for
from syncscope.analysis.syntax import words


def _is_asynchronous(finding: Finding) -> bool:
    group = finding.group
    return group.kind == "transfer" and group.memory == "pinned" and not group.blocking


def _asynchronous_text(finding: Finding) -> str:
    if finding.is_upload:
        return (
            "The source is pinned and nobody waits. Do not refill the source before the copy is "
            "done: an event tells when that is."
        )
    return (
        "The target is pinned and nobody waits. Record an event after the copy, and read the "
        "result only after the event's synchronize()."
    )


def _race_text(finding: Finding) -> str:
    return (
        "A non_blocking copy of this buffer may still be under way, so this line may see old "
        "values, or change what is being copied. Record an event right after the copy, and call "
        "its synchronize() before the host touches the buffer. Where nothing is done in between, "
        "leave non_blocking out."
    )


def _is_stall(finding: Finding) -> bool:
    return finding.group.kind == "allocator" and not finding.group.explicit


def _is_object_collective(finding: Finding) -> bool:
    named = any(name.endswith(("_object", "_object_list")) for name in finding.names)
    return named and finding.is_inside("torch/distributed/")


def _is_capture(finding: Finding) -> bool:
    named = finding.expression.dotted.endswith(("cuda.graph", "make_graphed_callables"))
    return finding.is_inside("torch/cuda/graphs.py") or named


def _is_barrier(finding: Finding) -> bool:
    return finding.group.explicit and bool(finding.names & {"barrier", "monitored_barrier"})


def _explicit_text(finding: Finding) -> str:
    called = finding.group.op.lower()
    if "event" in called:
        return (
            "You wait for an event. Call its query() to see whether it has passed, wait as late as "
            "you can (one step later), or let another stream wait for it with wait_event()."
        )
    if "stream" in called:
        return (
            "You wait for a whole stream. To order streams use wait_stream() or wait_event(), "
            "which the host does not wait for; to read one result wait for its event."
        )
    if "work" in called or "wait" in finding.names:
        return (
            "You wait for a collective. Start it earlier, and wait right before its result is used."
        )
    return (
        "You wait for the whole device. For timing, record two events with "
        "torch.cuda.Event(enable_timing=True) and read elapsed_time() after the loop; to order "
        "streams use wait_stream(); for correct results PyTorch needs no synchronize()."
    )


def _is_distribution(finding: Finding) -> bool:
    return finding.is_inside("torch/distributions/") or (
        finding.expression.dotted.startswith(("torch.distributions.", "distributions."))
    )


def _samples_normal(finding: Finding) -> bool:
    return _is_distribution(finding) and finding.called == "sample"


def _is_saved(finding: Finding) -> bool:
    saves = finding.expression.dotted in {"torch.save", "safetensors.torch.save_file"}
    return saves or finding.is_inside("torch/serialization.py", "safetensors/")


def _is_loaded(finding: Finding) -> bool:
    return _is_saved(finding) and finding.is_upload


def _is_print(finding: Finding) -> bool:
    if finding.is_inside("torch/_tensor_str.py", "logging/") or "print" in finding.called.split(
        "_"
    ):
        return True
    if finding.names & {"__format__", "__repr__", "__str__", "str", "repr", "format"}:
        return True
    nodes = (finding.expression.node, *finding.expression.around)
    reads = finding.expression.called in {"item", "tolist", "float", "int"}
    return not reads and any(isinstance(node, ast.JoinedStr) for node in nodes)


def _is_graph_break(finding: Finding) -> bool:
    """A host read inside a function that torch.compile runs in pieces."""
    compiled = any(frame.file.startswith("torch/_dynamo/") for frame in finding.place.stack)
    return compiled and finding.is_readback and finding.group.kind != "allocator"


_LINALG = words(
    "cholesky cholesky_inverse inv inverse solve solve_ex lu_factor lu_solve ldl_factor slogdet "
    "logdet det eig eigh eigvals eigvalsh svd svdvals lstsq matrix_rank pinv matrix_power "
    "tensorinv tensorsolve linalg_cholesky linalg_inv linalg_solve linalg_eigh linalg_eig "
    "linalg_svd linalg_lu_factor linalg_ldl_factor linalg_lstsq"
)
_WITH_EX = words("cholesky inv inverse solve lu_factor ldl_factor")


def _is_linalg(finding: Finding) -> bool:
    if not finding.is_readback or finding.called.endswith("_ex"):
        return False
    return finding.called in _LINALG or ".linalg." in f".{finding.expression.dotted}"


def _has_unchecked_variant(finding: Finding) -> bool:
    called = finding.called.removeprefix("linalg_")
    return _is_linalg(finding) and called in _WITH_EX


RULES = (
    Rule(
        "unsafe_readback",
        lambda finding: finding.group.kind == "race",
        "Wait for the copy before you touch its buffer",
        _race_text,
        waited_for,
    ),
    Rule(
        "asynchronous_copy",
        _is_asynchronous,
        "Nothing to change: this copy does not wait",
        _asynchronous_text,
    ),
    Rule(
        "allocator_churn",
        _is_stall,
        "Keep the allocator from asking the driver",
        always(
            "No cached block fits, so the allocator asks the driver for memory, and when that runs "
            "short it first gives cached blocks back, which waits for the device. Run the largest "
            "shape first, pad to a few sizes, lower the peak, or set "
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."
        ),
    ),
    Rule(
        "allocator_churn",
        lambda finding: finding.group.kind == "allocator",
        "Leave empty_cache() out of the loop",
        always(
            "empty_cache() gives memory back to the driver, which waits for the device, and the "
            "next step has to ask for it again. It frees nothing that PyTorch itself could not "
            "have used: call it at most once between two phases of the program."
        ),
        left_out,
    ),
    Rule(
        "object_collective",
        _is_object_collective,
        "Send tensors instead of objects",
        always(
            "An object collective pickles on the host, uploads the bytes, reads sizes back and "
            "downloads. Put the numbers into one tensor and all_reduce or all_gather that, and "
            "only on the steps that log."
        ),
    ),
    Rule(
        "graph_capture",
        _is_capture,
        "Capture once, before the loop",
        always(
            "Capturing a graph begins and ends with a wait for the device. Capture once before the "
            "loop and replay inside it. Whatever depends on values (x[mask], .item()) cannot be "
            "captured: decide it before the capture."
        ),
    ),
    Rule(
        "explicit_wait",
        _is_barrier,
        "Leave the barrier out of the loop",
        always(
            "The barrier makes the host wait until all ranks have come, and for the device. "
            "Collectives put the ranks in order already: drop it, or keep it to where ranks share "
            "files."
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
        _samples_normal,
        "Sample without the check of the scale",
        always(
            "sample() of a Normal checks on the host that no scale is negative, whatever "
            "validate_args says. rsample() draws the same numbers without looking; detach() cuts "
            "the gradient off as sample() does."
        ),
        without_validation,
    ),
    Rule(
        "distribution_validation",
        _is_distribution,
        "Switch off the checks of the distribution",
        always(
            "The distribution checks its arguments, and the values you give it, on the host: one "
            "wait for each. Pass validate_args=False where you make it, or call "
            "Distribution.set_default_validate_args(False) once. Invalid values then go unnoticed."
        ),
        without_validation,
    ),
    Rule(
        "checkpoint",
        _is_loaded,
        "Load once, before the loop",
        always(
            "Loading copies each tensor to the device, one wait for each. Load what you need "
            "before the loop."
        ),
    ),
    Rule(
        "checkpoint",
        _is_saved,
        "Save less often, or from a copy",
        always(
            "Saving copies each tensor to the host, one wait for each. Save every N steps. Or copy "
            "the state to pinned memory with non_blocking=True, record an event, and write the "
            "file in a thread after the event's synchronize(); "
            "torch.distributed.checkpoint.async_save does that for you."
        ),
    ),
    Rule(
        "print_format",
        _is_print,
        "Print values of the device rarely",
        always(
            "To format a tensor of the device the host waits and reads it: once for "
            '`f"{loss:.3f}"`, several times for `print(loss)`, for a larger tensor once for each '
            "element that is shown. Print every N steps. Print `loss.item()`, or `x.cpu()` of a "
            "larger tensor: each waits once. Read several values with one "
            "torch.stack([...]).tolist()."
        ),
    ),
    Rule(
        "graph_break",
        _is_graph_break,
        "Keep the compiled graph in one piece",
        always(
            "torch.compile ends its graph here, because the host needs a value of the device: the "
            "host waits, and nothing is fused across this line. Move it out of the compiled "
            "function, or decide on the device with torch.where or torch.cond."
        ),
    ),
    Rule(
        "linalg_info",
        _has_unchecked_variant,
        "Use the variant that does not check",
        always(
            "The function reads back whether it succeeded, so that it can raise an error. The _ex "
            "variant leaves that on the device as `info`. It raises nothing: look at info every N "
            "steps."
        ),
        linalg_ex,
    ),
    Rule(
        "linalg_info",
        _is_linalg,
        "Decompose less often, or many at once",
        always(
            "The solver reads its status back, and this function has no variant that does not. "
            "Stack the matrices and call it once for all, call it every N steps, or use "
            "cholesky_ex, inv_ex or solve_ex where one of them does."
        ),
    ),
)
