"""unique in its forms, histograms, searchsorted."""
import torch


def main(device):
    x = torch.randint(0, 10, (40,), device=device)
    rows = torch.randint(0, 3, (20, 2), device=device)
    f = torch.rand(40, device=device)
    u = torch.unique(x)  # SYNC
    u, c = x.unique(return_counts=True)  # SYNC
    u, inv = torch.unique(x, return_inverse=True)  # SYNC
    ur, c = torch.unique(rows, dim=0, return_counts=True)  # OK
    uc = torch.unique_consecutive(x)  # SYNC
    uc, n = rows.unique_consecutive(dim=0, return_counts=True)  # OK
    b = torch.bincount(x)  # SYNC
    b = torch.bincount(x, weights=f, minlength=10)  # SYNC
    h = torch.histc(f, bins=10, min=0, max=1)  # OK
    h = torch.histc(f, bins=10)  # SYNC
    edges = torch.linspace(0, 1, 11, device=device)  # OK
    k = torch.bucketize(f, edges)  # OK
    k = torch.searchsorted(edges, f, right=True)  # OK
    k = torch.searchsorted(edges, 0.5)  # OK
    q = f.quantile(0.5)  # OK
    q = f.quantile(torch.tensor([0.1, 0.9], device=device))  # SYNC # COPY
    med = f.median()  # OK
    mode = x.mode()  # OK
    isin = torch.isin(x, rows.flatten()[:3])  # OK
    big = torch.isin(x, torch.arange(1000, device=device))  # SYNC # COPY
    inside = 3 in x  # SYNC
    kth = f.kthvalue(3)  # OK
    cm = torch.bincount(x * 10 + x.flip(0), minlength=100).view(10, 10)  # SYNC
    return u, inv, ur, uc, n, b, h, k, q, med, mode, isin, big, inside, kth, cm
