"""Pairs of training steps, before and after one cure, for `benchmarks/what_if.py`.

Each function makes the tensors of a pair and returns its two steps. `CURED` marks the lines
whose waits or copies are gone in the second. Shapes are for an H200; `tiny` ones are for a shadow
T4, which is slow enough for them.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Step = Callable[[], None]
Make = Callable[[bool], tuple[Step, Step]]


@dataclass(frozen=True)
class Pair:
    """`bound` says what bounds the step before the cure, `vanishes` whether the cure does
    without the copy."""

    name: str
    bound: str
    vanishes: bool
    make: Make


PAIRS: list[Pair] = []


def pair(bound: str, *, vanishes: bool = False) -> Callable[[Make], Make]:
    """Register a pair under the name of its function."""

    def register(make: Make) -> Make:
        PAIRS.append(Pair(make.__name__, bound, vanishes, make))
        return make

    return register


class Load:
    """A stretch of matrix products that keeps the GPU busy, in float32."""

    def __init__(self, tiny: bool, products: int) -> None:
        width = 768 if tiny else 4096
        self.weight = torch.randn(width, width, device="cuda") / width**0.5
        self.value = torch.randn(width, width, device="cuda")
        self.products = products

    def run(self) -> Tensor:
        value = self.value
        for _ in range(self.products):
            value = value @ self.weight
        return value


def think(tiny: bool) -> None:
    """What a program does on the host between two steps: a millisecond or two of Python.

    The clock of the shadow GPU sees operators only.
    """
    if tiny:
        for _ in range(8):
            torch.ones(4)
    else:
        sum(number & 7 for number in range(60_000))


@pair("transfer")
def pageable_upload(tiny: bool) -> tuple[Step, Step]:
    """Pinned memory and non_blocking for a batch of 64 MB."""
    batch = torch.randn(256 if tiny else 16_000_000)
    pinned = batch.pin_memory()
    load = Load(tiny, 1)

    def before() -> None:
        data = batch.to("cuda")  # CURED
        load.run().add_(data.mean())

    def after() -> None:
        data = pinned.to("cuda", non_blocking=True)
        load.run().add_(data.mean())

    return before, after


@pair("transfer")
def pageable_batch(tiny: bool) -> tuple[Step, Step]:
    """The same for 8 MB in a step with work on both sides."""
    batch = torch.randn(256 if tiny else 2_000_000)
    pinned = batch.pin_memory()
    load = Load(tiny, 1)

    def before() -> None:
        think(tiny)
        data = batch.to("cuda")  # CURED
        load.run().add_(data.mean())

    def after() -> None:
        think(tiny)
        data = pinned.to("cuda", non_blocking=True)
        load.run().add_(data.mean())

    return before, after


@pair("transfer", vanishes=True)
def created_on_host(tiny: bool) -> tuple[Step, Step]:
    """A small mask made on the host and moved, or made on the device."""
    side = 16 if tiny else 256
    load = Load(tiny, 1)

    def before() -> None:
        value = load.run()[:side, :side]
        value.add_(torch.zeros(side, side).to("cuda"))  # CURED
        think(tiny)

    def after() -> None:
        value = load.run()[:side, :side]
        value.add_(torch.zeros(side, side, device="cuda"))
        think(tiny)

    return before, after


@pair("sync")
def loss_item(tiny: bool) -> tuple[Step, Step]:
    """A readback of the loss in each step, or a sum that stays on the device."""
    load = Load(tiny, 2)
    history: list[float] = []
    total = torch.zeros((), device="cuda")

    def before() -> None:
        loss = load.run().square().mean()
        history.append(loss.item())  # CURED
        think(tiny)

    def after() -> None:
        loss = load.run().square().mean()
        total.add_(loss)
        think(tiny)

    return before, after


@pair("sync")
def printed_loss(tiny: bool) -> tuple[Step, Step]:
    """A line of text in each step, or the tensor kept for later."""
    load = Load(tiny, 1)
    log, kept = io.StringIO(), []

    def before() -> None:
        loss = load.run().square().mean()
        print(f"loss {loss:.4f}", file=log)  # CURED
        think(tiny)

    def after() -> None:
        loss = load.run().square().mean()
        kept.append(loss)
        think(tiny)

    return before, after


@pair("sync")
def mask_read(tiny: bool) -> tuple[Step, Step]:
    """A boolean mask that selects rows, or a weight of zero for the others."""
    load = Load(tiny, 1)

    def before() -> None:
        value = load.run()[:256]
        positive = value > 0
        value[positive].sum()  # CURED
        think(tiny)

    def after() -> None:
        value = load.run()[:256]
        positive = value > 0
        torch.where(positive, value, 0.0).sum()
        think(tiny)

    return before, after


@pair("sync")
def clip_branch(tiny: bool) -> tuple[Step, Step]:
    """`if norm > limit`, or a factor that is 1 where nothing is to be clipped."""
    load = Load(tiny, 2)

    def before() -> None:
        value = load.run()
        norm = value.norm()
        if norm > 1e9:  # CURED
            value.mul_(1e9 / norm)
        think(tiny)

    def after() -> None:
        value = load.run()
        norm = value.norm()
        value.mul_((1e9 / norm).clamp(max=1.0))
        think(tiny)

    return before, after


@pair("sync")
def nonzero_lookup(tiny: bool) -> tuple[Step, Step]:
    """The place of the first match by `nonzero`, or by `argmax` of the mask."""
    load = Load(tiny, 1)

    def before() -> None:
        matches = load.run()[0] > 0
        matches.nonzero()[0]  # CURED
        think(tiny)

    def after() -> None:
        matches = load.run()[0] > 0
        matches.int().argmax()
        think(tiny)

    return before, after


@pair("sync")
def list_index(tiny: bool) -> tuple[Step, Step]:
    """Columns chosen by a Python list, or by an index made once."""
    load = Load(tiny, 1)
    columns = torch.tensor([0, 2, 5], device="cuda")

    def before() -> None:
        load.run()[:, [0, 2, 5]].sum()  # CURED
        think(tiny)

    def after() -> None:
        load.run()[:, columns].sum()
        think(tiny)

    return before, after


@pair("sync")
def scalar_upload(tiny: bool) -> tuple[Step, Step]:
    """A Python number made a tensor in each step, or used as it is."""
    load = Load(tiny, 1)

    def before() -> None:
        value = load.run()
        value.mul_(torch.tensor(0.5, device="cuda"))  # CURED
        think(tiny)

    def after() -> None:
        value = load.run()
        value.mul_(0.5)
        think(tiny)

    return before, after


@pair("transfer")
def logged_output(tiny: bool) -> tuple[Step, Step]:
    """16 MB read back with a wait, or into pinned memory and looked at two steps later."""
    load = Load(tiny, 2)
    buffers = [torch.empty_like(load.value[:1024], device="cpu").pin_memory() for _ in range(2)]
    events = [torch.cuda.Event() for _ in range(2)]
    turn = [0]

    def before() -> None:
        rows = load.run()[:1024]
        rows.cpu()  # CURED
        think(tiny)

    def after() -> None:
        turn[0] = 1 - turn[0]
        events[turn[0]].synchronize()
        rows = load.run()[:1024]
        buffers[turn[0]].copy_(rows, non_blocking=True)
        events[turn[0]].record()
        think(tiny)

    return before, after


@pair("sync")
def second_stream(tiny: bool) -> tuple[Step, Step]:
    """The host waits for a stream that uploads, or the other stream does."""
    load = Load(tiny, 2)
    batch = torch.randn(256 if tiny else 8_000_000).pin_memory()  # 32 MB
    side, main = torch.cuda.Stream(), torch.cuda.current_stream()

    def upload() -> Tensor:
        with torch.cuda.stream(side):
            return batch.to("cuda", non_blocking=True)

    def before() -> None:
        data = upload()
        side.synchronize()  # CURED
        data.record_stream(main)
        load.run().add_(data.mean())
        think(tiny)

    def after() -> None:
        data = upload()
        main.wait_stream(side)
        data.record_stream(main)
        load.run().add_(data.mean())
        think(tiny)

    return before, after


@pair("sync")
def timed_by_synchronize(tiny: bool) -> tuple[Step, Step]:
    """`torch.cuda.synchronize()` at the end of each step, or none."""
    load = Load(tiny, 1)

    def before() -> None:
        load.run()
        torch.cuda.synchronize()  # CURED
        think(tiny)

    def after() -> None:
        load.run()
        think(tiny)

    return before, after


@pair("gpu")
def gpu_bound_loss_item(tiny: bool) -> tuple[Step, Step]:
    """A readback where the GPU is busy all the time: nothing to gain."""
    load = Load(tiny, 10)
    history: list[float] = []
    total = torch.zeros((), device="cuda")

    def before() -> None:
        loss = load.run().square().mean()
        history.append(loss.item())  # CURED

    def after() -> None:
        loss = load.run().square().mean()
        total.add_(loss)

    return before, after


@pair("gpu")
def gpu_bound_list_index(tiny: bool) -> tuple[Step, Step]:
    """An index from the host in the middle of a long step: nothing to gain."""
    load = Load(tiny, 10)
    columns = torch.tensor([0, 2, 5], device="cuda")

    def before() -> None:
        load.run()[:, [0, 2, 5]].sum()  # CURED

    def after() -> None:
        load.run()[:, columns].sum()

    return before, after


@pair("launch")
def launch_bound_loss_item(tiny: bool) -> tuple[Step, Step]:
    """A readback in a step of hundreds of small kernels: the GPU is idle anyway."""
    layers = [nn.Linear(64, 64, device="cuda") for _ in range(4 if tiny else 60)]
    model = nn.Sequential(*(module for layer in layers for module in (layer, nn.Tanh())))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(32, 64, device="cuda")
    history: list[float] = []
    total = torch.zeros((), device="cuda")

    def train() -> Tensor:
        loss = model(data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def before() -> None:
        history.append(train().item())  # CURED

    def after() -> None:
        total.add_(train())

    return before, after
