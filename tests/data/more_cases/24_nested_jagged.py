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
    return y
