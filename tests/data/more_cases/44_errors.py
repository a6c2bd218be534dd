"""Errors of mixed devices, which programs catch."""
import torch
from torch import nn


def caught(fn):
    try:
        fn()
    except (RuntimeError, TypeError) as error:
        return str(error)
    return ""


def main(device):
    x, h = torch.randn(2, 3, 8, 8, device=device), torch.randn(2, 3, 8, 8)
    conv, lin = nn.Conv2d(3, 4, 3), nn.Linear(8, 8)
    texts = {
        "add": caught(lambda: x + h),
        "conv": caught(lambda: conv(x)),
        "conv2": caught(lambda: nn.Conv2d(3, 4, 3).to(device)(h)),
        "linear": caught(lambda: lin(x)),
        "matmul": caught(lambda: x @ h),
        "cat": caught(lambda: torch.cat([x, h])),
        "index": caught(lambda: h[torch.zeros(1, dtype=torch.long, device=device)]),
        "numpy": caught(lambda: x.numpy()),
        "embedding": caught(lambda: nn.Embedding(4, 4)(torch.zeros(1, dtype=torch.long, device=device))),
        "bn": caught(lambda: nn.BatchNorm2d(3)(x)),
        "loss": caught(lambda: nn.functional.mse_loss(x, h)),
        "ce": caught(lambda: nn.functional.cross_entropy(x.flatten(1), torch.zeros(2, dtype=torch.long))),
        "where": caught(lambda: torch.where(x > 0, x, h)),
        "scatter": caught(lambda: x.scatter(0, torch.zeros(1, 3, 8, 8, dtype=torch.long), x)),
        "gather": caught(lambda: x.gather(0, torch.zeros(1, 3, 8, 8, dtype=torch.long))),
        "stack": caught(lambda: torch.stack([x, h])),
        "copyok": caught(lambda: x.clone().copy_(h)),  # SYNC # COPY
        "scalar": caught(lambda: x + torch.tensor(1.0)),
        "ordinal": caught(lambda: x.to("cuda:99")),
    }
    for name, text in texts.items():
        print(name, "|", text.splitlines()[0] if text else "-")
    return texts
