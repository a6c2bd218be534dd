"""Writes: numbers, lists, numpy, host tensors, devices' scalars."""
import numpy as np
import torch


def main(device):
    x = torch.zeros(6, 8, device=device)
    i = torch.arange(2, device=device)
    m = x == 0  # OK
    x[0] = 1.0  # OK
    x[0, 0] = 2  # SYNC # COPY
    x[:, 1] = 3  # OK
    x[...] = 4.0  # OK
    x[i] = 5.0  # SYNC # COPY
    x[m] = 6.0  # OK
    x[[0, 1]] = 7.0  # SYNC # COPY
    x[0] = torch.arange(8)  # SYNC # COPY
    x[0] = torch.from_numpy(np.arange(8, dtype=np.float32))  # SYNC # COPY
    x[0] = torch.ones(8, device=device)  # OK
    x[i] = torch.ones(8, device=device)  # OK
    x[i] = x[i] + 1  # OK
    x[i] += 1  # OK
    x[0] += 1  # OK
    x[:, 2] *= 2  # OK
    x[2:4].zero_()  # OK
    x[4].fill_(1.0)  # OK
    x[5].copy_(torch.ones(8, device=device))  # OK
    x[0, 1] = x[1, 0]  # OK
    x[torch.tensor(2)] = 1.0  # OK
    x[1] = torch.tensor(3.0)  # OK
    x[i, i] = torch.tensor(4.0)  # SYNC # COPY
    x[m] = torch.tensor(5.0)  # OK
    x.index_put_((i,), torch.tensor(1.0, device=device))  # SYNC # COPY
    x.fill_diagonal_(1.0)  # OK
    x.diagonal().fill_(2.0)  # OK
    x[:, -1] = True  # OK
    x[i[0]] = 1.0  # SYNC
    h = torch.zeros(4)
    h[0] = x[0, 0]  # SYNC
    h[1:3] = x[0, :2]  # SYNC
    h[:] = 1.0  # OK
    h.copy_(x[0, :4])  # SYNC # COPY
    return x, h
