"""TorchScript, tracing, legacy tensor types and default devices."""
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")


@torch.jit.script
def moved(x: torch.Tensor):
    y = torch.arange(3).to("cuda")
    return x[:3] + y


@torch.jit.script
def looped(x: torch.Tensor):
    total = 0.0
    for i in range(3):
        total += x[i].item()
    if bool(x.sum() > 0):
        total += 1.0
    return total


def main(device):
    x = torch.rand(4, device=device)
    a = moved(x)  # SYNC # COPY
    b = looped(x)  # SYNC
    lin = nn.Linear(4, 4).to(device)
    tr = torch.jit.trace(lin, x)  # SYNC
    for _ in range(2):
        c = tr(x)  # OK
    sc = torch.jit.script(lin)
    c = sc(x)  # OK
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        d = torch.Tensor(2)  # OK
        e = torch.zeros(2)  # OK
        f = torch.Tensor([1.0, 2.0])  # SYNC # COPY
        g = torch.randn(2)  # OK
        kinds = d.device.type, e.device.type, f.device.type, g.device.type  # OK
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert kinds == ("cuda",) * 4, kinds
    h = torch.cuda.FloatTensor(3).fill_(0)  # OK
    i = torch.cuda.FloatTensor([1.0, 2.0])  # SYNC # COPY
    j = x.type("torch.FloatTensor")  # SYNC
    k = x.new(2, 3)  # OK
    l = x.double().float()  # OK
    m = x.type_as(torch.zeros(1, device=device))  # OK
    torch.set_default_device(device)
    try:
        o = torch.zeros(3)  # OK
        p = torch.tensor([1, 2])  # SYNC # COPY
        q = torch.arange(3)  # OK
    finally:
        torch.set_default_device(None)
    return a, b, c, h, i, j, k, l, m, o, p, q
