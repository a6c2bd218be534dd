"""What is known of a site when its cause is looked for."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

from syncscope.analysis.bindings import resolved
from syncscope.analysis.sites import Group
from syncscope.analysis.stacks import Frame, Place
from syncscope.analysis.syntax import Expression, last_name, words


@dataclass(frozen=True)
class Finding:
    """A site, its expression, and plain questions that the rules ask about both."""

    group: Group
    expression: Expression

    @property
    def place(self) -> Place:
        return self.group.place

    @property
    def op(self) -> str:
        """Last part of the op: "item" of "Tensor.item", "nonzero" of "aten::nonzero"."""
        return self.group.op.replace("::", ".").removesuffix(".default").rpartition(".")[2]

    @property
    def called(self) -> str:
        """What the line calls, else the op that the hook named."""
        return self.expression.called or self.op

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that could tell: of the op, the call, and the functions under the line."""
        inner = {frame.function.rpartition(".")[2] for frame in self.place.inner}
        return frozenset({self.op, self.expression.called, *inner} - {""})

    @property
    def each_bytes(self) -> int:
        """Bytes of one call, rounded down."""
        return self.group.size_bytes // max(self.group.count, 1)

    @property
    def is_upload(self) -> bool:
        return self.group.direction == "h2d"

    @property
    def is_readback(self) -> bool:
        """Whether the host waits for a value or for nothing but the queue."""
        return not self.is_upload

    @property
    def owner(self) -> str:
        return self.place.owner

    @property
    def culprit(self) -> Frame:
        """The innermost frame: the line that waited, in whoever's code."""
        return self.place.stack[0] if self.place.stack else self.place.frame

    def is_inside(self, *files: str) -> bool:
        """Whether the line called into one of these files or folders."""
        return any(frame.file.startswith(files) for frame in self.place.inner)

    @property
    def is_test(self) -> bool:
        """Whether the expression is what an if, a while, an assert or a bool() decides on."""
        statement = self.expression.statement
        test = getattr(statement, "test", None)
        spot = self.expression.node
        whole = isinstance(spot, ast.stmt)
        return test is not None and (whole or any(node is spot for node in ast.walk(test)))

    @property
    def moved(self) -> ast.expr | None:
        """`x` of `x.to(...)`."""
        call = self.expression.call
        return call.func.value if call and isinstance(call.func, ast.Attribute) else None

    @property
    def factory(self) -> ast.Call | None:
        """The call in the line that makes the tensor which the line moves: `torch.rand(4)` in
        `torch.rand(4).to(device)`."""
        return factory_in(self.moved) if self.moved is not None else None

    @property
    def made_by(self) -> ast.Call | None:
        """The call that makes what the line moves, there or where its name gets its value."""
        if self.moved is None or self.factory is not None:
            return self.factory
        return factory_in(resolved(self.expression.source, self.moved))


FACTORIES = words(
    "arange bartlett_window blackman_window empty empty_like eye from_numpy full full_like "
    "hamming_window hann_window linspace logspace ones ones_like rand rand_like randint "
    "randint_like randn randn_like randperm tensor tril_indices triu_indices zeros zeros_like"
)
"""Functions of torch that make a tensor on the host unless told otherwise."""

_SHAPING = words(
    "bfloat16 bool clone contiguous double flatten float half int long permute repeat reshape "
    "squeeze t transpose tril triu unsqueeze view view_as"
)
"""Methods of equal results on every device, which return a dense tensor."""


def factory_in(node: ast.expr) -> ast.Call | None:
    """The factory call that `torch.ones(3, 3).triu()[None]` begins with, if it is one."""
    while True:
        if isinstance(node, ast.Call):
            if last_name(node.func) in FACTORIES:
                return node
            if not isinstance(node.func, ast.Attribute) or node.func.attr not in _SHAPING:
                return None
            node = node.func.value
        elif isinstance(node, ast.Subscript) and _adds_dimensions(node.slice):
            node = node.value
        else:
            return None


def _adds_dimensions(index: ast.expr) -> bool:
    """Whether an index consists of None and whole slices."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    return all(
        (isinstance(part, ast.Constant) and part.value is None)
        or (isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step))
        for part in parts
    )
