"""Rules about data that goes from the host to the device."""

from __future__ import annotations

import ast

from syncscope.analysis.advice.rule import Rule, always, repeats
from syncscope.analysis.findings import Finding
from syncscope.analysis.origins import created_by_program, origin_of
from syncscope.analysis.rewrites.literals import (
    filled_in_place,
    indexed_on_device,
    made_on_device,
)
from syncscope.analysis.rewrites.moves import created_on_device, pinned, with_non_blocking
from syncscope.analysis.syntax import last_name, words
from syncscope.units import byte_size, duration

_UPLOADING = words("tensor as_tensor asarray scalar_tensor new_tensor")
_MOVING = words("to cuda copy_ _to_copy")
_FEW_BYTES = 1024


def may_be_made_on_device(finding: Finding) -> bool:
    """Whether the host tensor was made in this function, and not pinned on purpose.

    What another function made may be data, kept on the host and moved in batches.
    """
    origin, place = finding.group.origin, finding.group.place.frame
    if finding.group.memory == "pinned" or "pin_memory" in origin.frame.expression:
        return False
    if not origin.known:
        return True
    here = (origin.frame.file, origin.frame.function) == (place.file, place.function)
    return origin.owner == "user" and here


def _is_literal_upload(finding: Finding) -> bool:
    if finding.group.direction == "d2h":
        return False
    call, factory = finding.expression.call, finding.factory
    made = factory if factory and last_name(factory.func) in _UPLOADING else call
    return made is not None and last_name(made.func) in _UPLOADING


def _literal_text(finding: Finding) -> str:
    text = (
        "Python data becomes a tensor on the CPU and is uploaded with a wait, each time the line "
        "runs. Make it once, before the loop (register_buffer() in a module); a Python number "
        "needs no tensor as an operand."
    )
    code = "".join(edit.code for edit in made_on_device(finding))
    if "pin_memory" in code:
        return f"{text} Pinned and non_blocking, as below, it is uploaded without the wait."
    return f"{text} The device makes constants and ranges by itself: full, zeros, arange."


def _is_made_on_host(finding: Finding) -> bool:
    moves = finding.called in _MOVING and finding.group.direction != "d2h"
    if not moves or not may_be_made_on_device(finding):
        return False
    return finding.factory is not None or created_by_program(finding) or finding.made_by is not None


def _made_on_host_text(finding: Finding) -> str:
    origin, own = origin_of(finding), finding.place.frame
    where = ""
    if origin is not None and (origin.file, origin.line) != (own.file, own.line):
        where = f" at {origin.file}:{origin.line}, `{_short(origin.expression)}`,"
    made = (origin.expression if origin else own.expression).partition("(")[0]
    text = f"The tensor is made on the CPU{where} and then copied{_wasted(finding)}. "
    if made.endswith(("from_numpy", "torch.tensor")):
        return text + "Make it once, before the loop, or pin it and copy with non_blocking=True."
    text += "Make it on the device: pass device= to the function that makes it."
    if "rand" in made:
        text += " The numbers then come from the GPU's generator: other ones for the same seed."
    if "generator=" in (origin.expression if origin else own.expression):
        text += " The generator then has to be one of the GPU: torch.Generator(device)."
    if made.endswith(("linspace", "logspace", "_window")):
        text += " The last digits may differ."
    return text


def _wasted(finding: Finding) -> str:
    """Bytes, and the time of the host, of one call."""
    if not finding.each_bytes:
        return ""
    size, each_ns = finding.each_bytes, finding.group.blocked_ns // max(finding.group.count, 1)
    wait = f", for which the host waits {duration(each_ns)}" if each_ns >= 1_000 else ""
    often = ", each time" if finding.group.count > 1 else ""
    return f": {byte_size(size)}{wait}{often}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:57]}..."


def _is_scalar_assignment(finding: Finding) -> bool:
    subscript = isinstance(finding.expression.node, ast.Subscript)
    stores = subscript and finding.expression.is_store
    return stores and finding.is_upload and finding.each_bytes <= 16


def _is_host_index(finding: Finding) -> bool:
    return isinstance(finding.expression.node, ast.Subscript) and finding.is_upload


def _lacks_non_blocking(finding: Finding) -> bool:
    pinned_source = finding.group.memory == "pinned" and finding.is_upload
    return pinned_source and finding.group.blocking and not finding.group.non_blocking


def _is_module_move(finding: Finding) -> bool:
    inner = any(frame.function.startswith("Module.") for frame in finding.place.inner)
    return (inner or finding.group.op.startswith("Module.")) and finding.group.direction != "d2h"


def _is_pageable(finding: Finding) -> bool:
    if finding.is_upload:
        return finding.group.memory == "pageable" or finding.called in _MOVING
    return not finding.group.direction and finding.called == "cuda"


def _is_small(finding: Finding) -> bool:
    return _is_pageable(finding) and finding.group.blocking and finding.each_bytes <= _FEW_BYTES


def _pageable_text(finding: Finding) -> str:
    if finding.group.non_blocking:
        return (
            "non_blocking=True does nothing for pageable memory: the driver copies it to a buffer "
            "of its own first, and the host may wait for that. Pin the source: pin_memory=True in "
            "the DataLoader, or one pinned, contiguous buffer that you refill after its event."
        )
    if not repeats(finding):
        return (
            "The source is in pageable memory, so the host waits for the copy, once in this run. "
            "Change it only if this line is inside a loop of yours."
        )
    return (
        "The source is in pageable memory, so the host waits and the copy overlaps with nothing. "
        "Pass pin_memory=True to the DataLoader (or pin the data once, before the loop), and "
        "non_blocking=True here; each alone changes nothing. A batch that is converted on the CPU "
        "is pageable again: upload first, convert on the device."
    )


RULES = (
    Rule(
        "literal_upload",
        _is_literal_upload,
        "Make constants once, or on the device",
        _literal_text,
        made_on_device,
    ),
    Rule(
        "created_on_host",
        _is_made_on_host,
        "Create the tensor on the device",
        _made_on_host_text,
        created_on_device,
    ),
    Rule(
        "host_scalar_assign",
        _is_scalar_assignment,
        "Fill on the device instead of assigning a number",
        always(
            "The number becomes a tensor on the CPU and is uploaded with a wait. fill_(), "
            "index_fill_() and masked_fill_() take a number without that; so does assigning a "
            "tensor that is on the device already."
        ),
        filled_in_place,
    ),
    Rule(
        "host_index",
        _is_host_index,
        "Keep the index on the device",
        always(
            "A list or a CPU tensor used as an index is uploaded with a wait, each time the line "
            "runs. Make the index on the device, once before the loop, or use a slice."
        ),
        indexed_on_device,
    ),
    Rule(
        "missing_non_blocking",
        _lacks_non_blocking,
        "Let the copy overlap",
        always(
            "The source is pinned, and yet the host waits for the copy. Pass non_blocking=True. Do "
            "not refill the source before the copy is done: wait for an event first, or take turns "
            "with two buffers."
        ),
        with_non_blocking,
    ),
    Rule(
        "pageable_batch",
        _is_module_move,
        "Move the module once, before the loop",
        always(
            "Each parameter and buffer is uploaded with a wait. Move the module once before the "
            "loop, or make it on the device: `with torch.device(...):` around its construction."
        ),
    ),
    Rule(
        "pageable_batch",
        _is_small,
        "Do not upload a few bytes each time",
        always(
            "A few bytes are uploaded with a wait, each time the line runs. Keep them on the "
            "device, upload them once before the loop, use a Python number as the operand, or pin "
            "them and pass non_blocking=True."
        ),
        pinned,
    ),
    Rule(
        "pageable_batch",
        _is_pageable,
        "Pin the source and copy without waiting",
        _pageable_text,
        pinned,
    ),
)
