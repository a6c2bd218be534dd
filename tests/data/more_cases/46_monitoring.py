"""Metrics and early stopping in a training loop."""
import collections

import torch
from torch import nn


class Meter:
    def __init__(self):
        self.sum, self.n = 0.0, 0

    def update(self, value, n=1):
        self.sum += value * n  # OK
        self.n += n

    @property
    def avg(self):
        return self.sum / self.n  # OK


def main(device):
    torch.manual_seed(0)
    model = nn.Linear(8, 3).to(device)
    opt = torch.optim.Adam(model.parameters())
    x, y = torch.randn(32, 8, device=device), torch.randint(0, 3, (32,), device=device)
    meter, lazy = Meter(), Meter()
    history, recent = [], collections.deque(maxlen=3)
    best = torch.full((), 1e9, device=device)
    for step in range(5):
        opt.zero_grad()  # OK
        loss = nn.functional.cross_entropy(model(x), y)  # OK
        loss.backward()  # OK
        opt.step()  # OK
        meter.update(loss.item(), 32)  # SYNC
        lazy.update(loss.detach(), 32)  # OK
        history.append(loss.detach())  # OK
        recent.append(float(loss))  # SYNC
        best = torch.minimum(best, loss.detach())  # OK
        if loss.item() > 1e3 or loss.isnan():  # SYNC
            break
        if step == 2:
            cm = torch.zeros(3, 3, dtype=torch.long, device=device)
            pred = model(x).argmax(1)  # OK
            cm.index_put_((y, pred), torch.ones_like(y), accumulate=True)  # OK
            acc = (cm.diag().sum() / cm.sum()).item()  # SYNC
    mean = torch.stack(history).mean().item()  # SYNC
    avg = f"{lazy.avg:.3f} {meter.avg:.3f}"  # SYNC
    return mean, avg, acc, best.cpu()  # SYNC # COPY
