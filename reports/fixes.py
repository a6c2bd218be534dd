"""What part of a source file the rewrite of a site replaces, where that is certain."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass

from syncscope.records import Site


@dataclass(frozen=True, slots=True)
class Region:
    """1-based lines and character columns; `end_column` is one past the last character."""

    line: int
    column: int
    end_line: int
    end_column: int

    def covers(self, other: Region) -> bool:
        """Whether `other` lies in it."""
        return (self.line, self.column) <= (other.line, other.column) and (
            other.end_line,
            other.end_column,
        ) <= (self.end_line, self.end_column)


def rewritten_region(source: str, site: Site) -> Region | None:
    """The region that `site.advice.rewrite` takes the place of; None if there is no saying.

    That is the expression, or the whole statement where the rewrite does the work of one: of
    the assignment to the expression, of the assert that tests it. The source has to hold the
    expression where the site says, and the changed file has to parse. Costs parsing it twice.
    """
    region = Region(site.line, site.column, site.end_line, site.end_column)
    lines = source.split("\n")
    if not site.advice.rewrite or region.column < 1 or region.end_line > len(lines):
        return None
    if _text(lines, region) != site.expression or _parsed(f"({site.expression}\n)") is None:
        return None
    tree = _parsed(source)
    if tree is None:
        return None
    region = _statement_around(tree, lines, region) or region
    return region if _parsed(_replaced(lines, region, site.advice.rewrite)) else None


def _statement_around(tree: ast.Module, lines: list[str], region: Region) -> Region | None:
    """The statement of which the region is what is assigned to, or what is asserted."""
    for node in ast.walk(tree):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            parts = node.targets
        elif isinstance(node, ast.Assert):
            parts = [node.test]
        if any(_region(part, lines).covers(region) for part in parts):
            return _region(node, lines)
    return None


def _region(node: ast.AST, lines: list[str]) -> Region:
    assert isinstance(node, ast.expr | ast.stmt)
    end_line, end = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    return Region(
        node.lineno,
        _column(lines[node.lineno - 1], node.col_offset),
        end_line,
        _column(lines[end_line - 1], end),
    )


def _column(line: str, byte_offset: int) -> int:
    return len(line.encode()[:byte_offset].decode(errors="replace")) + 1


def _text(lines: list[str], region: Region) -> str:
    chosen = lines[region.line - 1 : region.end_line]
    chosen[-1] = chosen[-1][: region.end_column - 1]
    chosen[0] = chosen[0][region.column - 1 :]
    return "\n".join(chosen)


def _replaced(lines: list[str], region: Region, text: str) -> str:
    before = [*lines[: region.line - 1], lines[region.line - 1][: region.column - 1]]
    after = [lines[region.end_line - 1][region.end_column - 1 :], *lines[region.end_line :]]
    return "\n".join(before) + text + "\n".join(after)


def _parsed(text: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a program's odd escapes are not ours to warn of
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
