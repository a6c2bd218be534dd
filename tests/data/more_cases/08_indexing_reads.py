"""Reads with lists, numpy, host tensors, bounds from tensors, None, Ellipsis."""
import numpy as np
import torch


def main(device):
    x = torch.randn(6, 8, 10, device=device)
    i = torch.tensor([0, 2], device=device)  # SYNC # COPY
    n = torch.tensor(3, device=device)  # SYNC # COPY
    a = x[[0, 2, 4]]  # SYNC # COPY
    a = x[:, np.array([1, 3])]  # SYNC # COPY
    a = x[..., torch.tensor([0, 1])]  # SYNC # COPY
    a = x[[0, 1], [2, 3]]  # SYNC # COPY
    a = x[i, 1]  # OK
    a = x[i, :, i]  # OK
    a = x[None, ..., 0]  # OK
    a = x[:, ::2]  # OK
    a = x[-1]  # OK
    a = x[:n]  # SYNC
    a = x[n - 1]  # SYNC
    a = x[n]  # SYNC
    a = x[0, n]  # SYNC
    a = x[1 : int(n)]  # SYNC
    a = x[True]  # OK
    a = x[np.int64(2)]  # OK
    a = x[torch.tensor(2)]  # OK
    a = x[[True, False, True, False, True, False]]  # SYNC # COPY
    a = x.index_select(0, i)  # OK
    a = x.narrow(0, 1, 2)  # OK
    a = x.narrow(0, torch.tensor(1), 2)  # OK
    a = x.select(1, 3)  # OK
    a = x.flip(0)[:2]  # OK
    a = x.unfold(1, 2, 2)  # OK
    a = x[i.cpu()]  # SYNC # COPY
    a = x[range(2)]  # SYNC # COPY
    a = x[(0, 1, 2)]  # OK
    a = torch.narrow(x, 0, n - 1, 2)  # SYNC
    cpu_table = torch.arange(6)
    b = cpu_table[n]  # SYNC
    b = cpu_table[i.cpu()]  # SYNC # COPY
    return a, b
