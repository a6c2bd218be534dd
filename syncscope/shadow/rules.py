"""Sync rules: what an operator would have made the host do on a real CUDA GPU.

Rules cover the waits and copies that hide *inside* an operator. Copies that the program asks
for (`_to_copy`, `copy_`) are not their business. They describe an H200 with CUDA 13 and
torch 2.11, as measured; each rule names its source: "measured" for runs of PyTorch's operator
database and a few hundred more programs with the driver API watched, else a file of PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from syncscope.shadow.effects import Effect
from syncscope.shadow.rules_call import Call, Rule
from syncscope.shadow.rules_index import INDEX_RULES
from syncscope.shadow.rules_linalg import LINALG_RULES
from syncscope.shadow.rules_scalar import SCALAR_RULES
from syncscope.shadow.rules_sparse import SPARSE_RULES

RULES: dict[str, Rule] = {**SCALAR_RULES, **INDEX_RULES, **LINALG_RULES, **SPARSE_RULES}
"""Keys are "namespace::operator", for all its overloads, or "namespace::operator.overload"."""

_found: dict[torch._ops.OpOverload, Rule | None] = {}


def effects_of(
    func: torch._ops.OpOverload,
    args: tuple[object, ...],
    kwargs: dict[str, object],
    result: object,
    on_gpu: Callable[[torch.Tensor], bool],
) -> tuple[Effect, ...]:
    """Hidden waits and copies inside a call that has been computed, in order.

    Costs a dictionary lookup for operators without a rule.
    """
    try:
        rule = _found[func]
    except KeyError:
        rule = _found[func] = _find(func)
    if rule is None:
        return ()
    return rule.effects(Call(args, kwargs, result, on_gpu))


def has_rule(func: torch._ops.OpOverload) -> bool:
    """Whether some call of this overload can wait or copy."""
    return _find(func) is not None


def _find(func: torch._ops.OpOverload) -> Rule | None:
    """Rule of an overload, which `out=` and in-place variants share with the plain one."""
    operator = func._schema.name
    overload = func._overloadname.removesuffix("out").removesuffix("_") or "default"
    names = [operator]
    if operator.endswith("_") and not operator.endswith("__"):
        names.append(operator[:-1])
    for name in names:
        for key in (f"{name}.{func._overloadname}", f"{name}.{overload}", name):
            if key in RULES:
                return RULES[key]
    return None
