"""The shadow GPU's memory does not grow with the steps of a program."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import torch
from torch import nn

from syncscope.shadow.allocator import Block
from syncscope.shadow.marks import GpuMark, Mark

STEPS = 100
MARKS = (Block, GpuMark, Mark)


def test_memory_is_flat(make_session: Any) -> None:
    session = make_session()
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1)).to("cuda")
    optimizer = torch.optim.Adam(model.parameters())

    def train() -> tuple[int, int, int]:
        for _ in range(STEPS):
            x = torch.randn(8, 16).to("cuda")
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if loss.item() < 0 or bool((x > 3)[x.isnan()].any()):
                raise AssertionError("neither happens")
        session.writer.flush()
        gc.collect()
        marks = sum(type(thing) in MARKS for thing in gc.get_objects())
        stacks = session.context.stacks.capture()
        return marks, stacks, tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        _, early, late = [train() for _ in range(3)]
    finally:
        tracemalloc.stop()
        session.writer.close(session.writer.manifest)
    assert late[:2] == early[:2]
    assert late[2] - early[2] < 200 * STEPS, "a step leaves less than one row behind"
