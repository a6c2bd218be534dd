"""Modules, parameters and buffers on the move."""
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)
        self.register_buffer("scale", torch.ones(()))
        self.table = torch.arange(8.0)
        self.steps = 0

    def forward(self, x):
        pos = torch.arange(x.shape[1], device=x.device)  # OK
        bias = torch.zeros(8).to(x.device)  # SYNC # COPY
        y = self.lin(x) * self.scale + self.table.to(x.device)  # SYNC # COPY
        eps = torch.tensor(1e-6, device=x.device)  # SYNC # COPY
        mask = torch.ones(1, x.shape[1]).triu().to(x)  # SYNC # COPY
        mask2 = torch.ones(x.shape[1], x.shape[1], device=x.device).triu()  # OK
        self.steps += 1
        half = torch.tensor(0.5)  # OK
        return y * half + eps + pos + bias, mask, mask2


def main(device):
    def fix(text):
        return text

    net = Net()
    net.to(device)  # OK
    x = torch.randn(2, 8, device=device)
    for _ in range(2):
        net(x)  # OK
    net.half()  # OK
    net.float()  # OK
    net.to(torch.bfloat16).to(torch.float32)  # OK
    net.train()  # OK
    net.requires_grad_(False)  # OK
    sd = net.state_dict()  # OK
    net.load_state_dict(sd)  # OK
    net.load_state_dict({k: torch.zeros(v.shape) for k, v in sd.items()})  # SYNC # COPY
    net.cpu()  # OK
    net.cuda()  # OK
    n = sum(p.numel() for p in net.parameters())  # OK
    nn.init.xavier_uniform_(net.lin.weight)  # OK
    nn.init.orthogonal_(net.lin.weight)  # OK
    nn.init.trunc_normal_(net.lin.weight)  # OK
    nn.init.zeros_(net.lin.bias)  # OK
    on = nn.Linear(4, 4, device=device)  # OK
    meta = nn.Linear(4, 4, device="meta").to_empty(device=device)  # OK
    p = nn.Parameter(torch.zeros(3, device=device))  # OK
    q = nn.Parameter(torch.zeros(3)).to(device)  # SYNC # COPY
    same = x.to(device).to(x.dtype).to(x)  # OK
    bn = nn.BatchNorm1d(8).to(device)  # OK
    bn(x)  # OK
    bn.eval()(x)  # OK
    dr = nn.Dropout(0.5)(x)  # OK
    with torch.device(device):
        made = nn.Linear(3, 3)  # OK
        lit = torch.tensor([1.0, 2.0])  # SYNC # COPY
    return n, on, meta, p, q, same, dr, made, lit
