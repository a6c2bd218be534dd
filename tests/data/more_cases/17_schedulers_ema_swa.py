"""Learning-rate schedulers, EMA and SWA copies."""
import copy

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn


def main(device):
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8)).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(opt)
    one = torch.optim.lr_scheduler.OneCycleLR(opt, 0.1, total_steps=20)
    ema = copy.deepcopy(model)  # OK
    swa = AveragedModel(model)  # OK
    ema2 = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))  # OK
    x = torch.randn(16, 8, device=device)
    best = float("inf")
    for _ in range(3):
        loss = model(x).square().mean()  # OK
        opt.zero_grad()  # OK
        loss.backward()  # OK
        opt.step()  # OK
        one.step()  # OK
        plateau.step(loss.detach())  # SYNC
        swa.update_parameters(model)  # SYNC # COPY
        ema2.update_parameters(model)  # SYNC # COPY
        with torch.no_grad():
            for p, q in zip(ema.parameters(), model.parameters()):
                p.lerp_(q, 0.1)  # OK
                p.mul_(0.9).add_(q, alpha=0.1)  # OK
            torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 0.1)  # OK
            for p, q in zip(ema.buffers(), model.buffers()):
                p.copy_(q)  # OK
        if loss < best:  # SYNC
            best = loss.detach()  # OK
        n = model[1].num_batches_tracked  # OK
    update_bn([x, x], swa, device=device)  # SYNC
    decay = min(0.99, (1 + n) / (10 + n))  # SYNC
    return best, decay
