"""Sums of selected elements."""

import torch


def main(device):
    x = torch.arange(-6.0, 6.0, device=device).view(3, 4)
    keep = x > 0.5
    first = x[:, 1]
    low = first < 0
    rest = torch.masked_select(x, ~keep).sum()
    return x[keep].sum(), x[keep].mean(), 1 + x[x < 0].mean(), first[low].sum(), rest
