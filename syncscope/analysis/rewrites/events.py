"""Rewrites with an event: copies that nobody waits for, and the wait before they are read."""

from __future__ import annotations

import ast

from syncscope.analysis.bindings import block_of, loops_of, scope_of, statement_of
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import (
    Edits,
    after,
    all_or_none,
    before,
    here,
    one_line_call,
    operand,
)
from syncscope.analysis.rewrites.loops import _appended_to
from syncscope.analysis.syntax import Source, keyword, root_name


def copied_in_loop(finding: Finding) -> Edits:
    """`rows.append(x.cpu())` in a loop: copy without waiting, one event wait after the loop."""
    call, source = one_line_call(finding.expression), finding.expression.source
    if call is None or not isinstance(call.func, ast.Attribute) or call.func.attr != "cpu":
        return ()
    found = _appended_to(finding, call) if not call.args and not call.keywords else None
    if found is None:
        return ()
    event = _unused_name(source, call)
    copy = f'{operand(source, call.func.value)}.to("cpu", non_blocking=True)'
    lines = (f"{event} = torch.cuda.Event()", f"{event}.record()", f"{event}.synchronize()")
    return all_or_none(here(finding, copy), after(finding, found[1], *lines))


def waited_for(finding: Finding) -> Edits:
    """An event recorded after a non_blocking copy, waited for before its buffer is touched."""
    expression, statement = finding.expression, finding.expression.statement
    if statement is None or expression.node is None or not expression.in_file:
        return ()
    source = expression.source
    names = {node.id for node in ast.walk(expression.node) if isinstance(node, ast.Name)}
    block = block_of(source, statement)
    copies = [each for each in block if _copies(each) & names and each is not statement]
    if len(copies) != 1:
        return ()
    (copy,) = copies
    event = _unused_name(source, statement)
    wait = before(finding, statement, f"{event}.synchronize()")
    if block.index(copy) < block.index(statement):
        made = after(finding, copy, f"{event} = torch.cuda.Event()", f"{event}.record()")
        return all_or_none(made, wait)
    loops = loops_of(source, statement)
    if not loops:
        return ()
    made = before(finding, loops[-1], f"{event} = torch.cuda.Event()")
    return all_or_none(made, wait, after(finding, copy, f"{event}.record()"))


def _copies(statement: ast.stmt) -> set[str]:
    """Names of the host buffers that a statement copies to or from without waiting."""
    found = set()
    for call in ast.walk(statement):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
            continue
        told = keyword(call, "non_blocking")
        if not isinstance(told, ast.Constant) or told.value is not True:
            continue
        found.add(root_name(call.func.value))
        if call.func.attr == "copy_":
            found |= {root_name(argument) for argument in call.args}
        if isinstance(statement, ast.Assign):
            found |= {root_name(target) for target in statement.targets}
    return found - {""}


def _unused_name(source: Source, node: ast.AST) -> str:
    statement = statement_of(source, node)
    scope = scope_of(source, statement or node)
    names = ["copied", *(f"copied_{number}" for number in range(2, 100))]
    return next(name for name in names if not scope.binds(name))
