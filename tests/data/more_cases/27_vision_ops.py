"""grid_sample, interpolate, pooling, nms-like loops."""
import torch
import torch.nn.functional as F
from torch import nn


def main(device):
    x = torch.randn(2, 3, 16, 16, device=device)
    theta = torch.eye(2, 3, device=device).repeat(2, 1, 1)
    grid = F.affine_grid(theta, [2, 3, 16, 16], align_corners=False)  # OK
    y = F.grid_sample(x, grid, align_corners=False)  # OK
    y = F.interpolate(x, scale_factor=2, mode="bilinear")  # OK
    y = F.interpolate(x, size=(8, 8), mode="nearest")  # OK
    y = F.interpolate(x, scale_factor=(0.5, 0.5), mode="bicubic", antialias=True)  # OK
    y = F.adaptive_avg_pool2d(x, 1)  # OK
    y, idx = F.max_pool2d(x, 2, return_indices=True)  # OK
    y = F.max_unpool2d(y, idx, 2)  # OK
    y = F.fold(F.unfold(x, 2, stride=2), (16, 16), 2, stride=2)  # OK
    y = F.pad(x, (1, 1, 1, 1), mode="reflect")  # OK
    y = F.fractional_max_pool2d(x, 2, output_size=(8, 8))  # OK
    conv = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU()).to(device)
    z = conv(x)  # OK
    z = nn.ConvTranspose2d(8, 3, 2, stride=2).to(device)(z)  # OK
    z.mean().backward()  # OK
    boxes = torch.rand(10, 4, device=device)
    scores = torch.rand(10, device=device)
    order = scores.argsort(descending=True)  # OK
    keep = []
    while order.numel() > 0:  # OK
        i = order[0]  # OK
        keep.append(i.item())  # SYNC
        d = (boxes[order[1:]] - boxes[i]).abs().sum(1)  # SYNC
        order = order[1:][d > 0.8]  # SYNC
    kept = boxes[keep]  # SYNC # COPY
    crop = x[0, :, : int(kept[0, 0] * 4) + 1]  # SYNC
    mean = torch.tensor([0.5, 0.5, 0.5], device=device)[:, None, None]  # SYNC # COPY
    u8 = (x.clamp(0, 1) * 255).byte().permute(0, 2, 3, 1).cpu().numpy()  # SYNC # COPY
    return y, crop, mean, u8
