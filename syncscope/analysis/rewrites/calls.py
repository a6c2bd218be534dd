"""Rewrites of calls: another argument or another function of the same result."""

from __future__ import annotations

import ast

from syncscope.analysis.bindings import changes, resolved
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import (
    Edits,
    at,
    here,
    one_line_call,
    operand,
    with_argument,
)
from syncscope.analysis.rewrites.values import literal
from syncscope.analysis.syntax import Source, dotted_name, keyword, last_name

_FIELDS = {"cholesky": "L", "inv": "inverse", "inverse": "inverse", "solve": "result"}


def linalg_ex(finding: Finding) -> Edits:
    """`torch.linalg.inv(a)` -> `torch.linalg.inv_ex(a).inverse`; what fails is not raised."""
    expression, call = finding.expression, one_line_call(finding.expression)
    if call is None or keyword(call, "out") is not None:
        return ()
    module, _, function = dotted_name(call.func).rpartition(".")
    if function not in _FIELDS or (function == "solve" and module == "torch"):
        return ()
    arguments = expression.text.removeprefix(expression.segment(call.func))
    function = "inv" if function == "inverse" else function
    if module in {"torch", "torch.linalg", "linalg", "LA"}:
        prefix = "torch.linalg" if module == "torch" else module
        return here(finding, f"{prefix}.{function}_ex{arguments}.{_FIELDS[function]}")
    return ()


def without_validation(finding: Finding) -> Edits:
    """`Normal(mu, sd)` -> `Normal(mu, sd, validate_args=False)`, also from a method's line."""
    call = one_line_call(finding.expression)
    source = finding.expression.source
    if call is None:
        return ()
    if last_name(call.func)[:1].isupper():
        return here(finding, _unvalidated(source, call))
    if not isinstance(call.func, ast.Attribute) or not finding.expression.in_file:
        return ()
    made = resolved(source, call.func.value)
    if call.func.attr == "sample" and _is_normal(finding):
        arguments = finding.expression.text.removeprefix(source.segment(call.func))
        return here(finding, f"{source.segment(call.func.value)}.rsample{arguments}.detach()")
    if isinstance(made, ast.Call) and last_name(made.func)[:1].isupper():
        return at(finding, made, _unvalidated(source, made))
    return ()


def _unvalidated(source: Source, call: ast.Call) -> str:
    told = keyword(call, "validate_args") is not None
    return "" if told else with_argument(source, call, "validate_args", "False")


def _is_normal(finding: Finding) -> bool:
    """Whether Normal.sample() is asked: its rsample() draws the same numbers, unchecked."""
    inner = {(frame.file, frame.function) for frame in finding.place.inner}
    return ("torch/distributions/normal.py", "Normal.sample") in inner


def with_library_argument(finding: Finding) -> Edits:
    """The argument that keeps one of torch's own functions from reading a value back."""
    source, call = finding.expression.source, one_line_call(finding.expression)
    if call is None:
        return ()
    name = last_name(call.func)
    checks = keyword(call, "error_if_nonfinite")
    if name == "clip_grad_norm_" and isinstance(checks, ast.Constant) and checks.value is True:
        return here(finding, with_argument(source, call, "error_if_nonfinite", "False"))
    if finding.is_inside("torch/nn/modules/transformer.py") and _masks_the_future(source, call):
        return here(finding, with_argument(source, call, "is_causal", "True"))
    return ()


def _masks_the_future(source: Source, call: ast.Call) -> bool:
    """Whether the mask of an encoder's call is the causal one for certain."""
    mask = keyword(call, "mask")
    if mask is None or keyword(call, "is_causal") is not None:
        return False
    if isinstance(mask, ast.Name) and changes(source, mask, mask.id):
        return False
    made = resolved(source, mask)
    causal = isinstance(made, ast.Call) and last_name(made.func)
    return causal == "generate_square_subsequent_mask"


def output_sized(finding: Finding) -> Edits:
    """Sizes that the host knows: `repeat_interleave(..., output_size=)`; no invariant checks."""
    source, call = finding.expression.source, one_line_call(finding.expression)
    if call is None:
        return ()
    module, _, name = dotted_name(call.func).rpartition(".")
    checks = keyword(call, "check_invariants")
    if name == "sparse_coo_tensor" and isinstance(checks, ast.Constant) and checks.value is True:
        return here(finding, with_argument(source, call, "check_invariants", "False"))
    if name != "repeat_interleave" or keyword(call, "output_size") is not None:
        return ()
    position = 1 if module == "torch" and len(call.args) > 1 else 0
    repeats = keyword(call, "repeats") or next(iter(call.args[position : position + 1]), None)
    total = _total(source, repeats) if repeats is not None else ""
    return here(finding, with_argument(source, call, "output_size", total)) if total else ()


def _total(source: Source, repeats: ast.expr) -> str:
    """Source of the sum of a tensor that the host made from numbers it knows; else ""."""
    if isinstance(repeats, ast.Name) and changes(source, repeats, repeats.id):
        return ""
    made = resolved(source, repeats)
    if not isinstance(made, ast.Call) or not made.args:
        return ""
    made_by, first = dotted_name(made.func), made.args[0]
    if made_by in {"torch.tensor", "torch.as_tensor"} and len(made.args) == 1:
        value = literal(source, first)
        numbers = isinstance(value, list | tuple) and all(type(item) is int for item in value)
        return f"sum({source.segment(first)})" if numbers else ""
    if made_by == "torch.full" and len(made.args) == 2 and isinstance(first, ast.Tuple):
        numbers = len(first.elts) == 1 and all(
            isinstance(literal(source, number), int) for number in (first.elts[0], made.args[1])
        )
        factors = (operand(source, number) for number in (first.elts[0], made.args[1]))
        return " * ".join(factors) if numbers else ""
    return ""


def left_out(finding: Finding) -> Edits:
    """`torch.cuda.empty_cache()` -> `pass`; a statement that only gives memory back."""
    statement = finding.expression.statement
    if not isinstance(statement, ast.Expr) or statement.value is not finding.expression.node:
        return ()
    if finding.expression.dotted != "torch.cuda.empty_cache":
        return ()
    return at(finding, statement, "pass")
