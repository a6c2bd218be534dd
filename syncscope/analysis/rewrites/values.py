"""What an expression is, judging by the source alone: a number, a device, Python data, a shape."""

from __future__ import annotations

import ast
from typing import Any

from syncscope.analysis.bindings import assigned, changes, resolved, scope_of
from syncscope.analysis.findings import factory_in
from syncscope.analysis.syntax import Source, dotted_name, keyword, last_name, words

_NUMERIC = words("len int float abs round")


def literal(source: Source, node: ast.expr) -> Any:
    """Value of a literal, also through a name that is bound once and never changed; else None."""
    if isinstance(node, ast.Name) and changes(source, node, node.id):
        return None
    try:
        return ast.literal_eval(resolved(source, node))
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def is_number(source: Source, node: ast.expr) -> bool:
    """Whether an expression is a Python number for certain."""
    node = resolved(source, node)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, bool | int | float)
    if isinstance(node, ast.UnaryOp):
        return is_number(source, node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(source, node.left) and is_number(source, node.right)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _NUMERIC
    return isinstance(node, ast.Name) and _counts(source, node)


def _counts(source: Source, name: ast.Name) -> bool:
    """Whether a name is only the counter of `for name in range(...)`, or of enumerate."""
    bound = scope_of(source, name).bindings(name.id)
    if len(bound) != 1:
        return False
    for parent in source.around(bound[0]):
        if isinstance(parent, ast.For) and isinstance(parent.iter, ast.Call):
            called, target = dotted_name(parent.iter.func), parent.target
            first = target.elts[0] if isinstance(target, ast.Tuple) else None
            return (called == "range" and target is bound[0]) or (
                called == "enumerate" and first is bound[0]
            )
        if not isinstance(parent, ast.Tuple):
            return False
    return False


def is_device(source: Source, node: ast.expr) -> bool:
    """Whether an expression can only be a device: a text, torch.device(...), or its name."""
    return _names_device(node) or _names_device(resolved(source, node))


def _names_device(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    name = last_name(node.func) if isinstance(node, ast.Call) else last_name(node)
    named = name.lower().strip("_")
    held = named in {"dev", "cuda", "gpu"} and not isinstance(node, ast.Call)
    return held or named == "device" or named.endswith("_device")


def is_dtype(node: ast.expr) -> bool:
    """Whether an expression is `torch.float16` or the like."""
    module, _, name = dotted_name(node).rpartition(".")
    return module == "torch" and name in _DTYPES


_DTYPES = words(
    "float float16 float32 float64 half double bfloat16 int int8 int16 int32 int64 short long "
    "uint8 bool complex64 complex128 cfloat cdouble"
)


Shape = tuple[str, ...] | str
"""Lengths as source texts, or, where they are not known, the text of what has that shape."""

_SHAPED = words("empty ones zeros rand randn")
_LIKE = words("empty_like ones_like zeros_like rand_like randn_like full_like")
_KEEPING = words("isnan isfinite isinf isposinf isneginf logical_not abs")


def shape_of(source: Source, node: ast.expr) -> Shape:
    """Shape of a tensor expression. Equal results mean equal shapes; () is a 0-d tensor."""
    if isinstance(node, ast.Name) and (shape := _shape_of_all(source, node)) is not None:
        return shape
    node = resolved(source, node)
    shape = None
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        shape = _together(source, node.left, node.comparators[0])
    elif isinstance(node, ast.BinOp):
        shape = _together(source, node.left, node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        shape = shape_of(source, node.operand)
    elif isinstance(node, ast.Call):
        shape = _shape_of_call(source, node)
    elif isinstance(node, ast.Subscript):
        shape = _shape_of_part(source, node)
    return _opaque(source, node) if shape is None else shape


def _shape_of_all(source: Source, name: ast.Name) -> Shape | None:
    """The shape that all assignments of a name agree on; None if they do not, or use it."""
    bound = scope_of(source, name).bindings(name.id)
    values = [assigned(source, binding) for binding in bound]
    if len(bound) < 2 or any(
        value is None
        or any(isinstance(node, ast.Name) and node.id == name.id for node in ast.walk(value))
        for value in values
    ):
        return None
    shapes = {shape_of(source, value) for value in values if value is not None}
    return shapes.pop() if len(shapes) == 1 else None


def _opaque(source: Source, node: ast.expr) -> str:
    """A name for an unknown shape: the text, if it stands for one object in its function."""
    scope = scope_of(source, node)
    for inner in ast.walk(node):
        stored = isinstance(inner, ast.Attribute) and any(
            isinstance(other, ast.Attribute)
            and isinstance(other.ctx, ast.Store)
            and other.attr == inner.attr
            for other in ast.walk(scope.node)
        )
        bound_often = isinstance(inner, ast.Name) and len(scope.bindings(inner.id)) > 1
        if stored or bound_often or isinstance(inner, ast.Call):
            return f"{ast.unparse(node)} in line {node.lineno}, column {node.col_offset}"
    return ast.unparse(node)


def _together(source: Source, left: ast.expr, right: ast.expr) -> Shape | None:
    """Shape of an elementwise result of two operands; None if they may broadcast."""
    if is_number(source, right):
        return shape_of(source, left)
    if is_number(source, left):
        return shape_of(source, right)
    shape = shape_of(source, left)
    return shape if shape == shape_of(source, right) else None


def _shape_of_call(source: Source, call: ast.Call) -> Shape | None:
    module, _, name = dotted_name(call.func).rpartition(".")
    plain = not any(isinstance(argument, ast.Starred) for argument in call.args)
    if module == "torch" and plain:
        if name in _SHAPED | {"full"} and call.args and isinstance(call.args[0], ast.Tuple):
            return tuple(ast.unparse(length) for length in call.args[0].elts)
        if name in _SHAPED and len(call.args) > 1:
            return tuple(ast.unparse(length) for length in call.args)
        if name in _LIKE | _KEEPING and call.args:
            return shape_of(source, call.args[0])
    if module in {"torch", "torch.linalg"} and name in _REDUCING and len(call.args) == 1:
        return None if call.keywords else ()
    if name in _LOSSES and module in _FUNCTIONAL and keyword(call, "reduction") is None:
        return ()
    if isinstance(call.func, ast.Attribute) and call.func.attr == "to":
        return shape_of(source, call.func.value)
    if isinstance(call.func, ast.Attribute) and not call.args and not call.keywords:
        name = call.func.attr
        if name in _REDUCING and module != "torch":
            return ()
        if name in _KEEPING | {"detach", "clone", "cuda", "cpu"}:
            return shape_of(source, call.func.value)
    return None


_REDUCING = words("sum mean std var any all norm vector_norm prod amax amin max min argmax argmin")
_LOSSES = words(
    "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss l1_loss "
    "mse_loss nll_loss smooth_l1_loss"
)
_FUNCTIONAL = words("F torch.nn.functional nn.functional functional")


def _shape_of_part(source: Source, node: ast.Subscript) -> Shape | None:
    """`x[:, 0]` of a shape that is known: whole slices stay, numbers go, None adds one."""
    shape = shape_of(source, node.value)
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(shape, str):
        return None
    kept, rest = [], list(shape)
    for part in parts:
        if isinstance(part, ast.Constant) and part.value is None:
            kept.append("1")
        elif not rest:
            return None
        elif isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step):
            kept.append(rest.pop(0))
        elif isinstance(part, ast.Constant) and type(part.value) is int:
            rest.pop(0)
        else:
            return None
    return (*kept, *rest)


def is_pure(node: ast.expr) -> bool:
    """Whether an expression consists of names, numbers, arithmetic and torch's pure calls."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.Call) and not _is_pure_call(inner):
            return False
        if isinstance(inner, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom | ast.Lambda):
            return False
    return True


_PURE = words(
    "abs all any amax amin clamp detach exp isfinite isinf isnan log max mean min norm prod sqrt "
    "square std sum var zeros_like ones_like clone count_nonzero logical_not"
)


def _is_pure_call(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _PURE


def is_tensor(source: Source, name: ast.Name) -> bool:
    """Whether a name can only be a tensor: a factory made it, or its function says so."""
    value = resolved(source, name)
    while isinstance(value, ast.Call) and last_name(value.func) in {"to", "cuda", "cpu"}:
        value = value.func.value if isinstance(value.func, ast.Attribute) else name
    if factory_in(value) is not None or isinstance(shape_of(source, name), tuple):
        return True
    methods = (
        _REDUCING | _KEEPING | {"detach", "backward", "clamp", "square", "view", "masked_fill"}
    )
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in methods
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == name.id
        for node in ast.walk(scope_of(source, name).node)
    )
