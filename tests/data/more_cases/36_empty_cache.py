"""Giving memory back in every step."""
import gc

import torch


def main(device):
    w = torch.randn(512, 512, device=device)
    for step in range(3):
        big = torch.empty(64 << 20, dtype=torch.uint8, device=device)
        y = w @ w  # OK
        del big
        torch.cuda.empty_cache()  # OK
        if step == 1:
            gc.collect()  # OK
    torch.cuda.synchronize()  # SYNC
    peak = torch.cuda.max_memory_allocated()  # OK
    torch.cuda.ipc_collect()  # OK
    return y, peak
