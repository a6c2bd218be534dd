"""A batch that another function takes from the only loader."""

import torch
from torch.utils.data import DataLoader


def step(batch, device):
    x = batch["x"].to(device)
    return x.sum()


def main(device):
    rows = [{"x": torch.full((4,), float(i))} for i in range(8)]
    total = torch.zeros((), device=device)
    for batch in DataLoader(rows, batch_size=2):
        total += step(batch, device)
    return total
