"""Batches of a loader that does not pin them."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def main(device):
    data = TensorDataset(torch.arange(64.0).view(16, 4), torch.arange(16))
    loader = DataLoader(data, batch_size=4)
    sums = torch.zeros(4, device=device)
    for x, y in loader:
        sums += x.to(device).sum(0)
        y = y.to(device)
        sums += y.sum()
    for x, _ in DataLoader(data, batch_size=8):
        sums += x.to(device, non_blocking=True).sum(0)
    return sums
