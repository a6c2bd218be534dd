"""Rewrites of readbacks that a loop repeats: collect on the device, read once."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from syncscope.analysis.bindings import (
    Function,
    Loop,
    Scope,
    assigned,
    block_of,
    changed_after,
    changes,
    loops_of,
    scope_of,
)
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import Edits, after, all_or_none, at, before, here, operand
from syncscope.analysis.rewrites.values import is_tensor
from syncscope.analysis.syntax import Source, last_name


@dataclass(frozen=True)
class Reading:
    """`x.item()`, `float(x)` or `int(x)`: what reads ("item", "float", "int"), and what."""

    kind: str
    tensor: ast.expr
    node: ast.Call


def reading(finding: Finding) -> Reading | None:
    """The one number that a finding reads; None if it is something else or no file is kept."""
    call = finding.expression.node
    if not isinstance(call, ast.Call) or not finding.expression.in_file or call.keywords:
        return None
    if isinstance(call.func, ast.Attribute) and call.func.attr == "item" and not call.args:
        return Reading("item", call.func.value, call)
    named = isinstance(call.func, ast.Name) and call.func.id in {"float", "int"}
    if named and len(call.args) == 1 and not isinstance(call.args[0], ast.Starred):
        return Reading(last_name(call.func), call.args[0], call)
    return None


def read_after_loop(finding: Finding) -> Edits:
    """Sums, lists and values for the log, read when they are needed."""
    read = reading(finding)
    if read is None or not _has_torch(finding.expression.source):
        return ()
    return _summed(finding, read) or _listed(finding, read) or _sunk(finding, read)


def _summed(finding: Finding, read: Reading) -> Edits:
    """`total += x.item()` -> `total += x.detach().double()`, and one float() after the loop.

    Python adds in double precision, so the device does. The size of what was read tells
    numbers of single precision from integers, which need no conversion.
    """
    source, statement = finding.expression.source, finding.expression.statement
    if not isinstance(statement, ast.AugAssign) or statement.value is not read.node:
        return ()
    target = statement.target
    if not isinstance(target, ast.Name) or not isinstance(statement.op, ast.Add | ast.Sub):
        return ()
    scope = scope_of(source, statement)
    first = [node for node in scope.bindings(target.id) if node is not target]
    starts = [_number(assigned(source, node)) for node in first]
    uses = [*first, *scope.reads(target.id)]
    loop = _loop_without(source, scope, statement, uses)
    if loop is None or not starts or None in starts or not finding.each_bytes:
        return ()
    floats = any(isinstance(start, float) for start in starts)
    added, result = _sum_of(source, read, target.id, finding.each_bytes, floats=floats)
    return all_or_none(here(finding, added), after(finding, loop, f"{target.id} = {result}"))


def _number(node: ast.expr | None) -> int | float | None:
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _sum_of(
    source: Source, read: Reading, name: str, size_bytes: int, *, floats: bool
) -> tuple[str, str]:
    """What to add on the device, and how to read the sum as the Python number it was."""
    tensor = operand(source, read.tensor)
    if read.kind == "int":
        return f"{tensor}.long()", f"int({name})"
    if read.kind == "float" or size_bytes in (2, 4):
        return f"{tensor}.detach().double()", f"float({name})"
    return f"{tensor}.detach()", f"float({name})" if floats else f"torch.as_tensor({name}).item()"


def _listed(finding: Finding, read: Reading) -> Edits:
    """`values.append(x.item())` -> `values.append(x.detach())`, read as one after the loop."""
    source, found = finding.expression.source, _appended_to(finding, read.node)
    if found is None or _may_change(finding, read.tensor):
        return ()
    name, loop = found
    tensor = operand(source, read.tensor)
    kept = {"item": ".detach()", "float": ".detach().double()", "int": ".long()"}[read.kind]
    gathered = f"{name} = torch.stack({name}).flatten().tolist() if {name} else []"
    return all_or_none(here(finding, f"{tensor}{kept}"), after(finding, loop, gathered))


def _appended_to(finding: Finding, node: ast.expr) -> tuple[str, Loop] | None:
    """The list that `name.append(node)` fills in a loop which does not look into it."""
    source, statement = finding.expression.source, finding.expression.statement
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or call.args != [node] or call.keywords:
        return None
    method = call.func
    if not isinstance(method, ast.Attribute) or method.attr != "append":
        return None
    if not isinstance(method.value, ast.Name):
        return None
    scope, name = scope_of(source, call), method.value.id
    start = scope.value(name)
    if not isinstance(start, ast.List) or start.elts:
        return None
    uses = [*scope.bindings(name), *(use for use in scope.reads(name) if use is not method.value)]
    loop = _loop_without(source, scope, call, uses)
    return None if loop is None else (name, loop)


def _loop_without(
    source: Source, scope: Scope, node: ast.AST, uses: list[ast.AST] | list[ast.Name]
) -> Loop | None:
    """The outermost loop around a node in which there are none of the uses.

    None also where a function inside uses the name: it may be called from the loop.
    """
    if any(scope_of(source, use) is not scope for use in uses):
        return None
    if any(
        isinstance(part, Function | ast.Lambda)
        for use in uses
        for part in _up_to(source, use, scope.node)
    ):
        return None
    best = None
    for loop in loops_of(source, node):
        inside = {id(part) for part in ast.walk(loop)}
        if any(id(use) in inside for use in uses):
            break
        best = loop
    return best


def _up_to(source: Source, node: ast.AST, end: ast.AST) -> list[ast.AST]:
    found = []
    for parent in source.around(node):
        if parent is end:
            break
        found.append(parent)
    return found


def _may_change(finding: Finding, tensor: ast.expr) -> bool:
    """Whether what is kept instead of a number may be changed in place before it is read."""
    statement, source = finding.expression.statement, finding.expression.source
    if statement is None:
        return True
    if isinstance(tensor, ast.Call) and last_name(tensor.func) in _FRESH:
        return False
    names = {node.id for node in ast.walk(tensor) if isinstance(node, ast.Name)}
    return any(changed_after(source, statement, name) for name in names)


_FRESH = frozenset({"sum", "mean", "std", "var", "norm", "prod", "count_nonzero", "any", "all"})


def _sunk(finding: Finding, read: Reading) -> Edits:
    """A value that only a later `if` uses (every N steps) is read inside that `if`."""
    source, statement = finding.expression.source, finding.expression.statement
    if not isinstance(statement, ast.Assign) or statement.value is not read.node:
        return ()
    (target, *others) = statement.targets
    if others or not isinstance(target, ast.Name) or _may_change(finding, read.tensor):
        return ()
    scope = scope_of(source, statement)
    reads, bound = scope.reads(target.id), scope.bindings(target.id)
    block = block_of(source, statement)
    for branch in block[block.index(statement) + 1 :]:
        if not isinstance(branch, ast.If):
            continue
        inside = {id(part) for each in branch.body for part in ast.walk(each)}
        if bound == [target] and reads and all(id(node) in inside for node in reads):
            value = f"{target.id}.item()" if read.kind == "item" else f"{read.kind}({target.id})"
            kept = f"{operand(source, read.tensor)}.detach()"
            line = f"{target.id} = {value}"
            return all_or_none(here(finding, kept), before(finding, branch.body[0], line))
    return ()


def _has_torch(source: Source) -> bool:
    return any(
        isinstance(node, ast.Import) and any(alias.name == "torch" for alias in node.names)
        for node in source.tree.body
    )


def iterated_on_host(finding: Finding) -> Edits:
    """`for n in lengths:` -> `for n in lengths.flatten().tolist():` where n is only a number.

    One wait before the loop takes the place of one or more in each round.
    """
    source, node = finding.expression.source, finding.expression.node
    if node is None or not finding.expression.in_file:
        return ()
    names = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
    for loop in loops_of(source, node):
        target = loop.target if isinstance(loop, ast.For) else None
        if not isinstance(loop, ast.For) or not isinstance(target, ast.Name):
            continue
        scope = scope_of(source, loop)
        reads = scope.reads(target.id)
        if target.id not in names or scope.bindings(target.id) != [target]:
            continue
        if not isinstance(loop.iter, ast.Name) or not reads or not is_tensor(source, loop.iter):
            return ()
        if changes(source, loop, loop.iter.id):
            return ()
        if not all(_is_bound_or_number(source, read) for read in reads):
            return ()
        return at(finding, loop.iter, f"{source.segment(loop.iter)}.flatten().tolist()")
    return ()


def _is_bound_or_number(source: Source, read: ast.Name) -> bool:
    """Whether a name is read as an int: by int(), float(), range(), or as the end of a slice."""
    for parent in source.around(read):
        if isinstance(parent, ast.Call):
            return isinstance(parent.func, ast.Name) and parent.func.id in {"int", "float", "range"}
        if isinstance(parent, ast.Slice):
            return True
        if not isinstance(parent, ast.BinOp):
            return False
    return False
