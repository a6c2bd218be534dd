"""The host touches memory of a copy under way: reported until it waited, and the copy is over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from syncscope.capture.flights import MOST, Flights, _span
from syncscope.context import CaptureContext
from syncscope.recording.tables import BlockingRow


class Copy:
    """Plays the GPU's side of a copy."""

    def __init__(self) -> None:
        self.over = False


@pytest.fixture
def flights(context: CaptureContext) -> Iterator[Flights]:
    flights = Flights(context)
    flights.start()
    flights._watch()
    yield flights
    flights.stop()


def under_way(flights: Flights, host: torch.Tensor, *, upload: bool) -> Copy:
    copy = Copy()
    flights._take_off(host, lambda: copy.over, upload=upload)
    return copy


def ops(context: CaptureContext) -> list[str]:
    rows = context.writer.rows("blocking")
    assert all(isinstance(row, BlockingRow) and row.kind == "race" for row in rows)
    return [row.op for row in rows if isinstance(row, BlockingRow)]


def test_refilling_a_buffer_that_is_being_uploaded_is_a_race(
    flights: Flights, context: CaptureContext
) -> None:
    host = torch.zeros(8)
    copy = under_way(flights, host, upload=True)
    host.sum()
    assert ops(context) == []
    host.fill_(1.0)
    host[2] = 3.0
    assert ops(context) == ["Tensor.fill_", "Tensor.__setitem__"]
    copy.over = True
    context.waits += 1
    host.fill_(2.0)
    assert len(ops(context)) == 2


def test_reading_what_is_being_downloaded_is_a_race(
    flights: Flights, context: CaptureContext
) -> None:
    host = torch.zeros(8)
    copy = under_way(flights, host, upload=False)
    host[:4].sum()
    assert ops(context) == ["Tensor.sum"]
    copy.over = True
    context.waits += 1
    host.sum()
    assert ops(context) == ["Tensor.sum"]


def test_a_race_that_the_gpu_won_is_one(flights: Flights, context: CaptureContext) -> None:
    host = torch.zeros(8)
    under_way(flights, host, upload=False).over = True
    host.sum()
    assert ops(context) == ["Tensor.sum"]


def test_a_wait_for_something_else_does_not_end_a_copy(
    flights: Flights, context: CaptureContext
) -> None:
    host = torch.zeros(8)
    under_way(flights, host, upload=True)
    context.waits += 1
    host.fill_(1.0)
    assert ops(context) == ["Tensor.fill_"]


def test_memory_that_was_given_back_may_be_used_again(
    flights: Flights, context: CaptureContext
) -> None:
    host = torch.zeros(8)
    view = host[:]
    under_way(flights, view, upload=True)
    (flight,) = flights._pending
    again = flight._replace(start=0, end=2**63)
    flights._pending = (again,)
    torch.zeros(1).fill_(1.0)
    assert ops(context) == ["Tensor.fill_"]
    del host, view
    torch.zeros(1).fill_(1.0)
    assert len(ops(context)) == 1


def test_a_program_that_never_waits_does_not_fill_the_memory(flights: Flights) -> None:
    hosts = [torch.zeros(8) for _ in range(2 * MOST)]
    for host in hosts:
        under_way(flights, host, upload=True)
    assert len(flights._pending) == MOST
    hosts.clear()
    del host
    under_way(flights, torch.zeros(8), upload=True)
    assert len(flights._pending) == 1


def test_before_a_fork_the_copies_are_forgotten(context: CaptureContext) -> None:
    flights = Flights(context)
    host = torch.zeros(8)
    under_way(flights, host, upload=True)
    flights.forget()
    flights.touch(host, "Tensor.fill_", writes=True)
    assert ops(context) == []


def test_other_memory_and_other_parts_of_the_same_are_no_race(
    flights: Flights, context: CaptureContext
) -> None:
    host = torch.zeros(8)
    under_way(flights, host[:4], upload=True)
    torch.zeros(8).fill_(1.0)
    host[4:].fill_(1.0)
    host[:0].fill_(1.0)
    assert ops(context) == []
    host[3:5].fill_(1.0)
    assert ops(context) == ["Tensor.fill_"]


@settings(deadline=None)  # the machine may be busy
@given(
    size=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    cut=st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(1, 3)),
)
def test_the_span_of_a_view_holds_all_its_elements(
    size: tuple[int, int], cut: tuple[int, int, int]
) -> None:
    host = torch.zeros(size)
    view = host[cut[0] :, cut[1] :: cut[2]].t()
    start, end = _span(view)
    addresses = {view[i, j].data_ptr() for i in range(view.shape[0]) for j in range(view.shape[1])}
    if addresses:
        assert (min(addresses), max(addresses) + 4) == (start, end)
    else:
        assert start == end
