"""Counted outputs: nonzero as tuple, where with one argument, masked_* forms."""
import torch


def main(device):
    x = torch.randn(8, 8, device=device)
    m = x > 0  # OK
    i, j = m.nonzero(as_tuple=True)  # SYNC
    ij = torch.where(m)  # SYNC
    cpu_i = torch.where(m.cpu())  # SYNC # COPY
    kept = x.masked_select(m)  # SYNC
    x.masked_scatter_(m, torch.zeros(64, device=device))  # OK
    x.masked_fill_(m, 1.0)  # OK
    x.masked_fill_(m, torch.ones((), device=device))  # SYNC
    y = x.masked_fill(m, torch.tensor(1.0))  # OK
    w = torch.where(m, x, 0.0)  # OK
    w = torch.where(m, x, torch.zeros((), device=device))  # OK
    w = torch.where(m, x, torch.tensor(2.0))  # SYNC # COPY
    x[m] = torch.zeros((), device=device)  # SYNC
    x[m] = -x[m]  # SYNC
    x[m] += 1  # SYNC
    x[~m] *= 2.0  # SYNC
    z = x * m  # OK
    rows = x[m.any(1)]  # SYNC
    first = x[m.any(1).nonzero()[0]]  # SYNC
    cols = x[:, m[0]]  # SYNC
    both = x[m[:, 0]][:, m[0]]  # SYNC
    n = m.sum()  # OK
    if n:  # SYNC
        n = n + 1
    if not m.any():  # SYNC
        return None
    count = torch.count_nonzero(m, dim=1)  # OK
    static = torch.nonzero_static(m, size=4)  # OK
    return i, j, ij, cpu_i, kept, y, w, z, rows, first, cols, both, n, count, static
