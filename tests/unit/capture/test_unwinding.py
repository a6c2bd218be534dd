"""Each collector replaces what it must while it runs, and puts all of it back."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.optim import optimizer
from torch.utils.data import dataloader

from syncscope.callsite import StackTable
from syncscope.capture.explicit_waits import ExplicitWaits
from syncscope.capture.host_events import HostEvents
from syncscope.capture.step_marks import StepMarks
from syncscope.capture.transfers import Transfers
from syncscope.context import CaptureContext, Collector
from syncscope.recording.tables import TABLES, Row


class Rows:
    """Stands in for the writer: the lists that collectors append to."""

    def __init__(self) -> None:
        self.tables: dict[str, list[Row]] = {name: [] for name in TABLES}

    def rows(self, table: str) -> list[Row]:
        return self.tables[table]


def replaced() -> list[object]:
    """All that the collectors of a real GPU replace in torch."""
    methods = ("to", "cpu", "cuda", "item", "tolist", "numpy", "copy_")
    return [
        *(vars(torch.Tensor).get(name) for name in methods),
        vars(torch.cuda.Stream).get("synchronize"),
        vars(torch.cuda.Event).get("synchronize"),
        torch.distributed.barrier,
        torch.autograd._engine_run_backward,
        torch.autograd.graph._engine_run_backward,
        torch.profiler.profile.step,
        dataloader._BaseDataLoaderIter.__next__,
        len(optimizer._global_optimizer_post_hooks),
        len(gc.callbacks),
    ]


def collectors() -> list[Collector]:
    context = CaptureContext(Rows(), StackTable())  # type: ignore[arg-type]
    marks = StepMarks(context, lambda source, name: None)
    return [Transfers(context), ExplicitWaits(context), HostEvents(context), marks]


@pytest.mark.parametrize("index", range(4))
def test_a_collector_puts_everything_back(index: int) -> None:
    before = replaced()
    collector = collectors()[index]
    collector.start()
    assert replaced() != before
    collector.stop()
    assert replaced() == before


def test_all_together_and_stopped_twice_they_put_everything_back() -> None:
    before = replaced()
    started = collectors()
    for collector in started:
        collector.start()
    for collector in (*reversed(started), *started):
        collector.stop()
    assert replaced() == before


def test_what_somebody_else_put_on_top_is_left_to_them(monkeypatch: pytest.MonkeyPatch) -> None:
    transfers = collectors()[0]
    monkeypatch.setattr(torch.Tensor, "item", torch.Tensor.item)  # put back after the test
    transfers.start()

    def theirs(tensor: torch.Tensor) -> float:
        return 0.0

    torch.Tensor.item = theirs  # type: ignore[assignment, method-assign]
    transfers.stop()
    assert torch.Tensor.item is theirs
