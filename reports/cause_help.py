"""What each cause means, wherever it occurs; `Site.advice` says what to do at one place."""

from __future__ import annotations

from typing import NamedTuple


class CauseHelp(NamedTuple):
    """A title, and what happens and why, in a sentence or two."""

    title: str
    text: str


CAUSE_HELP: dict[str, CauseHelp] = {
    "unsafe_readback": CauseHelp(
        "Buffer touched while it is being copied",
        "The host reads or refills a buffer while an asynchronous copy of it may still be under "
        "way, so the values may be wrong. A wait is missing: record an event after the copy and "
        "synchronize it before the buffer is touched.",
    ),
    "asynchronous_copy": CauseHelp(
        "Copy that does not wait",
        "A copy between pinned memory and the GPU that nobody waits for, as it should be.",
    ),
    "allocator_churn": CauseHelp(
        "The allocator asks the driver for memory",
        "No cached block fits, or the cache is emptied, so memory goes back to the driver and is "
        "asked for again, which drains the GPU.",
    ),
    "object_collective": CauseHelp(
        "Collective of Python objects",
        "Objects are pickled on the host, and their sizes are exchanged with waits for the GPU.",
    ),
    "graph_capture": CauseHelp(
        "CUDA graph captured in the loop",
        "Beginning a capture waits for the GPU. Capture once and replay.",
    ),
    "explicit_wait": CauseHelp(
        "The program asks to wait",
        "synchronize() or barrier() inside the step loop stops the host until the GPU has caught "
        "up.",
    ),
    "distribution_validation": CauseHelp(
        "A distribution checks its arguments",
        "torch.distributions reads its arguments back to the host to validate them.",
    ),
    "print_format": CauseHelp(
        "GPU values are formatted",
        "Turning a tensor on the GPU into text reads its elements back, one wait each.",
    ),
    "checkpoint": CauseHelp(
        "State saved from the GPU",
        "Saving copies each tensor to the host, one wait for each.",
    ),
    "graph_break": CauseHelp(
        "Compiled graph broken by a readback",
        "torch.compile ends its graph where the host needs a value of the GPU, and the host waits "
        "there.",
    ),
    "linalg_info": CauseHelp(
        "A linear algebra function checks its result",
        "The function reads an info code back to the host in order to raise an error.",
    ),
    "library_readback": CauseHelp(
        "A library waits for the GPU",
        "Code of a library that the line calls reads a value back to the host.",
    ),
    "literal_upload": CauseHelp(
        "Python data is uploaded",
        "A number or a list becomes a tensor on the host and is copied to the GPU with a wait, "
        "each time the line runs.",
    ),
    "created_on_host": CauseHelp(
        "Tensor made on the host, then moved",
        "The tensor is made in pageable memory of the host and copied, although it could be made "
        "on the GPU.",
    ),
    "host_scalar_assign": CauseHelp(
        "Number assigned into a tensor on the GPU",
        "The number becomes a tensor on the host and is copied to the GPU with a wait.",
    ),
    "host_index": CauseHelp(
        "Index that lives on the host",
        "A list or a tensor of the host that indexes a tensor on the GPU is uploaded with a wait.",
    ),
    "missing_non_blocking": CauseHelp(
        "Pinned copy that waits",
        "The source is pinned, so the copy could run asynchronously, but the host waits for it.",
    ),
    "pageable_batch": CauseHelp(
        "Copy from pageable memory",
        "The driver has to stage a copy from pageable memory, so it overlaps with nothing and "
        "the host waits. Pinned memory together with non_blocking=True does not.",
    ),
    "data_dependent_size": CauseHelp(
        "Size that depends on values on the GPU",
        "The size of the result is known only when the GPU has computed it, so the host waits.",
    ),
    "scalar_readback": CauseHelp(
        "Value read back to the host",
        "The host needs one value of a tensor on the GPU and waits until it is computed.",
    ),
    "mask_read": CauseHelp(
        "Boolean mask selects an unknown number of elements",
        "The host waits to learn how many elements the mask selects.",
    ),
    "tensor_readback": CauseHelp(
        "Tensor copied to the host",
        "The host waits until the tensor is computed and copied.",
    ),
    "generic": CauseHelp(
        "The host waits for the GPU",
        "The host stops until the GPU has caught up, and the GPU then idles until it gets work.",
    ),
}


def help_for(cause: str) -> CauseHelp:
    """The help of a cause; that of `generic` for a cause that is not known here."""
    return CAUSE_HELP.get(cause, CAUSE_HELP["generic"])
