"""Nested and jagged tensors."""
import warnings

import torch


def main(device):
    warnings.simplefilter("ignore")
    rows = [torch.randn(n, 4, device=device) for n in (3, 5, 2)]
    nt = torch.nested.nested_tensor(rows)
    nj = torch.nested.nested_tensor(rows, layout=torch.jagged)  # SYNC # COPY
    aj = torch.nested.as_nested_tensor(rows, layout=torch.jagged)  # SYNC # COPY
    w = torch.randn(4, 6, device=device)
    y = nj @ w
    z = torch.nn.functional.linear(nt, w.T)
    s = torch.nn.functional.linear(nj, w.T)
    p = torch.nested.to_padded_tensor(nt, 0.0)  # SYNC # COPY
    pj = nj.to_padded_tensor(0.0)
    u = nt.unbind()
    uj = nj.unbind()  # SYNC
    offsets = torch.arange(0, 11, 5, device=device)
    fj = torch.nested.nested_tensor_from_jagged(torch.randn(10, 4, device=device), offsets)
    v = fj.values()  # OK
    a = nj.sin()  # OK
    mx = nj.sum(dim=-1)
    return y, z, s, p, pj, u, uj, v, a, mx
