"""Why a line waits or copies, and what to write instead: a list of rules.

A rule looks at a finding and says whether it is the cause; the first that does, counts.
Hooks that know the cause (the shadow GPU's) name it, and only rules for that cause and for
the surroundings are asked. On a real GPU the op is often unknown: then the syntax tree of the
expression is the evidence.
"""

from __future__ import annotations

from syncscope.analysis.advice import libraries, readbacks, surroundings, uploads
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.edits import pins
from syncscope.analysis.rewrites.snippets import shown
from syncscope.records import Advice

_SURROUNDINGS = (*surroundings.RULES, *libraries.RULES)

RULES = (*_SURROUNDINGS, *uploads.RULES, *readbacks.RULES)
"""In the order in which they are asked; the last applies always.

Of several rules for one cause the last is the general one.
"""

_BY_CAUSE = {rule.cause: rule for rule in RULES}

NEEDS_GPU = (
    "Pinning needs a GPU: guard it with torch.cuda.is_available() where the program also runs "
    "without one."
)

CAUSES = tuple(dict.fromkeys(rule.cause for rule in RULES))
"""Names of the causes, which hooks may give in the column `cause`."""


def diagnose(finding: Finding) -> tuple[str, Advice]:
    """The cause of a finding, and the advice for it."""
    told = _told_cause(finding)
    for rule in RULES:
        asked = not told or rule.cause == told or rule in _SURROUNDINGS
        if rule is _BY_CAUSE.get(told) or (asked and rule.applies(finding)):
            break
    edits = rule.rewrite(finding)
    text = f"{rule.text(finding)} {NEEDS_GPU}" if pins(edits) else rule.text(finding)
    return rule.cause, Advice(rule.title, text, shown(finding, edits), edits)


def _told_cause(finding: Finding) -> str:
    """The cause that a hook named, where the line does not say more; "" if there is none."""
    told = finding.group.hook_cause
    if told == "scalar_readback" and readbacks.sizes_depend_on_data(finding):
        return "data_dependent_size"
    if told == "pageable_batch":  # true of the copy, while the line may say why it is made
        return ""
    if told == "created_on_host" and not uploads.may_be_made_on_device(finding):
        return ""
    return told if told in CAUSES and told != "explicit_wait" else ""
