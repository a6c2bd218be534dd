"""What rewrites are made of: edits at positions of a file."""

from __future__ import annotations

import ast

from syncscope.analysis.findings import Finding
from syncscope.analysis.syntax import Expression, Source, Span, keyword
from syncscope.records import Edit

Edits = tuple[Edit, ...]


def none(finding: Finding) -> Edits:
    """For causes without an exact rewrite."""
    return ()


def here(finding: Finding, code: str) -> Edits:
    """Replace the expression of the finding by `code`; no edit if that is ""."""
    expression = finding.expression
    if not code or expression.span[1] < 1 or expression.span[3] < 1:
        return ()
    if any(isinstance(node, ast.JoinedStr) for node in expression.around):
        return ()
    return (_edit(finding, expression.span, code),)


def at(finding: Finding, node: ast.expr | ast.stmt, code: str) -> Edits:
    """Replace another node of the same file; no edit if the file is not at hand."""
    if not code or not finding.expression.in_file:
        return ()
    return (_edit(finding, finding.expression.source.span(node), code),)


def before(finding: Finding, statement: ast.stmt, *lines: str) -> Edits:
    """Insert lines before a statement, which must start its line."""
    source = finding.expression.source
    line, column = source.span(statement)[:2]
    indent = source.lines[line - 1][: column - 1]
    if indent.strip():
        return ()
    code = "".join(f"{text}\n{indent}" for text in lines)
    return (_edit(finding, (line, column, line, column), code),)


def after(finding: Finding, statement: ast.stmt, *lines: str) -> Edits:
    """Insert lines after a statement, which must end its line (a comment may follow)."""
    source = finding.expression.source
    line, column, end_line, end_column = source.span(statement)
    indent, last = source.lines[line - 1][: column - 1], source.lines[end_line - 1]
    rest = last[end_column - 1 :].strip()
    if indent.strip() or (rest and not rest.startswith("#")):
        return ()
    end = len(last) + 1
    code = "".join(f"\n{indent}{text}" for text in lines)
    return (_edit(finding, (end_line, end, end_line, end), code),)


def _edit(finding: Finding, span: Span, code: str) -> Edit:
    return Edit(finding.place.frame.file, *span, code)


def all_or_none(*parts: Edits) -> Edits:
    """All edits together, or none if one of the parts has none."""
    return tuple(edit for part in parts for edit in part) if all(parts) else ()


def pins(edits: Edits) -> bool:
    """Whether edits pin a tensor, which fails without a GPU; a DataLoader only warns."""
    return any(
        ".pin_memory()" in edit.code or "pin_memory=True).to(" in edit.code for edit in edits
    )


def with_argument(source: Source, call: ast.Call, name: str, value: str) -> str:
    """Source of a call with the keyword argument `name=value` added, or replaced.

    "" if that cannot be said with certainty: the result is parsed and compared.
    """
    if any(word.arg is None for word in call.keywords):
        return ""
    text, known = source.segment(call), keyword(call, name)
    if known is not None:
        code = substituted(source, call, known, value)
    elif call.args or call.keywords:
        head = text.removesuffix(")").rstrip().removesuffix(",")
        code = f"{head}, {name}={value})"
    else:
        code = f"{text.removesuffix(')')}{name}={value})"
    changed = _parsed(code)
    if not isinstance(changed, ast.Call) or len(changed.args) != len(call.args):
        return ""
    wanted = [word.arg for word in call.keywords] + ([] if known is not None else [name])
    return code if [word.arg for word in changed.keywords] == wanted else ""


def substituted(source: Source, whole: ast.expr, part: ast.expr, code: str) -> str:
    """Source of `whole` with `code` in place of `part`, a node inside it."""
    line, column, end_line, end_column = source.span(whole)
    part_line, part_column, part_end_line, part_end_column = source.span(part)
    head = source.text((line, column, part_line, part_column))
    tail = source.text((part_end_line, part_end_column, end_line, end_column))
    return f"{head}{code}{tail}"


def operand(source: Source, node: ast.expr) -> str:
    """Source of an expression, in parentheses unless it can stand next to any operator."""
    text = source.segment(node)
    single = ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant
    negative = isinstance(node, ast.Constant) and text.startswith("-")
    return text if isinstance(node, single) and not negative else f"({text})"


def one_line_call(expression: Expression) -> ast.Call | None:
    """The call that the expression is, exactly (not a call somewhere in a line)."""
    return expression.node if isinstance(expression.node, ast.Call) else None


def _parsed(code: str) -> ast.expr | None:
    try:
        return ast.parse(code, mode="eval").body
    except (SyntaxError, ValueError):
        return None
