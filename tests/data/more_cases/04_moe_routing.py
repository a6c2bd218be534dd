"""Mixture of experts: bincount, argsort, split by counts."""
import torch


def main(device):
    x = torch.randn(64, 16, device=device)
    experts = [torch.randn(16, 16, device=device) for _ in range(4)]
    gate = torch.randn(16, 4, device=device)
    weight, choice = (x @ gate).softmax(-1).topk(2)  # OK
    flat = choice.flatten()  # OK
    order = flat.argsort(stable=True)  # OK
    counts = torch.bincount(flat, minlength=4)  # SYNC
    rows = order // 2  # OK
    parts = x[rows].split(counts.tolist())  # SYNC
    out = [part @ expert for part, expert in zip(parts, experts)]  # OK
    joined = torch.cat(out)  # OK
    y = torch.zeros_like(x).index_add_(0, rows, joined)  # OK
    y2 = torch.zeros_like(x).index_add(0, rows, joined, alpha=0.5)  # OK
    counts2 = torch.zeros(4, device=device).index_add_(0, flat, torch.ones(128, device=device))  # OK
    counts3 = torch.nn.functional.one_hot(flat, 4).sum(0)  # OK
    counts4 = torch.nn.functional.one_hot(flat).sum(0)  # SYNC
    bounds = counts.cumsum(0)  # OK
    chunks = torch.tensor_split(x[rows], bounds[:-1].cpu())  # SYNC # COPY
    for e in range(4):
        token, slot = torch.where(choice == e)  # SYNC
        if token.numel() == 0:  # OK
            continue
        y2.index_add_(0, token, x[token] * weight[token, slot, None])  # OK
    load = [int(c) for c in counts]  # SYNC
    busy = (counts > 0).sum().item()  # SYNC
    return y, y2, counts2, counts3, counts4, len(chunks), load, busy
