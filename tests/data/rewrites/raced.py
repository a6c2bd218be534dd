"""A buffer that is read while it is filled.

left: copied.synchronize()
"""

import torch


def main(device):
    x = torch.arange(1 << 20, dtype=torch.float32, device=device)
    y = (x * 2).to("cpu", non_blocking=True)
    shape = y.shape
    total = y.sum()
    return total, shape
