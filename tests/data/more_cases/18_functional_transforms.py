"""torch.func, vmap, grad, jacobians, checkpoint, hooks."""
import torch
from torch import nn
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vmap
from torch.utils.checkpoint import checkpoint


def main(device):
    w = torch.randn(5, 5, device=device)
    x = torch.randn(6, 5, device=device)

    def loss(w, x):
        return (x @ w).square().sum()  # OK

    g = grad(loss)(w, x)  # OK
    per = vmap(grad(loss), in_dims=(None, 0))(w, x)  # OK
    g, v = grad_and_value(loss)(w, x)  # OK
    j = jacrev(lambda a: a.sin())(x[0])  # OK
    j = jacfwd(lambda a: a.sin())(x[0])  # OK
    h = hessian(lambda a: a.square().sum())(x[0])  # OK
    p, t = jvp(torch.sin, (x,), (x,))  # OK
    layer = nn.Linear(5, 5).to(device)
    y = functional_call(layer, dict(layer.named_parameters()), (x,))  # OK
    y = checkpoint(layer, x.clone().requires_grad_(), use_reentrant=False).sum()  # OK
    y.backward()  # OK
    y = checkpoint(layer, x.clone().requires_grad_(), use_reentrant=True).sum()  # OK
    y.backward()  # OK
    seen = []
    handle = layer.register_forward_hook(lambda m, i, o: seen.append(o.norm().item()))  # SYNC
    layer(x)  # OK
    handle.remove()
    z = x.clone().requires_grad_()
    z.register_hook(lambda g: seen.append(float(g.norm())))  # SYNC
    (z * 2).sum().backward()  # OK
    flat = torch.autograd.grad((layer(x).square()).sum(), layer.parameters())  # OK
    v = float(v)  # SYNC
    return g, per, j, h, p, t, y, seen, flat, v
