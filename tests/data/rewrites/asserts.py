"""Checks of values."""

import torch


def main(device):
    x = torch.rand(8, device=device) + 1
    assert torch.isfinite(x).all(), "bad values"
    assert x.min() > 0
    assert not (x > 9).any(), "large"
    torch._assert(x.max() < 9, "larger")
    return x
