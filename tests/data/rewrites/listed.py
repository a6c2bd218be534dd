"""Lists of numbers that are read one by one.

left: torch.stack(history).flatten().tolist(); torch.stack(norms).flatten().tolist()
"""

import torch


def main(device):
    history = []
    norms: list[float] = []
    for step in range(4):
        loss = torch.arange(4.0, device=device).mean() + step / 3
        history.append(loss.item())
        norms.append(float(loss.square().sum()))
    return history, norms, max(history)
