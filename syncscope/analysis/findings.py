"""What is known of a site when its cause is looked for."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cached_property

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
        spot = self.expression.around[0] if self.expression.around else self.expression.node
        whole = isinstance(self.expression.node, ast.stmt)
        return test is not None and (whole or any(node is spot for node in ast.walk(test)))

    @property
    def receiver(self) -> ast.expr | None:
        """`x` of `x.to(...)`."""
        call = self.expression.call
        return call.func.value if call and isinstance(call.func, ast.Attribute) else None

    @property
    def factory(self) -> ast.Call | None:
        """The call that makes the tensor which the line moves: `torch.rand(4)` in
        `torch.rand(4).to(device)`."""
        receiver = self.receiver
        made_here = isinstance(receiver, ast.Call) and last_name(receiver.func) in FACTORIES
        return receiver if made_here and isinstance(receiver, ast.Call) else None


FACTORIES = words(
    "arange bartlett_window blackman_window empty eye from_numpy full hamming_window hann_window "
    "linspace logspace ones rand randint randn randperm tensor tril_indices triu_indices "
    "zeros"
)
