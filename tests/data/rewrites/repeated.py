"""Repeats whose sum the host knows."""

import torch


def main(device):
    x = torch.arange(6.0, device=device)
    threes = torch.full((6,), 3, device=device)
    lengths = [1, 2, 0, 1, 2, 3]
    repeats = torch.tensor(lengths, device="cuda")
    return (
        x.repeat_interleave(threes),
        torch.repeat_interleave(threes),
        torch.repeat_interleave(x, repeats, dim=0),
    )
