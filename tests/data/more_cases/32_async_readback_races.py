"""Asynchronous readbacks, read with and without a wait."""
import torch


def main(device):
    x = torch.randn(1 << 21, device=device)
    out = torch.empty(1 << 21, pin_memory=True)
    out.copy_(x * 2, non_blocking=True)  # OK
    bad = out[0].item()  # RACE
    torch.cuda.synchronize()  # SYNC
    good = out[0].item()  # OK
    out.copy_(x * 3, non_blocking=True)  # OK
    ev = torch.cuda.Event()
    ev.record()  # OK
    ev.synchronize()  # SYNC
    good = float(out[1])  # OK
    page = torch.empty(1 << 21)
    page.copy_(x, non_blocking=True)  # SYNC # COPY
    v = page.sum()  # OK
    h = (x + 1).to("cpu", non_blocking=True)  # OK
    if h[0] > 0:  # RACE
        v = v + 1
    h = (x + 1).to("cpu", non_blocking=True)  # OK
    torch.cuda.current_stream().synchronize()  # SYNC
    l = h[:3].tolist()  # OK
    h = (x + 1).to("cpu", non_blocking=True)  # OK
    y = h * 2  # RACE
    h = (x + 1).to("cpu", non_blocking=True)  # OK
    x.sum().item()  # SYNC
    y = h * 2  # OK
    h = (x + 1).to("cpu", non_blocking=True)  # OK
    n = h.shape[0] + h.numel()  # OK
    torch.cuda.synchronize()  # SYNC
    z = h + 1  # OK
    return bad, good, v, l, y, n, z
