"""What the source text of a site says: its expression as a syntax tree, and what is around."""

from __future__ import annotations

import ast
import textwrap
import warnings
from dataclasses import dataclass
from functools import cached_property

from syncscope.analysis.stacks import Frame


@dataclass(frozen=True)
class Expression:
    """The expression of a site. `text` is as written; `node` is None if it does not parse.

    `around` are the nodes that enclose it in its file, innermost first; empty where the
    source is not at hand.
    """

    text: str
    node: ast.AST | None
    around: tuple[ast.AST, ...] = ()

    @cached_property
    def calls(self) -> tuple[ast.Call, ...]:
        """All calls in it, the outermost first."""
        if self.node is None:
            return ()
        return tuple(node for node in ast.walk(self.node) if isinstance(node, ast.Call))

    @property
    def call(self) -> ast.Call | None:
        """The call that it is, or the only one in a whole line."""
        if isinstance(self.node, ast.Call):
            return self.node
        whole_line = isinstance(self.node, ast.stmt) and len(self.calls) == 1
        return self.calls[0] if whole_line else None

    @property
    def called(self) -> str:
        """Last part of the name of what is called ("item" of `loss.item()`), or ""."""
        return last_name(self.call.func) if self.call else ""

    @property
    def dotted(self) -> str:
        """The whole name of what is called ("torch.linalg.inv"), or ""."""
        return dotted_name(self.call.func) if self.call else ""

    def segment(self, node: ast.AST) -> str:
        """Source text of a node of this expression."""
        return ast.get_source_segment(self._parsed_text, node) or ""

    @property
    def is_store(self) -> bool:
        """Whether it is the target of an assignment."""
        return any(isinstance(getattr(node, "ctx", None), ast.Store) for node in self._itself)

    @property
    def statement(self) -> ast.stmt | None:
        """The statement it stands in."""
        found = (node for node in (*self.around, self.node) if isinstance(node, ast.stmt))
        return next(found, None)

    @property
    def _itself(self) -> tuple[ast.AST | None, ...]:
        return (self.around[0] if self.around else None, self.node)

    @property
    def _parsed_text(self) -> str:
        return f"({self.text}\n)"


class Sources:
    """Finds expressions in the kept source files; each file is parsed once."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._files: dict[str, dict[tuple[int, int, int, int], tuple[ast.AST, ...]]] = {}

    def expression(self, frame: Frame) -> Expression:
        """The expression of a frame, with what is around it if the source was kept."""
        node = parse(frame.expression)
        if frame.file not in self._files:
            self._files[frame.file] = _positions(self._texts.get(frame.file, ""))
        key = (frame.line, frame.column, frame.end_line, frame.end_column)
        return Expression(frame.expression, node, self._files[frame.file].get(key, ()))


def parse(text: str) -> ast.AST | None:
    """An expression or a line of code as a tree; None if it is neither."""
    line = textwrap.dedent(text)
    for attempt in (f"({text}\n)", line, line + " pass", f"if True: pass\n{line} pass"):
        tree = _tree(attempt)
        if tree is not None and tree.body:
            last = tree.body[-1]
            return last.value if isinstance(last, ast.Expr) else last
    return None


def _tree(text: str) -> ast.Module | None:
    """Parse in silence: a program's odd escapes are not ours to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None


def words(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def last_name(node: ast.AST) -> str:
    """Last part of a dotted name, whatever it hangs on; "" for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def dotted_name(node: ast.AST) -> str:
    """`a.b.c` of names and attributes; what hangs on a call or an index starts with "."."""
    if isinstance(node, ast.Attribute):
        return f"{dotted_name(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Value of a keyword argument of a call, or None."""
    return next((word.value for word in call.keywords if word.arg == name), None)


def _positions(text: str) -> dict[tuple[int, int, int, int], tuple[ast.AST, ...]]:
    """Chains (node, parent, ...) by position: 1-based lines and character columns."""
    tree = _tree(text)
    if tree is None:
        return {}
    lines = text.split("\n")
    found: dict[tuple[int, int, int, int], tuple[ast.AST, ...]] = {}
    pending: list[tuple[ast.AST, tuple[ast.AST, ...]]] = [(tree, ())]
    while pending:
        node, above = pending.pop()
        chain = (node, *above[:12])
        if isinstance(node, ast.expr | ast.stmt):
            found[_position(node, lines)] = chain
        pending.extend((child, chain) for child in ast.iter_child_nodes(node))
    return found


def _position(node: ast.expr | ast.stmt, lines: list[str]) -> tuple[int, int, int, int]:
    end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return (
        node.lineno,
        _column(lines, node.lineno, node.col_offset),
        end_line,
        _column(lines, end_line, end),
    )


def _column(lines: list[str], line: int, byte_offset: int) -> int:
    text = lines[line - 1] if line <= len(lines) else ""
    if text.isascii():
        return byte_offset + 1
    return len(text.encode()[:byte_offset].decode(errors="replace")) + 1
