"""Each collector replaces what it must while it runs, and puts all of it back."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.optim import optimizer
from torch.utils.data import dataloader

from syncscope.capture.explicit_waits import ExplicitWaits
from syncscope.capture.flights import Flights
from syncscope.capture.host_events import HostEvents
from syncscope.capture.step_marks import StepMarks
from syncscope.capture.transfers import Transfers
from syncscope.context import CaptureContext, Collector

FLIGHTS = ("fill_", "zero_", "__setitem__", "sum", "__bool__", "__repr__")


def replaced() -> list[object]:
    """All that the collectors of a real GPU replace in torch."""
    methods = ("to", "cpu", "cuda", "item", "tolist", "numpy", "copy_", "coalesce", *FLIGHTS)
    return [
        *(vars(torch.Tensor).get(name) for name in methods),
        vars(torch.cuda.Stream).get("synchronize"),
        vars(torch.cuda.Event).get("synchronize"),
        torch._tensor_str._str,
        torch.distributed.barrier,
        torch.autograd._engine_run_backward,
        torch.autograd.graph._engine_run_backward,
        torch.profiler.profile.step,
        dataloader._BaseDataLoaderIter.__next__,
        len(optimizer._global_optimizer_post_hooks),
        len(gc.callbacks),
    ]


@pytest.fixture
def collectors(context: CaptureContext) -> list[Collector]:
    marks = StepMarks(context, lambda source, name: None)
    flights = Flights(context)
    transfers = Transfers(context, flights)
    return [transfers, flights, ExplicitWaits(context), HostEvents(context), marks]


@pytest.mark.parametrize("index", range(5))
def test_a_collector_puts_everything_back(collectors: list[Collector], index: int) -> None:
    before = replaced()
    collector = collectors[index]
    collector.start()
    if isinstance(collector, Flights):
        collector._watch()  # as at the first asynchronous copy
    assert replaced() != before
    collector.stop()
    assert replaced() == before


def test_all_together_and_stopped_twice_they_put_everything_back(
    collectors: list[Collector],
) -> None:
    before = replaced()
    for collector in collectors:
        collector.start()
    for collector in (*reversed(collectors), *collectors):
        collector.stop()
    assert replaced() == before


def test_what_somebody_else_put_on_top_is_left_to_them(
    collectors: list[Collector], monkeypatch: pytest.MonkeyPatch
) -> None:
    transfers = collectors[0]
    monkeypatch.setattr(torch.Tensor, "item", torch.Tensor.item)  # put back after the test
    transfers.start()

    def theirs(tensor: torch.Tensor) -> float:
        return 0.0

    torch.Tensor.item = theirs  # type: ignore[assignment, method-assign]
    transfers.stop()
    assert torch.Tensor.item is theirs
