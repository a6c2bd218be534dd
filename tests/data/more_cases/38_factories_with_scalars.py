"""Factories and methods with tensor arguments."""
import torch


def main(device):
    n = torch.full((), 4, dtype=torch.long, device=device)
    f = torch.full((), 0.5, device=device)
    x = torch.randn(8, 8, device=device)
    a = torch.arange(n, device=device)  # SYNC
    a = torch.zeros(n, 2, device=device)  # SYNC
    a = torch.zeros((n, 2), device=device)  # SYNC
    a = torch.empty([2, n], device=device)  # SYNC
    a = torch.full((2,), f, device=device)  # SYNC
    a = torch.full((2,), f.item(), device=device)  # SYNC
    a = torch.linspace(0.0, 1.0, n, device=device)  # SYNC
    a = torch.eye(n, device=device)  # SYNC
    a = x.view(n, -1)  # SYNC
    a = x.reshape(2, n, 8)  # SYNC
    a = x.expand(n, 8, 8)  # SYNC
    a = x.repeat(n, 1)  # SYNC
    a = x.chunk(n)  # SYNC
    a = x.split(n)  # SYNC
    a = x.topk(n)  # SYNC
    a = x.roll(n)  # SYNC
    a = x.narrow(0, 0, n)  # SYNC
    a = x.sum(dim=1)  # OK
    a = torch.tril(x, n)  # SYNC
    a = x.clamp(f)  # OK
    a = x.clamp(min=f, max=1.0)  # SYNC
    a = x + f  # OK
    a = x * f.item()  # SYNC
    a = x.add(f, alpha=2)  # OK
    a = torch.add(x, x, alpha=f)  # SYNC
    a = torch.addcmul(x, x, x, value=f)  # SYNC
    a = torch.dropout(x, f, True)  # SYNC
    a = torch.full_like(x, f)  # SYNC
    a = x.new_full((2,), f)  # SYNC
    a = x.fill_(f)  # OK
    a = torch.where(x > f, x, f)  # OK
    a = x.pow(f)  # OK
    a = torch.diag_embed(x[0], n)  # SYNC
    a = x.unfold(0, n, 1)  # SYNC
    a = torch.nn.functional.pad(x, (0, n))  # SYNC
    a = torch.nn.functional.one_hot(n.view(1), 8)  # OK
    a = torch.max(x, f)  # OK
    a = torch.normal(0.0, f.expand(3))  # SYNC
    a = torch.randint(0, n, (3,), device=device)  # SYNC
    a = x.size(int(n) - 4)  # SYNC
    a = torch.as_strided(x, (2, 2), (1, n))  # SYNC
    return a
