"""Custom autograd functions, anomaly mode, gradcheck-like code."""
import torch


class Clip(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, limit):
        ctx.save_for_backward(x)
        ctx.limit = float(limit)  # SYNC
        return x.clamp(-ctx.limit, ctx.limit)  # OK

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        if (x.abs() > ctx.limit).any():  # SYNC
            g = g * (x.abs() <= ctx.limit)  # OK
        return g, None


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()  # OK

    @staticmethod
    def backward(ctx, g):
        return g  # OK


def main(device):
    x = torch.randn(8, device=device, requires_grad=True)
    limit = torch.full((), 0.5, device=device)
    for _ in range(2):
        y = Clip.apply(x, limit)  # OK
        y = Straight.apply(y).sum()  # OK
        y.backward()  # OK
    with torch.autograd.detect_anomaly(check_nan=False):
        (x * 2).sum().backward()  # OK
    with torch.autograd.set_detect_anomaly(True):
        (x * 2).sum().backward()  # SYNC
    with torch.no_grad():
        x -= 0.1 * x.grad  # OK
        x.grad = None  # OK
    with torch.inference_mode():
        z = x * 2  # OK
        k = z.max().item()  # SYNC
    (g,) = torch.autograd.grad(x.square().sum(), x)  # OK
    (x.square() * torch.arange(8, device=device)).backward(torch.ones(8, device=device))  # OK
    x.square().sum().backward(retain_graph=True)  # OK
    return z, k, g
