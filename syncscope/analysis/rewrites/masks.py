"""Rewrites of boolean masks that select: keep the shape, and the host needs no count."""

from __future__ import annotations

import ast

from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import Edits, at, operand
from syncscope.analysis.rewrites.values import is_number, shape_of
from syncscope.analysis.syntax import Source, dotted_name, is_plain


def masked_on_device(finding: Finding) -> Edits:
    """`x[m].sum()` -> `torch.where(m, x, 0).sum()`, and assignments to `x[m]`.

    Only where the source shows that mask and tensor have the same shape, or that the mask has
    the tensor's first dimensions. A sum may round differently.
    """
    if finding.expression.is_store or isinstance(finding.expression.statement, ast.AugAssign):
        stored = _stored(finding)
        if stored or finding.expression.is_store:
            return stored
    return _reduced(finding) or _stored(finding)


def _reduced(finding: Finding) -> Edits:
    source, selected = finding.expression.source, _selection(finding.expression.node)
    around = finding.expression.around[1:3]
    if selected is None or len(around) < 2:
        return ()
    method, call = around
    if not isinstance(method, ast.Attribute) or not isinstance(call, ast.Call):
        return ()
    if call.func is not method or call.args or call.keywords:
        return ()
    tensor, mask = selected
    aligned = _aligned(source, mask, tensor)
    if not aligned or shape_of(source, mask) != shape_of(source, tensor):
        return ()
    total = f"torch.where({aligned}, {source.segment(tensor)}, 0).sum()"
    if method.attr == "sum":
        return at(finding, call, total)
    if method.attr == "mean":
        mean = f"{total} / {operand(source, mask)}.sum()"
        alone = isinstance(next(source.around(call), None), ast.stmt | ast.keyword)
        return at(finding, call, mean if alone else f"({mean})")
    return ()


def _selection(node: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """Tensor and mask of `x[m]` or `torch.masked_select(x, m)`."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return node.value, node.slice
    selects = isinstance(node, ast.Call) and dotted_name(node.func) == "torch.masked_select"
    if isinstance(node, ast.Call) and selects and len(node.args) == 2 and not node.keywords:
        return node.args[0], node.args[1]
    return None


def _aligned(source: Source, mask: ast.expr, tensor: ast.expr) -> str:
    """Source of a mask, shaped to broadcast against the tensor it selects from; else ""."""
    of_mask, of_tensor = shape_of(source, mask), shape_of(source, tensor)
    if of_mask == of_tensor:
        return source.segment(mask)
    if isinstance(of_mask, str) or isinstance(of_tensor, str):
        return ""
    missing = len(of_tensor) - len(of_mask)
    if not of_mask or of_tensor[: len(of_mask)] != of_mask:
        return ""
    return f"{operand(source, mask)}[..., {', '.join(['None'] * missing)}]"


def _stored(finding: Finding) -> Edits:
    """`x[m] = v`, `x[m] = y[m]` and `x[m] += n` as `x.copy_(torch.where(m, ..., x))`.

    masked_fill_ reads a value that is a tensor.
    """
    source, statement = finding.expression.source, finding.expression.statement
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AugAssign):
        target, value = statement.target, statement.value
    else:
        return ()
    if not isinstance(target, ast.Subscript) or not is_plain(target.value):
        return ()
    aligned = _aligned(source, target.slice, target.value)
    x = source.segment(target.value)
    if not aligned:
        return ()
    if isinstance(statement, ast.AugAssign):
        new = _changed(source, statement, x)
    else:
        new = _assigned(source, target, value)
    return at(finding, statement, new and f"{x}.copy_(torch.where({aligned}, {new}, {x}))")


def _changed(source: Source, statement: ast.AugAssign, x: str) -> str:
    """Source of `x + n` for `x[m] += n` with a number; else ""."""
    sign = _SIGNS.get(type(statement.op))
    if sign is None or not is_number(source, statement.value):
        return ""
    return f"{x} {sign} {operand(source, statement.value)}"


def _assigned(source: Source, target: ast.Subscript, value: ast.expr) -> str:
    """Source of what has the values of `x[m] = value`: a 0-d tensor, or `y` of `y[m]`."""
    if shape_of(source, value) == ():
        return source.segment(value)
    chosen = _selection(value)
    if chosen is None or source.segment(chosen[1]) != source.segment(target.slice):
        return ""
    same = shape_of(source, chosen[0]) == shape_of(source, target.value)
    return source.segment(chosen[0]) if same else ""


_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
