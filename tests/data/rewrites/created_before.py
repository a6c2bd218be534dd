"""A factory in one line, and the move of its result in another."""

import torch


def main(device):
    total = torch.zeros((), device=device)
    for step in range(3):
        noise = torch.ones(8).tril_() if step > 5 else None
        scale = torch.full((8,), 2.0)
        moved = scale.to(device)
        total = total + moved.sum()
    return total, noise
