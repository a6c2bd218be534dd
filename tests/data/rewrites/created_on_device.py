"""Factories whose result is moved at once."""

import torch


def main(device):
    a = torch.ones(3, 4).to("cuda")
    b = torch.arange(6).view(2, 3).to(device)
    c = torch.zeros(5).cuda()
    d = torch.eye(3).to(device, torch.float16)
    e = torch.full((2,), 7).to(a.device)
    f = torch.zeros(2, 2).to(a)
    g = torch.ones(4, 4, dtype=torch.bool).triu(1)[None].to(device)
    h = torch.ones_like(torch.zeros(2)).to(device=device)
    i = torch.linspace(0, 1, 5).to(device, non_blocking=True)
    return a, b, c, d, e, f, g, h, i
