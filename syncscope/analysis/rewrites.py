"""Exact rewrites of an expression, from its syntax tree; "" where there is none.

A rewrite must compute the same (a random factory: the same distribution) and be free of the
wait. Where that depends on what the source does not say, there is only the advice's text.
"""

from __future__ import annotations

import ast

from syncscope.analysis.findings import FACTORIES, Finding
from syncscope.analysis.syntax import Expression, dotted_name, keyword, last_name


def none(finding: Finding) -> str:
    """For causes without an exact rewrite."""
    return ""


def created_on_device(finding: Finding) -> str:
    """`torch.randn(4).to("cuda")` -> `torch.randn(4, device="cuda")`."""
    expression, factory = finding.expression, finding.factory
    call = expression.call
    if call is None or factory is None or last_name(factory.func) not in _ON_DEVICE:
        return ""
    if any(keyword(factory, name) for name in ("device", "out", "generator", "pin_memory")):
        return ""
    device = _target_device(expression, call)
    return _with_argument(expression, factory, f"device={device}") if device else ""


_ON_DEVICE = FACTORIES - {"from_numpy", "tensor"}


def _target_device(expression: Expression, call: ast.Call) -> str:
    """Source of the device that `.to` or `.cuda` moves to, if it does nothing else."""
    words = {word.arg: word.value for word in call.keywords}
    words.pop("non_blocking", None)
    if any(isinstance(argument, ast.Starred) for argument in call.args) or None in words:
        return ""
    if last_name(call.func) == "cuda":
        return '"cuda"' if not call.args and not words else ""
    if last_name(call.func) != "to" or len(call.args) + len(words) != 1:
        return ""
    device = call.args[0] if call.args else words.get("device")
    return expression.segment(device) if device is not None and _is_device(device) else ""


def _is_device(node: ast.expr) -> bool:
    """Whether an expression can only be a device, judging by what it is called."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    name = last_name(node.func) if isinstance(node, ast.Call) else last_name(node)
    return name.lower().strip("_") in {"device", "dev", "cuda", "gpu"} or name.endswith("_device")


def with_non_blocking(finding: Finding) -> str:
    """`x.to(device)` -> `x.to(device, non_blocking=True)`; never on a module."""
    call = finding.expression.call
    if call is None or finding.group.non_blocking or not isinstance(call.func, ast.Attribute):
        return ""
    if any(frame.function.startswith("Module.") for frame in finding.place.inner):
        return ""
    if finding.group.op.startswith("Module.") or keyword(call, "non_blocking"):
        return ""
    if last_name(call.func) not in {"to", "cuda", "copy_"} or not finding.is_upload:
        return ""
    return _with_argument(finding.expression, call, "non_blocking=True")


def filled_on_device(finding: Finding) -> str:
    """`torch.tensor([-1], device=d)` -> `torch.full((1,), -1, device=d)`; equal numbers only."""
    expression, call = finding.expression, finding.expression.call
    if call is None or dotted_name(call.func) not in {"torch.tensor", "torch.as_tensor"}:
        return ""
    device = keyword(call, "device")
    if len(call.args) != 1 or device is None or len(call.keywords) != 1:
        return ""
    shape, value = _uniform(call.args[0])
    if value is None:
        return ""
    return f"torch.full({shape}, {value!r}, device={expression.segment(device)})"


def _uniform(node: ast.expr) -> tuple[str, bool | int | float | None]:
    """Shape and value of a literal number, or of a list of equal ones; value None if neither."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return "", None
    if isinstance(value, bool | int | float):
        return "()", value
    if not isinstance(value, list | tuple) or not value:
        return "", None
    first = value[0]
    alike = all(type(item) is type(first) and item == first for item in value)
    if isinstance(first, bool | int | float) and alike:
        return f"({len(value)},)", first
    return "", None


def filled_in_place(finding: Finding) -> str:
    """`x[5] = 0.0` -> `x[5].fill_(0.0)`; only where every index is a number or a slice."""
    expression, statement = finding.expression, finding.expression.statement
    target = expression.node
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    if not isinstance(target, ast.Subscript) or not _selects_view(target.slice):
        return ""
    try:
        value = ast.literal_eval(statement.value)
    except (ValueError, TypeError, SyntaxError):
        return ""
    return f"{expression.text}.fill_({value!r})" if isinstance(value, bool | int | float) else ""


def _selects_view(index: ast.expr) -> bool:
    if isinstance(index, ast.Tuple):
        return all(_selects_view(part) for part in index.elts)
    if isinstance(index, ast.UnaryOp):
        return isinstance(index.op, ast.USub) and _selects_view(index.operand)
    return isinstance(index, ast.Slice) or (
        isinstance(index, ast.Constant) and type(index.value) is int
    )


def linalg_ex(finding: Finding) -> str:
    """`torch.linalg.inv(a)` -> `torch.linalg.inv_ex(a).inverse`."""
    expression, call = finding.expression, finding.expression.call
    fields = {"cholesky": "L", "inv": "inverse", "solve": "result"}
    if call is None or keyword(call, "out") is not None:
        return ""
    name = dotted_name(call.func)
    module, _, function = name.rpartition(".")
    if module not in {"torch.linalg", "linalg", "LA"} or function not in fields:
        return ""
    arguments = expression.text[len(expression.segment(call.func)) :]
    return f"{expression.segment(call.func)}_ex{arguments}.{fields[function]}"


def without_validation(finding: Finding) -> str:
    """`Normal(mu, sd)` -> `Normal(mu, sd, validate_args=False)`; constructors only."""
    call = finding.expression.call
    if call is None or keyword(call, "validate_args"):
        return ""
    name = last_name(call.func)
    return (
        _with_argument(finding.expression, call, "validate_args=False")
        if name[:1].isupper()
        else ""
    )


def asserted_on_device(finding: Finding) -> str:
    """`assert test, "why"` -> `torch._assert_async(test, "why")`."""
    expression, statement = finding.expression, finding.expression.statement
    if not isinstance(statement, ast.Assert) or not expression.around:
        return ""
    if expression.around[0] is not statement.test or isinstance(statement.test, ast.BoolOp):
        return ""
    message = statement.msg
    if message is None:
        return f"torch._assert_async({expression.text})"
    if isinstance(message, ast.Constant) and isinstance(message.value, str):
        return f"torch._assert_async({expression.text}, {ast.unparse(message)})"
    return ""


def _with_argument(expression: Expression, call: ast.Call, argument: str) -> str:
    """Source of a call with one argument more."""
    text = expression.segment(call)
    if not text.endswith(")") or any(word.arg is None for word in call.keywords):
        return ""
    head = text[:-1].rstrip()
    if not call.args and not call.keywords:
        return f"{head}{argument})"
    return f"{head.removesuffix(',')}, {argument})"
