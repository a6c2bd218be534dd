"""Rewrites of host tensors that are moved: create them on the device, or pin them."""

from __future__ import annotations

import ast

from syncscope.analysis.bindings import (
    block_of,
    changed_after,
    changes,
    is_parameter,
    loops_of,
    resolved,
    scope_of,
    statement_of,
)
from syncscope.analysis.findings import FACTORIES, Finding, factory_in
from syncscope.analysis.rewrites.edits import (
    Edits,
    all_or_none,
    at,
    before,
    here,
    one_line_call,
    with_argument,
)
from syncscope.analysis.rewrites.values import is_device, is_dtype, is_number, is_tensor
from syncscope.analysis.syntax import Source, dotted_name, keyword, last_name, root_name, words

_ON_DEVICE = FACTORIES - words("from_numpy tensor as_tensor")
_OF_ANY_DTYPE = words("empty eye ones zeros")


def created_on_device(finding: Finding) -> Edits:
    """`torch.ones(4).triu().to("cuda")` -> `torch.ones(4, device="cuda").triu()`.

    Also where the factory stands in an earlier statement of the same block and its result is
    used by nothing else. Random numbers then come from the device's generator; functions of
    real numbers (linspace, windows) may differ in the last digit.
    """
    source, call = finding.expression.source, one_line_call(finding.expression)
    if call is None or not isinstance(call.func, ast.Attribute):
        return ()
    receiver = call.func.value
    target = _target(source, call)
    factory = factory_in(receiver)
    if target is None:
        return ()
    if factory is not None:
        made = _on_device(source, factory, target, direct=factory is receiver)
        rest = source.segment(receiver).removeprefix(source.segment(factory))
        return here(finding, f"{made}{rest}") if made else ()
    return _created_before(finding, call, receiver, target)


def _on_device(source: Source, factory: ast.Call, target: tuple[str, str], *, direct: bool) -> str:
    """Source of a factory call with device (and dtype) added; "" if that changes more."""
    module, _, name = dotted_name(factory.func).rpartition(".")
    if module != "torch" or name not in _ON_DEVICE:
        return ""
    kept = ("device", "out", "generator", "pin_memory", "requires_grad", "layout")
    if any(keyword(factory, word) is not None for word in kept):
        return ""
    device, dtype = target
    if not dtype:
        return with_argument(source, factory, "device", device)
    if not direct or name not in _OF_ANY_DTYPE or keyword(factory, "dtype") is not None:
        return ""
    typed = with_argument(source, factory, "dtype", dtype)
    return f"{typed.removesuffix(')')}, device={device})" if typed else ""


def _created_before(
    finding: Finding, call: ast.Call, receiver: ast.expr, target: tuple[str, str]
) -> Edits:
    """The factory's line and the moving line, if the tensor does nothing in between."""
    source = finding.expression.source
    if not isinstance(receiver, ast.Name) or not finding.expression.in_file:
        return ()
    value, scope = resolved(source, receiver), scope_of(source, receiver)
    factory = factory_in(value)
    moved, made = statement_of(source, call), statement_of(source, value)
    if factory is None or moved is None or made is None or scope.reads(receiver.id) != [receiver]:
        return ()
    block = block_of(source, moved)
    if made not in block or any(isinstance(part, ast.Tuple) for part in source.around(value)):
        return ()
    if not _same_value(source, call, made):
        return ()
    code = _on_device(source, factory, target, direct=factory is value)
    return all_or_none(here(finding, receiver.id), at(finding, factory, code))


def _same_value(source: Source, call: ast.Call, made: ast.stmt) -> bool:
    """Whether the device of `.to(device)` is the same already where the tensor is made."""
    arguments = (*call.args, *(word.value for word in call.keywords))
    names = [node for part in arguments for node in ast.walk(part) if isinstance(node, ast.Name)]
    for name in names:
        bound = scope_of(source, name).bindings(name.id)
        first = bound[0] if len(bound) == 1 else None
        if bound and not isinstance(first, ast.arg):
            if not isinstance(first, ast.Name):
                return False
            binding = statement_of(source, first)
            if binding is None or binding not in block_of(source, made):
                return False
            if source.span(binding) >= source.span(made):
                return False
    return True


def _target(source: Source, call: ast.Call) -> tuple[str, str] | None:
    """Sources of the device and the dtype ("" if it keeps it) that a call moves to."""
    given = {word.arg: word.value for word in call.keywords}
    given.pop("non_blocking", None)
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    if last_name(call.func) == "cuda":
        return ('"cuda"', "") if not call.args and not given else None
    if last_name(call.func) != "to" or set(given) - {"device", "dtype"}:
        return None
    for name, argument in zip(("device", "dtype"), call.args, strict=False):
        given[name] = argument
    device, dtype = given.get("device"), given.get("dtype")
    if len(call.args) > 2 or device is None or not (dtype is None or is_dtype(dtype)):
        return None
    text = source.segment(device)
    if is_device(source, device):
        return text, source.segment(dtype) if dtype is not None else ""
    like = isinstance(device, ast.Name) and dtype is None and is_tensor(source, device)
    return (f"{text}.device", f"{text}.dtype") if like else None


def with_non_blocking(finding: Finding) -> Edits:
    """`pinned.to(device)` -> `pinned.to(device, non_blocking=True)`.

    Only where the function does not refill the source afterwards.
    """
    call = _upload(finding)
    moved = _moved(call) if call is not None else None
    if call is None or moved is None or not finding.expression.in_file:
        return ()
    source = finding.expression.source
    statement, name = statement_of(source, call), root_name(moved)
    if statement is None or not name or changed_after(source, statement, name):
        return ()
    return here(finding, with_argument(source, call, "non_blocking", "True"))


def _upload(finding: Finding) -> ast.Call | None:
    """The call that uploads a tensor; None for modules, which move each parameter."""
    call = one_line_call(finding.expression)
    if call is None or not isinstance(call.func, ast.Attribute) or not finding.is_upload:
        return None
    of_module = any(frame.function.startswith("Module.") for frame in finding.place.inner)
    if of_module or finding.group.op.startswith("Module."):
        return None
    return call if last_name(call.func) in {"to", "cuda", "copy_"} else None


def _moved(call: ast.Call) -> ast.expr | None:
    """What an upload reads: the receiver of `.to`, the argument of `.copy_`."""
    if last_name(call.func) == "copy_":
        return call.args[0] if call.args else None
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def pinned(finding: Finding) -> Edits:
    """Pin the source of an upload where it is made, and do not wait for the copy."""
    call = _upload(finding)
    if call is None or not finding.expression.in_file:
        return ()
    return _pinned_by_loader(finding, call) or _pinned_before_loop(finding, call)


def _unwaited(finding: Finding, *pins: Edits) -> Edits:
    """The edits that pin a source, and one that keeps the host from waiting for the copy."""
    if finding.group.non_blocking:
        return all_or_none(*pins)
    return all_or_none(with_non_blocking(finding), *pins)


def _pinned_by_loader(finding: Finding, call: ast.Call) -> Edits:
    """`pin_memory=True` for the loader that a batch comes from, and `non_blocking=True`.

    The loader is the one that the loop names; where it names none, each one in the file that
    could be it.
    """
    source, moved = finding.expression.source, _moved(call)
    if moved is None or not _is_part(moved):
        return ()
    loaders = _loaders_of(source, call, root_name(moved))
    unpinned = [loader for loader in loaders if keyword(loader, "pin_memory") is None]
    if not unpinned or len(unpinned) != len(loaders):
        return ()
    pins = [
        at(finding, loader, with_argument(source, loader, "pin_memory", "True"))
        for loader in unpinned
    ]
    return _unwaited(finding, *pins)


def _is_part(node: ast.expr) -> bool:
    """`batch`, `batch.x` or `batch["x"]`: what a loader pins. A view is as pinned."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and _is_part(node.value)
    if isinstance(node, ast.Attribute):
        return _is_part(node.value)
    return isinstance(node, ast.Name)


def _loaders_of(source: Source, call: ast.Call, name: str) -> list[ast.Call]:
    """The DataLoader calls that may make what `name` holds."""
    everywhere = [node for node in ast.walk(source.tree) if _is_loader(node)]
    iterables = [
        parent.iter
        for parent in source.around(call)
        if isinstance(parent, ast.For | ast.comprehension) and name in _names(parent.target)
    ]
    for iterable in iterables:
        read = (node for node in ast.walk(iterable) if isinstance(node, ast.Name))
        inner = [resolved(source, node) for node in read]
        named = [node for node in (*ast.walk(iterable), *inner) if _is_loader(node)]
        if named:
            return [node for node in named if isinstance(node, ast.Call)]
    bound = scope_of(source, call).bindings(name)
    given = bool(iterables) or all(isinstance(binding, ast.arg) for binding in bound)
    return [node for node in everywhere if isinstance(node, ast.Call)] if given else []


def _is_loader(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "DataLoader"


def _names(node: ast.AST) -> set[str]:
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def _pinned_before_loop(finding: Finding, call: ast.Call) -> Edits:
    """`data[i].to(device)` in a loop -> `data = data.pin_memory()` before it.

    `data` is an argument that the function neither binds again nor changes, and its part is
    a view of whole rows, so that it is pinned as well.
    """
    source, moved = finding.expression.source, _moved(call)
    loops = loops_of(source, call)
    if not loops or not isinstance(moved, ast.Subscript) or not isinstance(moved.value, ast.Name):
        return ()
    data = moved.value
    if not is_parameter(source, data) or changes(source, call, data.id):
        return ()
    if not _selects_rows(source, moved.slice):
        return ()
    pin = before(finding, loops[-1], f"{data.id} = {data.id}.pin_memory()")
    return _unwaited(finding, pin)


def _selects_rows(source: Source, index: ast.expr) -> bool:
    """`i` or `i : i + n`, where the ends are numbers: a view of consecutive rows."""
    if isinstance(index, ast.Slice):
        ends = [end for end in (index.lower, index.upper) if end is not None]
        return index.step is None and bool(ends)
    return is_number(source, index)
