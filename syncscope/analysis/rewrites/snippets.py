"""How rewrites are shown: whole statements in the order of the source, and where they go."""

from __future__ import annotations

import ast
import io
import textwrap
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass

from syncscope.analysis.bindings import Loop
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import Edits
from syncscope.analysis.syntax import Source, Span
from syncscope.records import Edit


@dataclass(frozen=True, slots=True)
class _Piece:
    """Lines of code as they are in the changed file, below a comment that says where."""

    place: tuple[int, int]
    comment: str
    indent: str
    code: str


def shown(finding: Finding, edits: Edits) -> str:
    """The statements that edits change or add, each below a comment that says where it is.

    Indented as in the source, less what all lines share. A statement alone needs no comment if
    it takes the place of the finding's own line, and only the expression is known where the file
    was not kept.
    """
    source = finding.expression.source
    if not finding.expression.in_file:
        return "\n".join(edit.code for edit in edits)
    added = [edit for edit in edits if _inserts(edit)]
    changed: dict[Span, list[Edit]] = {}
    for edit in edits:
        if not _inserts(edit):
            changed.setdefault(_whole(source, edit), []).append(edit)
    pieces = [_changed(source, span, own) for span, own in changed.items()]
    pieces += [_added(source, edit) for edit in added]
    own = finding.place.frame.line
    if not added and [(line, end_line) for line, _, end_line, _ in changed] == [(own, own)]:
        return textwrap.dedent(f"{pieces[0].indent}{pieces[0].code}")
    pieces.sort(key=lambda piece: piece.place)
    return textwrap.dedent(
        "\n".join(f"{piece.indent}{piece.comment}\n{piece.indent}{piece.code}" for piece in pieces)
    )


def _inserts(edit: Edit) -> bool:
    return (edit.line, edit.column) == (edit.end_line, edit.end_column)


def _added(source: Source, edit: Edit) -> _Piece:
    """Lines before or after a statement, which for a loop are not in it."""
    line, after = edit.line, edit.code.startswith("\n")
    if after:
        first, *more = edit.code.split("\n")[1:]
        indent = first[: len(first) - len(first.lstrip())]
        lines = [first.removeprefix(indent), *more]
    else:
        indent = source.lines[line - 1][: edit.column - 1]
        lines = edit.code.split("\n")[:-1]
    text = source.lines[line - 1]
    first_character = len(text) - len(text.lstrip()) + 1
    around = _statements_at(source, (line, first_character))
    beside = [each for each in around if source.span(each)[1] == len(indent) + 1]
    loop = any(
        isinstance(each, Loop) and line == (each.end_lineno if after else each.lineno)
        for each in beside
    )
    comment = f"# {'after' if after else 'before'} line {line}:"
    if loop:
        told = f"line {line} is its last line" if after else f"line {line}"
        comment = f"# {'after' if after else 'before'} the loop ({told}):"
    return _Piece((line, edit.column), comment, indent, "\n".join(lines))


def _changed(source: Source, span: Span, edits: list[Edit]) -> _Piece:
    line, column = span[:2]
    text, start = source.text(span), _offset(source, span, (line, column))
    for edit in sorted(edits, key=lambda edit: (edit.line, edit.column), reverse=True):
        begin = _offset(source, span, (edit.line, edit.column)) - start
        end = _offset(source, span, (edit.end_line, edit.end_column)) - start
        text = text[:begin] + edit.code + text[end:]
    before = source.lines[line - 1][: column - 1]
    indent = before[: len(before) - len(before.lstrip())]
    lines = f"lines {line}-{span[2]}" if span[2] > line else f"line {line}"
    return _Piece((line, column), f"# {lines}:", indent, text)


def _offset(source: Source, span: Span, place: tuple[int, int]) -> int:
    """Characters from the beginning of the first line of a span to a place in it."""
    return sum(len(text) + 1 for text in source.lines[span[0] - 1 : place[0] - 1]) + place[1] - 1


def _whole(source: Source, edit: Edit) -> Span:
    """The statement that an edit changes: of one with a block inside, only its head.

    The edit itself where it replaces more than that, or stands in no statement.
    """
    own = (edit.line, edit.column, edit.end_line, edit.end_column)
    around = _statements_at(source, own[:2])
    for statement in reversed(around):
        span = _head(source, statement)
        if span[:2] <= own[:2] and own[2:] <= span[2:]:
            return span
    return own


def _head(source: Source, statement: ast.stmt) -> Span:
    """Where a statement is, without the block inside it and what follows that."""
    line, column, *end = source.span(statement)
    inside = next(_blocks(statement), None)
    if inside is None:
        return line, column, end[0], end[1]
    text = source.text((line, column, *source.span(inside)[:2]))
    row, place = _last_colon(text)
    return line, column, line + row - 1, place + 1 if row > 1 else column + place


def _last_colon(text: str) -> tuple[int, int]:
    """Row and column (from 1 and from 0) after the last colon that is not in a comment."""
    found = (1, len(text))
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP and token.string == ":":
                found = token.end
    except (tokenize.TokenError, SyntaxError):  # a piece of a program need not be one
        pass
    return found


def _statements_at(source: Source, place: tuple[int, int]) -> list[ast.stmt]:
    """The statements around a place, the outermost first."""
    around: list[ast.stmt] = []
    inside: Iterator[ast.stmt] = _blocks(source.tree)
    while True:
        spans = ((each, source.span(each)) for each in inside)
        found = next((each for each, span in spans if span[:2] <= place < span[2:]), None)
        if found is None:
            return around
        around.append(found)
        inside = _blocks(found)


def _blocks(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements directly inside a node, those of handlers and cases included."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            yield from _blocks(child)
