"""Random numbers: only their distribution stays the same."""

import torch


def main(device):
    noise = torch.randn(64, 64).to(device)
    return noise.shape, noise.dtype, noise.device, noise.requires_grad
