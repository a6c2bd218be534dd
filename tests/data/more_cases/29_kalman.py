"""Kalman filter and a simulation with host control flow."""
import torch


def main(device):
    f = torch.eye(4, device=device)
    h = torch.eye(2, 4, device=device)
    q, r = torch.eye(4, device=device) * 0.1, torch.eye(2, device=device)
    x, p = torch.zeros(4, 1, device=device), torch.eye(4, device=device)
    zs = torch.randn(5, 2, 1)
    for z in zs:
        x, p = f @ x, f @ p @ f.T + q  # OK
        s = h @ p @ h.T + r  # OK
        k = p @ h.T @ torch.linalg.inv(s)  # SYNC
        x = x + k @ (z.to(device) - h @ x)  # SYNC # COPY
        p = (torch.eye(4, device=device) - k @ h) @ p  # OK
        if torch.trace(p) > 100:  # SYNC
            p = torch.eye(4, device=device)
    err, it = torch.ones((), device=device), 0
    while err > 1e-3 and it < 4:  # SYNC
        err = err * 0.5  # OK
        it += 1
    track = [float(v) for v in x.flatten()]  # SYNC
    dt = torch.full((), 0.1, device=device)
    n = int(1 / dt)  # SYNC
    steps = torch.arange(n, device=device)  # OK
    t = torch.linspace(0, dt, 5, device=device)  # SYNC
    t = torch.arange(0, dt, 0.05, device=device)  # SYNC
    g = torch.full((3,), dt, device=device)  # SYNC
    w = x * dt  # OK
    w = x.add(x, alpha=float(dt))  # SYNC
    w = x.clamp(max=dt)  # OK
    w = torch.lerp(x, x, dt)  # OK
    w = torch.pow(x, dt)  # OK
    w = x.roll(it)  # OK
    return track, steps, t, g, w
