"""Lists and CPU tensors as indices."""

import torch


def main(device):
    x = torch.arange(40.0, device=device).view(4, 10)
    columns = [1, 5, 2]
    return x[:, [0, 4, 8]], x[:, columns], x[torch.tensor([0, 1, 2])], x[[3, 0]]
