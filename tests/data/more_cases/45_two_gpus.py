"""Two devices, if there are two; else the same code on one."""
import torch


def main(device):
    count = torch.cuda.device_count()
    other = f"cuda:{count - 1}"
    x = torch.randn(64, device="cuda:0")
    y = x.to(other)  # OK
    z = y.to("cuda:0", non_blocking=True)  # OK
    w = torch.zeros(64, device=other)
    w.copy_(x)  # OK
    with torch.cuda.device(other):
        s = torch.ones(2, device="cuda")  # OK
        t = torch.cuda.current_device()  # OK
    back = w.cpu()  # SYNC # COPY
    v = w.sum().item()  # SYNC
    torch.cuda.synchronize(other)  # SYNC
    return z, s, t, back, v
