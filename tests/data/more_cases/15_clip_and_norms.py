"""Gradient norms: the flags that read back."""
import torch
from torch import nn


def main(device):
    model = nn.Linear(8, 8).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    x = torch.randn(4, 8, device=device)
    for _ in range(3):
        opt.zero_grad()  # OK
        model(x).square().mean().backward()  # OK
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # OK
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # SYNC
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)  # OK
        nn.utils.clip_grad_value_(model.parameters(), 1.0)  # OK
        total = nn.utils.get_total_norm([p.grad for p in model.parameters()])  # OK
        norms = [p.grad.norm() for p in model.parameters()]  # OK
        worst = torch.stack(norms).max()  # OK
        if worst > 1e6:  # SYNC
            continue
        manual = sum(p.grad.norm().item() ** 2 for p in model.parameters())  # SYNC
        for p in model.parameters():
            if p.grad is not None and p.grad.isnan().any():  # SYNC
                p.grad.zero_()
            p.grad.clamp_(-total, total)  # OK
        flat = nn.utils.parameters_to_vector(model.parameters())  # OK
        nn.utils.vector_to_parameters(flat, model.parameters())  # OK
        opt.step()  # OK
    return manual, worst
