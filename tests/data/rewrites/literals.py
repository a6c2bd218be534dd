"""Python data that becomes a tensor of the device."""

import torch


def main(device):
    limits = [0.5, 0.4, 0.3]
    rate = 3e-4
    out = []
    for step in range(2):
        out.append(torch.tensor([-1], device=device))
        out.append(torch.tensor(0.8, device=device))
        out.append(torch.tensor(step, device=device))
        out.append(torch.tensor(rate, dtype=torch.float64, device=device))
        out.append(torch.tensor([True, True], device=device))
        out.append(torch.tensor([0, 2, 4], device=device))
        out.append(torch.tensor(limits, device=device))
        out.append(torch.as_tensor([[1, 2], [3, 5]], device=device))
    return out
