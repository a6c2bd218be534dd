"""Branches that assign one value."""

import torch


def main(device):
    x = torch.arange(1.0, 9.0, device=device)
    grads = [torch.full((3,), 4.0, device=device), torch.full((2,), 2.0, device=device)]
    best = torch.full((), 99.0, device=device)
    spread = x.std()
    x = x - x.mean()
    if spread > 1e-6:
        x = x / spread
    if spread > 100:
        x = x * 0.5
    if torch.isnan(x).any():
        x = torch.zeros_like(x)
    loss = x.square().mean()
    if loss < best:
        best = loss.detach()
    norm = torch.stack(grads[:1]).norm()
    if norm > 1.0:
        torch._foreach_div_(grads, norm)
    if norm > 99.0:
        grads[0].mul_(1.0 / norm)
    return x, best, grads
