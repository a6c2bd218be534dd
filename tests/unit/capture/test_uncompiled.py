"""torch.compile leaves the collectors' functions alone."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest
import torch

from syncscope.capture.uncompiled import leave_uncompiled

SOURCE = """
from contextlib import contextmanager
from statistics import fmean

@contextmanager
def block():
    yield

def outer(rows, x):
    def inner(y):
        rows.append(len(rows))
        return y + 1
    return inner(x)

class Collector:
    def add(self, x):
        return x * 2
"""


def frames_compiled() -> int:
    from torch._dynamo.utils import counters

    return int(counters["frames"]["ok"])


@pytest.mark.parametrize("left", [False, True])
def test_functions_that_a_compiled_one_breaks_into_are_not_compiled(
    monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    import torch._dynamo

    module = ModuleType("collectors_of_test")
    module.__file__ = "collectors_of_test.py"
    exec(compile(SOURCE, module.__file__, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    rows: list[int] = []
    if left:
        leave_uncompiled("collectors_of_test")

    @torch.compile(backend="eager")
    def program(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return module.Collector().add(x)

    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    runner = torch._dynamo.optimize("eager")(module.outer)
    assert runner(rows, torch.ones(2)).tolist() == [2.0, 2.0]
    assert program(torch.ones(2)).tolist() == [2.0, 2.0]
    assert rows == [0]
    assert (frames_compiled() < 3) is left
    torch._dynamo.reset()


def test_what_a_collectors_module_imports_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("collectors_of_test")
    module.__file__ = "collectors_of_test.py"
    exec(compile(SOURCE, module.__file__, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    leave_uncompiled(module.__name__)
    marked = {
        name
        for name, value in vars(module).items()
        if getattr(getattr(value, "__wrapped__", value), "_torchdynamo_disable", False)
    }
    assert marked == {"block", "outer"}
