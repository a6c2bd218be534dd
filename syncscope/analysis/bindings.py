"""Where the names of a program get their values: only what is beyond doubt.

A name counts as known if it is bound exactly once in its function (or in its module), so that
every read sees that value. Whatever could be another binding makes it unknown.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import lru_cache

from syncscope.analysis.syntax import Source, last_name, root_name, words

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.AsyncFor | ast.While


class Scope:
    """The names of a function or a module, those of functions inside included."""

    def __init__(self, source: Source, node: ast.AST) -> None:
        self.node = node
        self._source = source
        self._bound: dict[str, list[ast.AST]] = defaultdict(list)
        self._reads: dict[str, list[ast.Name]] = defaultdict(list)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
                self._reads[inner.id].append(inner)
            elif inner is not node:
                for name in _names_bound(inner):
                    self._bound[name].append(inner)

    def binds(self, name: str) -> bool:
        return name in self._bound

    def bindings(self, name: str) -> list[ast.AST]:
        return self._bound.get(name, [])

    def reads(self, name: str) -> list[ast.Name]:
        return self._reads.get(name, [])

    def value(self, name: str) -> ast.expr | None:
        """What the only assignment of a name assigns."""
        bound = self.bindings(name)
        return assigned(self._source, bound[0]) if len(bound) == 1 else None


def assigned(source: Source, binding: ast.AST) -> ast.expr | None:
    """What an assignment gives to a name, given as the node that binds it; None for others."""
    if not isinstance(binding, ast.Name):
        return None
    for parent in source.around(binding):
        if isinstance(parent, ast.Assign):
            parts = (_part_for(binding, target, parent.value) for target in parent.targets)
            return next((part for part in parts if part is not None), None)
        if isinstance(parent, ast.AnnAssign):
            return parent.value if parent.target is binding else None
        if not isinstance(parent, ast.Tuple):
            return None
    return None


def _names_bound(node: ast.AST) -> list[str]:
    """Names that a node (not those inside it) binds, or makes doubtful."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.alias):
        return [(node.asname or node.name).partition(".")[0]]
    if isinstance(node, Function | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Global | ast.Nonlocal):
        return [*node.names, *node.names]
    name = getattr(node, "name", None) or getattr(node, "rest", None)
    patterns = ast.ExceptHandler | ast.MatchAs | ast.MatchStar | ast.MatchMapping
    return [name] if isinstance(node, patterns) and isinstance(name, str) else []


def _part_for(name: ast.Name, target: ast.expr, value: ast.expr) -> ast.expr | None:
    """The part of `value` that goes to `name` in `target = value`."""
    if target is name:
        return value
    if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
        return None
    starred = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    if starred or len(target.elts) != len(value.elts) or name not in target.elts:
        return None
    return value.elts[target.elts.index(name)]


@lru_cache(maxsize=256)
def _scope(source: Source, node: ast.AST) -> Scope:
    return Scope(source, node)


def scope_of(source: Source, node: ast.AST) -> Scope:
    """The function that a node stands in, or the module."""
    around = (parent for parent in source.around(node) if isinstance(parent, Function))
    return _scope(source, next(around, source.tree))


def resolved(source: Source, node: ast.expr) -> ast.expr:
    """What a name stands for, followed through its only assignments; else the node itself."""
    for _ in range(8):
        if not isinstance(node, ast.Name):
            break
        value = _looked_up(source, node)
        if value is None:
            break
        node = value
    return node


def _looked_up(source: Source, name: ast.Name) -> ast.expr | None:
    scope = scope_of(source, name)
    while not scope.binds(name.id) and scope.node is not source.tree:
        scope = scope_of(source, scope.node)
    return scope.value(name.id)


def is_parameter(source: Source, name: ast.Name) -> bool:
    """Whether a name is an argument of its function that is never bound again."""
    bound = scope_of(source, name).bindings(name.id)
    return len(bound) == 1 and isinstance(bound[0], ast.arg)


def block_of(source: Source, statement: ast.stmt) -> list[ast.stmt]:
    """The statements among which one stands."""
    parent = next(source.around(statement), source.tree)
    for field in ("body", "orelse", "finalbody"):
        block = getattr(parent, field, [])
        if isinstance(block, list) and statement in block:
            return block
    return [statement]


def statement_of(source: Source, node: ast.AST) -> ast.stmt | None:
    """The statement that a node is or stands in."""
    found = (each for each in (node, *source.around(node)) if isinstance(each, ast.stmt))
    return next(found, None)


def loops_of(source: Source, node: ast.AST) -> list[Loop]:
    """The loops of the same function that a node is repeated by, innermost first."""
    loops: list[Loop] = []
    inner = node
    for parent in source.around(node):
        if isinstance(parent, Function | ast.Lambda):
            break
        if isinstance(parent, Loop) and inner in parent.body:
            loops.append(parent)
        inner = parent
    return loops


_MUTATORS = words("append extend insert pop remove clear sort reverse update popitem setdefault")


def changes(source: Source, node: ast.AST, name: str) -> list[ast.expr | ast.stmt]:
    """What changes the object that a name holds, in the function of `node`.

    In-place methods (`name.add_()`, also of parts and views), list methods, stores into its
    parts, augmented assignments, `out=`.
    """
    found: list[ast.expr | ast.stmt] = []
    for inner in ast.walk(scope_of(source, node).node):
        if isinstance(inner, ast.Call):
            into = [word.value for word in inner.keywords if word.arg == "out"]
            method = last_name(inner.func)
            if isinstance(inner.func, ast.Attribute) and _changes(method):
                into.append(inner.func.value)
            if any(_holds(part, name) for part in into):
                found.append(inner)
        elif isinstance(inner, ast.Subscript | ast.Attribute):
            if not isinstance(inner.ctx, ast.Load) and root_name(inner) == name:
                found.append(inner)
        elif isinstance(inner, ast.AugAssign) and root_name(inner.target) == name:
            found.append(inner)
    return found


def _changes(method: str) -> bool:
    return method in _MUTATORS or (method.endswith("_") and not method.endswith("__"))


def _holds(node: ast.expr, name: str) -> bool:
    """Whether a method's receiver is the object of a name, a part or a view of it."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id == name


def changed_after(source: Source, statement: ast.stmt, name: str) -> bool:
    """Whether the object of a name may change in place after a statement, in its function."""
    loops = loops_of(source, statement)
    end = source.span(statement)[2:]
    return any(
        source.span(change)[:2] >= end
        or any(change is part for loop in loops for part in ast.walk(loop))
        for change in changes(source, statement, name)
    )
