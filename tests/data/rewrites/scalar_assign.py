"""Numbers assigned to elements."""

import torch


def main(device):
    x = torch.ones(8, 8, device=device)
    half = torch.ones(8, dtype=torch.float16, device=device)
    rows = torch.arange(0, 6, 2, device=device)
    x[5] = 0.5
    x[0, -1] = 2
    x[rows] = 3.0
    half[rows] = 0.1
    x[1, rows] = -1
    return x, half
