"""Threads of a program on the shadow GPU: whether they have it, and what time it is on them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch


@pytest.fixture
def clock(session: Any) -> Callable[[], float]:
    """Milliseconds on the calling thread's clock."""

    def now() -> float:
        time: int = session.context.now()
        return time / 1e6

    return now


def test_a_thread_that_was_there_before_gets_the_gpu_when_it_asks_for_it(
    make_session: Any,
) -> None:
    begin, seen = threading.Event(), []

    def work() -> None:
        begin.wait(10)
        x = torch.ones(2, device="cuda")
        seen.append((x + 1).is_cuda)
        seen.append((torch.ones(2).cuda() * 2).is_cuda)

    thread = threading.Thread(target=work)
    thread.start()
    make_session()
    begin.set()
    thread.join()
    assert seen == [True, True]


def test_stopped_on_another_thread_it_does_nothing_on_the_first(make_session: Any) -> None:
    session = make_session()
    torch.ones(2, device="cuda")
    stopper = threading.Thread(target=session.gpu.stop)
    stopper.start()
    stopper.join()
    session.forget()
    x = torch.ones(2) + 1
    assert x.device.type == "cpu"
    assert not session.take("activity")
    torch._C._pop_torch_dispatch_stack(None)


def test_sleep_and_timeouts_pass_on_the_clock(clock: Callable[[], float]) -> None:
    start = clock()
    time.sleep(0.01)
    assert clock() - start == 10
    threading.Event().wait(0.02)
    assert clock() - start == 30


def test_who_is_woken_goes_on_no_earlier_than_the_other_was(clock: Callable[[], float]) -> None:
    event, items = threading.Event(), queue.Queue[int]()
    start = clock()

    def work() -> None:
        time.sleep(0.03)
        event.set()
        time.sleep(0.03)
        items.put(1)

    thread = threading.Thread(target=work)
    thread.start()
    event.wait()
    assert clock() - start == pytest.approx(30, abs=1)
    items.get()
    assert clock() - start == pytest.approx(60, abs=1)
    thread.join()
    assert clock() - start == pytest.approx(60, abs=1)


def test_an_item_that_waits_in_a_queue_brings_its_time(clock: Callable[[], float]) -> None:
    items: queue.Queue[int] = queue.Queue()
    start = clock()

    def work() -> None:
        time.sleep(0.03)
        items.put(1)

    threading.Thread(target=work).start()
    while items.empty():
        pass
    assert clock() == start
    items.get()
    assert clock() - start == 30


def test_futures_take_the_time_of_their_work(clock: Callable[[], float]) -> None:
    start = clock()
    with ThreadPoolExecutor(1) as executor:
        assert executor.submit(clock).result() == start
        time.sleep(0.02)
        assert executor.submit(clock).result() == start + 20
        executor.submit(time.sleep, 0.03).result()
    assert clock() - start == 50
