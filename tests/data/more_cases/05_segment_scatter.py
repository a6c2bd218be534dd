"""Scatter and segment operators over ragged groups."""
import torch


def main(device):
    x = torch.randn(10, 4, device=device)
    group = torch.tensor([0, 0, 1, 1, 1, 2, 2, 3, 3, 3], device=device)  # SYNC # COPY
    s = torch.zeros(4, 4, device=device).scatter_add(0, group[:, None].expand(-1, 4), x)  # OK
    m = torch.zeros(4, 4, device=device).scatter_reduce(0, group[:, None].expand(-1, 4), x, "amax")  # OK
    r = torch.zeros(4, 4, device=device).index_reduce_(0, group, x, "mean")  # OK
    n = int(group.max()) + 1  # SYNC
    z = torch.zeros(int(group.max() + 1), 4, device=device)  # SYNC
    z = x.new_zeros(group.max() + 1, 4)  # SYNC
    z = torch.zeros(group[-1] + 1, device=device)  # SYNC
    lengths = torch.zeros(4, dtype=torch.long, device=device).scatter_add_(0, group, torch.ones_like(group))  # OK
    seg = torch.segment_reduce(x, "sum", lengths=lengths)  # SYNC
    seg = torch.segment_reduce(x, "sum", lengths=lengths, unsafe=True)  # OK
    rep = torch.repeat_interleave(lengths)  # SYNC
    rep = torch.repeat_interleave(x[:4], lengths, dim=0)  # SYNC
    rep = torch.repeat_interleave(x[:4], lengths, dim=0, output_size=10)  # OK
    rep = x[:4].repeat_interleave(2, dim=0)  # OK
    rep = x[:4].repeat_interleave(torch.tensor(2, device=device), dim=0)  # SYNC # COPY
    put = x.clone().index_put_((group,), torch.zeros(10, 4, device=device), accumulate=True)  # OK
    take = x.take(group)  # OK
    along = torch.take_along_dim(x, group[:, None], dim=1)  # OK
    x.scatter_(1, group[:, None] % 4, 1.5)  # OK
    x.index_fill_(0, group[:2], 0.0)  # OK
    x.index_fill_(0, group[:2], torch.tensor(1.0, device=device))  # SYNC # COPY
    return s, m, r, n, z, seg, rep, put, take, along
