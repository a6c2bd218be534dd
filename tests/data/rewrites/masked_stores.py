"""Assignments to selected elements."""

import torch


def main(device):
    x = torch.arange(24.0, device=device).view(6, 4) * torch.ones(6, 4, device=device)
    y = torch.zeros(6, 4, device=device)
    z = torch.ones(6, 4, device=device)
    m = z[:, 0] > 0
    z[m] = y[0, 0]
    z[m] += 1.5
    z[m] = y[m]
    n = x > 5
    x[n] = x.sum()
    x[n] -= 2
    return x, z
