"""A pinned source that is not refilled."""

import torch


def main(device):
    staging = torch.ones(1024, pin_memory=True)
    target = torch.zeros(1024, device=device)
    target.copy_(staging)
    return staging.to(device), target
