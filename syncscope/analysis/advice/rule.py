"""What a rule is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from syncscope.analysis.bindings import loops_of
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import Edits, none

MAX_TITLE = 60
"""Characters that a title may have."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A cause: how to recognise it, and the advice for a finding that has it."""

    cause: str
    applies: Callable[[Finding], bool]
    title: str
    text: Callable[[Finding], str]
    rewrite: Callable[[Finding], Edits] = none


def always(text: str) -> Callable[[Finding], str]:
    """The same text for every finding."""
    return lambda finding: text


def repeats(finding: Finding) -> bool:
    """Whether the line ran more than once, or stands in a loop."""
    node = finding.expression.node
    in_loop = node is not None and bool(loops_of(finding.expression.source, node))
    return in_loop or finding.group.count > 1
