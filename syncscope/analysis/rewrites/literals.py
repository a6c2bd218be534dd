"""Rewrites of Python data that is uploaded: numbers, lists, indices, assigned scalars."""

from __future__ import annotations

import ast

from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import Edits, at, here, one_line_call, substituted
from syncscope.analysis.rewrites.values import is_number, literal
from syncscope.analysis.syntax import Source, dotted_name, is_plain


def made_on_device(finding: Finding) -> Edits:
    """`torch.tensor([-1], device=d)` -> `torch.full((1,), -1, device=d)`, and the like.

    Numbers and equal numbers are filled in, evenly spaced integers counted; any other data is
    uploaded from pinned memory, which the host does not wait for.
    """
    source, call = finding.expression.source, one_line_call(finding.expression)
    if call is None or dotted_name(call.func) not in {"torch.tensor", "torch.as_tensor"}:
        return ()
    given = {word.arg: source.segment(word.value) for word in call.keywords}
    if len(call.args) != 1 or "device" not in given or set(given) - {"device", "dtype"}:
        return ()
    (data,) = call.args
    if isinstance(data, ast.Starred):
        return ()
    if device_code := _filled(source, data):
        rest = ", ".join(f"{name}={value}" for name, value in given.items())
        return here(finding, f"{device_code}, {rest})")
    dtype = f"dtype={given['dtype']}, " if "dtype" in given else ""
    return here(finding, _uploaded(source.segment(data), dtype, given["device"]))


def _uploaded(data: str, dtype: str, device: str) -> str:
    return f"torch.tensor({data}, {dtype}pin_memory=True).to({device}, non_blocking=True)"


def _filled(source: Source, data: ast.expr) -> str:
    """The beginning of a call that makes the data on the device; "" if there is none.

    What has a name keeps it: its value may be another one tomorrow.
    """
    if is_number(source, data):
        return f"torch.full((), {source.segment(data)}"
    value = literal(source, data)
    if isinstance(data, ast.Name) or not isinstance(value, list | tuple) or not value:
        return ""
    first = value[0]
    alike = all(type(item) is type(first) and item == first for item in value)
    if isinstance(first, bool | int | float) and alike:
        return f"torch.full(({len(value)},), {first!r}"
    return f"torch.arange({counted}" if (counted := _counted(value)) else ""


def _counted(value: object) -> str:
    """Arguments of arange that count out evenly spaced integers, upwards; "" for others.

    Two integers are always evenly spaced; they stay as they are written.
    """
    if not isinstance(value, list | tuple) or len(value) < 3:
        return ""
    if any(type(item) is not int for item in value):
        return ""
    start, step = value[0], value[1] - value[0]
    if step < 1 or list(value) != list(range(start, value[-1] + 1, step)):
        return ""
    if (start, step) == (0, 1):
        return str(value[-1] + 1)
    return f"{start}, {value[-1] + 1}" + (f", {step}" if step > 1 else "")


def indexed_on_device(finding: Finding) -> Edits:
    """`x[:, [0, 4, 8]]` -> `x[:, torch.arange(0, 9, 4, device=x.device)]`.

    Integers that are not evenly spaced are uploaded from pinned memory.
    """
    expression, node = finding.expression, finding.expression.node
    if not isinstance(node, ast.Subscript) or not is_plain(node.value) or expression.is_store:
        return ()
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    source, device = expression.source, f"{expression.segment(node.value)}.device"
    found = [(part, _index(source, part, device)) for part in parts]
    listed = [(part, index) for part, index in found if index]
    if len(listed) != 1:
        return ()
    return here(finding, substituted(source, node, *listed[0]))


def _index(source: Source, part: ast.expr, device: str) -> str:
    """Source of an index on the device that equals a list of integers; "" for anything else."""
    data = part
    if isinstance(part, ast.Call):
        if dotted_name(part.func) != "torch.tensor" or len(part.args) != 1 or part.keywords:
            return ""
        (data,) = part.args
    value = literal(source, data)
    if not isinstance(value, list) or not value or any(type(item) is not int for item in value):
        return ""
    if not isinstance(data, ast.Name) and (counted := _counted(value)):
        return f"torch.arange({counted}, device={device})"
    return _uploaded(source.segment(data), "", device)


def filled_in_place(finding: Finding) -> Edits:
    """`x[5] = 0.0` -> `x[5].fill_(0.0)`; `x[idx] = 0.0` -> `x[idx] = x.new_full((), 0.0)`."""
    expression, statement = finding.expression, finding.expression.statement
    source, target = expression.source, expression.node
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ()
    if not isinstance(target, ast.Subscript) or target is not statement.targets[0]:
        return ()
    if not is_number(source, statement.value):
        return ()
    value = source.segment(statement.value)
    if selects_view(target.slice):
        return at(finding, statement, f"{expression.text}.fill_({value})")
    if not is_plain(target.value) or _has_list(target.slice):
        return ()
    filled = f"{source.segment(target.value)}.new_full((), {value})"
    return at(finding, statement, f"{expression.text} = {filled}")


def _has_list(index: ast.expr) -> bool:
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return any(isinstance(part, ast.List | ast.ListComp | ast.Call) for part in parts)


def selects_view(index: ast.expr) -> bool:
    """Whether an index consists of integers, slices and None only, and so gives a view."""
    if isinstance(index, ast.Tuple):
        return all(selects_view(part) for part in index.elts)
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.op, ast.USub) and selects_view(index.operand)
    if isinstance(index, ast.Constant):
        return index.value is None or index.value is ... or type(index.value) is int
    return isinstance(index, ast.Slice)
