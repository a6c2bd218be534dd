"""Where the program created, on the host, what a line then moves to the device."""

from __future__ import annotations

from syncscope.analysis.bindings import scope_of
from syncscope.analysis.findings import FACTORIES, Finding
from syncscope.analysis.syntax import Span
from syncscope.records import Origin


def origin_of(finding: Finding) -> Origin | None:
    """The expression that created it; None if unknown, or if it is the line's whole expression.

    The shadow GPU recorded it. On a real GPU the source tells, where the moved tensor is made
    in the line itself or is a name with one assignment in its function.
    """
    if not finding.is_upload:
        return None
    frame = finding.group.origin.frame
    if finding.group.origin.known:
        if frame.id == finding.place.frame.id:
            return None
        span = (frame.line, frame.column, frame.end_line, frame.end_column)
        return _origin(frame.file, frame.function, span, frame.expression)
    made, expression = finding.made_by, finding.expression
    if made is None or expression.node is None or not expression.in_file:
        return None
    source, own = expression.source, finding.place.frame
    scope = scope_of(source, made)
    function = getattr(scope.node, "name", "<module>")
    if scope is scope_of(source, expression.node):
        function = own.function
    return _origin(own.file, function, source.span(made), expression.segment(made))


def created_by_program(finding: Finding) -> bool:
    """Whether the recorded origin is a factory call in the user's own code."""
    frame = finding.group.origin.frame
    called = frame.expression.partition("(")[0].rpartition(".")[2]
    return finding.group.origin.known and called in FACTORIES and frame.owner == "user"


def _origin(file: str, function: str, span: Span, expression: str) -> Origin:
    line, column, end_line, end_column = span
    return Origin(file, line, end_line, column, end_column, function, expression)
