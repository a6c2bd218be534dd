"""autocast, GradScaler, clipping, a scheduler and logging."""
import torch
from torch import nn


def main(device):
    model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)
    scaler = torch.amp.GradScaler(device)
    x = torch.randn(8, 16, device=device)
    y = torch.randint(0, 4, (8,), device=device)
    for step in range(4):
        opt.zero_grad(set_to_none=True)  # OK
        with torch.autocast(device, dtype=torch.float16):
            loss = nn.functional.cross_entropy(model(x), y)  # OK
        scaler.scale(loss).backward()  # OK
        scaler.unscale_(opt)  # OK
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # OK
        scaler.step(opt)  # SYNC
        scaler.update()  # OK
        sched.step()  # OK
        lr = opt.param_groups[0]["lr"]  # OK
        if step % 2 == 0:
            print("", end=f"{loss.item() * 0:.0f}\r"[:0])  # SYNC
        scale = scaler.get_scale()  # SYNC
    acc = (model(x).argmax(-1) == y).float().mean()  # OK
    return lr, scale, norm, float(acc)  # SYNC
