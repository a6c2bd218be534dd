"""Embeddings and bags."""
import torch
import torch.nn.functional as F
from torch import nn


def main(device):
    emb = nn.Embedding(20, 8, padding_idx=0, device=device)
    emb2 = nn.Embedding(20, 8, max_norm=1.0, device=device)
    bag = nn.EmbeddingBag(20, 8, mode="sum", device=device)
    ids = torch.randint(0, 20, (12,), device=device)
    offs = torch.arange(0, 12, 4, device=device)
    w = torch.rand(12, device=device)
    a = emb(ids)  # OK
    b = emb2(ids)  # OK
    c = bag(ids, offs)  # OK
    c = bag(ids, offs, per_sample_weights=w)  # OK
    c = bag(ids.view(3, 4))  # OK
    c = F.embedding_bag(ids, emb.weight, offs, mode="max")  # OK
    c.sum().backward()  # OK
    bag(ids, offs).sum().backward()  # OK
    emb(ids).sum().backward()  # OK
    big = nn.Embedding(50, 8, device=device)
    big(torch.randint(0, 50, (4096,), device=device)).sum().backward()  # OK
    d = emb(torch.tensor([1, 2, 3], device=device))  # SYNC # COPY
    d = emb.weight[ids]  # OK
    d = emb(ids.unique())  # SYNC
    pos = emb(torch.arange(4, device=device))  # OK
    host = nn.Embedding(20, 8)
    e = host(ids.cpu()).to(device)  # SYNC # COPY
    tied = F.linear(a, emb.weight)  # OK
    hit = (ids == 0).any()  # OK
    if ids.max() >= 20:  # SYNC
        raise ValueError("out of range")
    freq = torch.bincount(ids, minlength=20)  # SYNC
    return b, d, pos, e, tied, hit, freq
