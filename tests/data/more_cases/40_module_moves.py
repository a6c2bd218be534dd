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
        mask = torch.ones(1, x.shape[1], device=x.device)
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
    return net
