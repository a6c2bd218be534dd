"""Rewrites of host decisions about device values: decide on the device."""

from __future__ import annotations

import ast

from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import Edits, at, substituted
from syncscope.analysis.rewrites.values import is_number, is_pure, is_tensor, shape_of
from syncscope.analysis.syntax import Source, dotted_name, last_name


def decided_on_device(finding: Finding) -> Edits:
    """Asserts, and branches of one assignment: `if c: x = a` -> `x = torch.where(c, a, x)`."""
    return _asserted(finding) or _torch_asserted(finding) or _branch(finding)


def _asserted(finding: Finding) -> Edits:
    """`assert test, "why"` -> `torch._assert_async(test, "why")`: raised later, as an error of
    the device."""
    statement = finding.expression.statement
    if not isinstance(statement, ast.Assert) or not finding.expression.in_file:
        return ()
    test, source = statement.test, finding.expression.source
    inner = test.operand if isinstance(test, ast.UnaryOp) else test
    if isinstance(inner, ast.BoolOp) or finding.expression.node not in (test, inner):
        return ()
    code = source.segment(inner)
    if isinstance(test, ast.UnaryOp):
        if not isinstance(test.op, ast.Not):
            return ()
        code = f"torch.logical_not({code})"
    message = _message(source, statement.msg)
    return (
        () if message is None else at(finding, statement, f"torch._assert_async({code}{message})")
    )


def _message(source: Source, node: ast.expr | None) -> str | None:
    """The message as an argument; None if it is not a plain text."""
    if node is None:
        return ""
    text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return f", {source.segment(node)}" if text else None


def _torch_asserted(finding: Finding) -> Edits:
    """`torch._assert(test, "why")` -> `torch._assert_async(test, "why")`."""
    call = finding.expression.call
    if call is None or dotted_name(call.func) != "torch._assert" or len(call.args) != 2:
        return ()
    message = _message(finding.expression.source, call.args[1])
    if message is None or call.keywords:
        return ()
    source = finding.expression.source
    return at(finding, call, f"torch._assert_async({source.segment(call.args[0])}{message})")


def _branch(finding: Finding) -> Edits:
    """An `if` without else around one statement that may as well always be executed."""
    statement, source = finding.expression.statement, finding.expression.source
    if not isinstance(statement, ast.If) or statement.orelse or len(statement.body) != 1:
        return ()
    test, body = statement.test, statement.body[0]
    if finding.expression.node is not test or not is_pure(test):
        return ()
    if _clips(source, test, body):
        return at(finding, statement, source.segment(body))
    if shape_of(source, test) != ():
        return ()
    if isinstance(body, ast.Expr):
        return at(finding, statement, _scaled(source, test, body.value))
    if isinstance(body, ast.Assign) and isinstance(target := body.targets[0], ast.Name):
        code = _chosen(source, test, target, body.value)
        return at(finding, statement, f"{target.id} = {code}") if code else ()
    return ()


def _clips(source: Source, test: ast.expr, body: ast.stmt) -> bool:
    """`if norm > most: clip_grads_with_norm_(ps, most, norm)`, which clamps by itself.

    A norm that lies below `most` by less than 1e-6 is scaled too, by as little.
    """
    call = body.value if isinstance(body, ast.Expr) else None
    if not isinstance(call, ast.Call) or last_name(call.func) != "clip_grads_with_norm_":
        return False
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Gt | ast.GtE):
        return False
    compared = [source.segment(test.comparators[0]), source.segment(test.left)]
    return [source.segment(argument) for argument in call.args[1:3]] == compared


def _scaled(source: Source, test: ast.expr, call: ast.expr) -> str:
    """`if c: t.mul_(s)` -> `t.mul_(torch.where(c, s, 1.0))`; div_ and both foreach alike."""
    if not isinstance(call, ast.Call) or call.keywords or not call.args:
        return ""
    in_place = isinstance(call.func, ast.Attribute) and call.func.attr in {"mul_", "div_"}
    foreach = dotted_name(call.func) in {"torch._foreach_mul_", "torch._foreach_div_"}
    if not (in_place and len(call.args) == 1) and not (foreach and len(call.args) == 2):
        return ""
    factor = call.args[-1]
    if not is_pure(factor) or shape_of(source, factor) != ():
        return ""
    factor_code = f"torch.where({source.segment(test)}, {source.segment(factor)}, 1.0)"
    return substituted(source, call, factor, factor_code)


def _chosen(source: Source, test: ast.expr, target: ast.Name, value: ast.expr) -> str:
    """Source of what `if test: target = value` leaves in `target`, computed on the device."""
    condition, name = source.segment(test), target.id
    both = f"torch.where({condition}, {source.segment(value)}, {name})"
    if _is_best_so_far(source, test, target, value):
        return both
    if not is_tensor(source, target):
        return ""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult | ast.Div):
        if not isinstance(value.left, ast.Name) or value.left.id != name:
            return ""
        if is_number(source, value.right):
            return both
        if isinstance(value.right, ast.Name) and shape_of(source, value.right) == ():
            factor = f"torch.where({condition}, {value.right.id}, 1.0)"
            return substituted(source, value, value.right, factor)
    if isinstance(value, ast.Call) and dotted_name(value.func) == "torch.zeros_like":
        same = len(value.args) == 1 and not value.keywords and source.segment(value.args[0]) == name
        return both if same else ""
    return ""


def _is_best_so_far(source: Source, test: ast.expr, target: ast.Name, value: ast.expr) -> bool:
    """`if new < best: best = new.detach()` with 0-d tensors."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    sides = {source.segment(test.left), source.segment(test.comparators[0])}
    new = value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        new = value.func.value
        if value.func.attr not in {"detach", "clone"}:
            return False
    scalars = shape_of(source, target) == () == shape_of(source, new)
    return scalars and isinstance(new, ast.Name) and sides == {target.id, new.id}
