"""autocast for the GPU, for the CPU, nested and disabled."""
import torch
from torch import nn


def main(device):
    lin = nn.Linear(8, 8).to(device)
    x = torch.randn(4, 8, device=device)
    h = torch.randn(4, 8)
    host = nn.Linear(8, 8)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        y = lin(x)  # OK
        a = str(y.dtype)  # OK
        with torch.autocast("cuda", enabled=False):
            z = lin(x)  # OK
            b = str(z.dtype)  # OK
        c = str(host(h).dtype)  # OK
        s = str((y.softmax(-1)).dtype)  # OK
    with torch.autocast("cpu", dtype=torch.bfloat16):
        d = str(lin(x).dtype)  # OK
        e = str(host(h).dtype)  # OK
    with torch.autocast("cuda"), torch.autocast("cpu"):
        f = str(lin(x).dtype), str(host(h).dtype)  # OK
    assert (a, b, c, d, e) == (
        "torch.bfloat16", "torch.float32", "torch.float32", "torch.float32", "torch.bfloat16"
    ), (a, b, c, d, e)
    assert f == ("torch.float16", "torch.bfloat16"), f
    assert s == "torch.float32", s
    with torch.autocast("cuda", dtype=torch.float16):
        loss = (lin(x) ** 2).mean()  # OK
        v = loss.item()  # SYNC
    loss.backward()  # OK
    on = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")  # OK
    return v, on
