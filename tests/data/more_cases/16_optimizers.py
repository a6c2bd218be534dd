"""Optimizers: capturable, fused, foreach, tensor lr, closures."""
import torch
from torch import nn


def main(device):
    x = torch.randn(4, 8, device=device)

    def run(make, steps=3):
        model = nn.Linear(8, 8).to(device)  # SYNC # COPY
        opt = make(model.parameters())
        for _ in range(steps):
            opt.zero_grad()  # OK
            model(x).square().mean().backward()  # OK
            opt.step()  # SYNC # COPY
        return opt

    o = run(lambda p: torch.optim.Adam(p, lr=1e-3))  # OK
    o = run(lambda p: torch.optim.Adam(p, lr=1e-3, fused=True))  # OK
    o = run(lambda p: torch.optim.Adam(p, lr=1e-3, foreach=False))  # OK
    o = run(lambda p: torch.optim.Adam(p, lr=1e-3, capturable=True))  # OK
    o = run(lambda p: torch.optim.AdamW(p, lr=torch.tensor(1e-3), fused=True))
    o = run(lambda p: torch.optim.AdamW(p, lr=torch.full((), 1e-3, device=device), capturable=True))  # SYNC
    o = run(lambda p: torch.optim.RMSprop(p, lr=1e-3))
    o = run(lambda p: torch.optim.Adagrad(p, lr=1e-3))
    o = run(lambda p: torch.optim.Adadelta(p))
    o = run(lambda p: torch.optim.Adamax(p))
    o = run(lambda p: torch.optim.NAdam(p))
    o = run(lambda p: torch.optim.RAdam(p))
    o = run(lambda p: torch.optim.Rprop(p))
    o = run(lambda p: torch.optim.ASGD(p))
    o = run(lambda p: torch.optim.SGD(p, lr=0.1, fused=True))
    model = nn.Linear(8, 8).to(device)
    lbfgs = torch.optim.LBFGS(model.parameters(), max_iter=3)

    def closure():
        lbfgs.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    lbfgs.step(closure)  # SYNC
    state = o.state_dict()  # OK
    o.load_state_dict(state)  # OK
    return o
