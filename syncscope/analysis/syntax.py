"""What the source text of a site says: its expression as a syntax tree, and what is around."""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from syncscope.analysis.stacks import Frame

Span = tuple[int, int, int, int]
"""Line, column, end line, end column: 1-based, in characters, the end exclusive."""


class Source:
    """A piece of program text and its syntax tree; each file is parsed once.

    Raises nothing: text that does not parse has no nodes.
    """

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.tree = _tree(text) or ast.Module([], [])
        self._parents: dict[ast.AST, ast.AST] = {}
        self._nodes: dict[Span, ast.AST] = {}
        for node in ast.walk(self.tree):
            for child in ast.iter_child_nodes(node):
                self._parents[child] = node
            if isinstance(node, ast.expr | ast.stmt):
                self._nodes[self.span(node)] = node

    def at(self, span: Span) -> ast.AST | None:
        """The innermost node that has this position."""
        return self._nodes.get(span)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that enclose a node, innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def span(self, node: ast.expr | ast.stmt) -> Span:
        """Position of a node."""
        end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return (
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, end),
        )

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """Source text of a node."""
        return self.text(self.span(node))

    def text(self, span: Span) -> str:
        """Source text between two positions."""
        line, column, end_line, end_column = span
        lines = self.lines[line - 1 : end_line]
        if not lines:
            return ""
        lines[-1] = lines[-1][: end_column - 1]
        lines[0] = lines[0][column - 1 :]
        return "\n".join(lines)

    def _column(self, line: int, byte_offset: int) -> int:
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if text.isascii():
            return byte_offset + 1
        return len(text.encode(errors="replace")[:byte_offset].decode(errors="replace")) + 1


@dataclass(frozen=True)
class Expression:
    """The expression of a site. `text` is as written; `node` is None if it does not parse.

    `source` holds the node. It is the whole file where that was kept and has the expression
    (`in_file`), else only the expression itself. `span` is its position in the file.
    """

    text: str
    node: ast.AST | None
    source: Source
    span: Span
    in_file: bool

    @cached_property
    def around(self) -> tuple[ast.AST, ...]:
        """The node and those that enclose it in its file, innermost first; else empty."""
        if not self.in_file or self.node is None:
            return ()
        return (self.node, *self.source.around(self.node))

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

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """Source text of a node of this expression or of its file."""
        return self.source.segment(node)

    @property
    def is_store(self) -> bool:
        """Whether it is the target of an assignment."""
        return isinstance(getattr(self.node, "ctx", None), ast.Store)

    @property
    def statement(self) -> ast.stmt | None:
        """The statement it stands in."""
        found = (node for node in (*self.around, self.node) if isinstance(node, ast.stmt))
        return next(found, None)


class Sources:
    """Finds expressions in the kept source files."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts
        self._files: dict[str, Source] = {}

    def expression(self, frame: Frame) -> Expression:
        """The expression of a frame, in its file if the source was kept."""
        if frame.file not in self._files:
            self._files[frame.file] = Source(self._texts.get(frame.file, ""))
        source = self._files[frame.file]
        span = (frame.line, frame.column, frame.end_line, frame.end_column)
        node = source.at(span)
        if node is not None and source.text(span) == frame.expression:
            return Expression(frame.expression, node, source, span, True)
        alone, node = _parsed(frame.expression)
        return Expression(frame.expression, node, alone, span, False)


def parse(text: str) -> ast.AST | None:
    """An expression or a line of code as a tree; None if it is neither."""
    return _parsed(text)[1]


def _parsed(text: str) -> tuple[Source, ast.AST | None]:
    line = textwrap.dedent(text)
    for attempt in (f"({text}\n)", line, line + " pass", f"if True: pass\n{line} pass"):
        source = Source(attempt)
        if source.tree.body:
            last = source.tree.body[-1]
            return source, last.value if isinstance(last, ast.Expr) else last
    return Source(""), None


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


def root_name(node: ast.AST) -> str:
    """`a` of `a.b[c].d`; "" if it does not start with a name."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def is_plain(node: ast.AST) -> bool:
    """Whether it is a name with attributes, which may be evaluated twice."""
    return bool(dotted_name(node)) and not dotted_name(node).startswith(".")


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """Value of a keyword argument of a call, or None."""
    return next((word.value for word in call.keywords if word.arg == name), None)
