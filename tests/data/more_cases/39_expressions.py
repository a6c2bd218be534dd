"""Several waits in one line; multi-line expressions; lambdas and decorators."""
import functools

import torch


def logged(fn):
    @functools.wraps(fn)
    def wrapper(*args):
        out = fn(*args)  # OK
        wrapper.last = out.item()  # SYNC
        return out

    return wrapper


@logged
def loss_fn(a, b):
    return (a - b).square().mean()  # OK


def main(device):
    x = torch.rand(4, device=device) + 1
    y = torch.rand(4, device=device)
    for _ in range(2):
        pair = x[0].item() + y[0].item()  # SYNC
        trio = (x[0].item(), y.sum(), y[1].item())  # SYNC
        loss_fn(x, y)  # OK
        table = {
            "a": x.mean().item(),  # SYNC
            "b": y.mean(),  # OK
            "c": float(y.max()),  # SYNC
        }
        value = (
            x.sum()  # OK
            .item()  # SYNC
        )
        show = lambda t: t.item()  # SYNC
        s = show(x[0]) if show(y[0]) > 0.5 else show(y[1])  # OK
        both = x[0].item() if x[0] > 0 and y[0] > 2 else 0  # SYNC
        chained = 0 < x[0] < 10  # SYNC
        walrus = (m := x.max().item()) > 0  # SYNC
        nest = [[float(v) for v in row] for row in (x, y)]  # SYNC
        d = {i: v.item() for i, v in enumerate(x)}  # SYNC
        st = {v.item() for v in x}  # SYNC
        f = f"{x[0].item():.2f} {y[0].item():.2f}"  # SYNC
        r = functools.reduce(lambda p, q: p + q, x)  # OK
        mp = list(map(float, x))  # SYNC
        try:
            x[0].item() / 0  # SYNC
        except ZeroDivisionError:
            z = x[1].item()  # SYNC
        ok = x.cpu() @ y.cpu()  # SYNC # COPY
        match int(x[0]):  # SYNC
            case 1:
                ok = ok + 1
    return pair, trio, table, value, s, both, chained, walrus, nest, d, st, f, r, mp, z, m
