"""Double buffering of pinned staging memory, right and wrong."""
import torch


def main(device):
    work = torch.randn(1024, 1024, device=device)
    bufs = [torch.empty(1 << 20, pin_memory=True) for _ in range(2)]
    evs = [torch.cuda.Event() for _ in range(2)]
    outs = []
    for i in range(4):
        b, e = bufs[i % 2], evs[i % 2]
        e.synchronize()  # SYNC
        b.fill_(float(i))  # OK
        outs.append(b.to(device, non_blocking=True))  # OK
        e.record()  # OK
    torch.cuda.synchronize()  # SYNC
    one = bufs[0]
    for i in range(2):
        work = work @ work  # OK
        one.copy_(torch.full((1 << 20,), float(i)))  # RACE
        outs.append(one.to(device, non_blocking=True))  # OK
    torch.cuda.synchronize()  # SYNC
    for i in range(2):
        one.zero_()  # OK
        outs.append(one.to(device))  # SYNC # COPY
    half = one[: 1 << 19]
    for i in range(2):
        work = work @ work  # OK
        one[1 << 19 :] = 1.0  # OK
        outs.append(half.to(device, non_blocking=True))  # OK
    torch.cuda.synchronize()  # SYNC
    fresh = torch.randn(1 << 18).pin_memory()  # OK
    dev = torch.empty(1 << 18, device=device)
    dev.copy_(fresh, non_blocking=True)  # OK
    dev.copy_(fresh)  # SYNC # COPY
    return outs, dev
