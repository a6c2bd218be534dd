"""Train a denoising autoencoder on sensor frames that stream in from host memory.

A frame is a mixture of a few smooth waves. The network sees it with noise added and learns to
give it back clean, through a narrow middle. The frames are not kept on the GPU: each step uploads
a whole batch: 128 MB with `--size large`. That is where the time goes. The batch comes from
ordinary, pageable memory, and the host waits for it; then the GPU waits for the host, because
each step also reads back the loss, compares it with the best one so far on the host, and checks
the norm of the gradient. Trailing tags mark the places: `SYNC` where the host waits for the
device, `COPY` where data moves needlessly or from pageable memory, `OK` where a line only looks
like one of these. `upload_bound_fixed.py` computes the same without them.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Size:
    """Samples in a frame, width of the hidden layers, frames in a batch, batches on the host."""

    frame: int
    hidden: int
    batch: int
    batches: int


SIZES = {
    "small": Size(frame=512, hidden=64, batch=512, batches=4),
    "large": Size(frame=4096, hidden=512, batch=8192, batches=4),
}
WAVES = 12


def record_frames(size: Size, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Frames (batches, batch, frame), and how far to trust each (batches, batch)."""
    phase = 2 * math.pi * torch.rand(WAVES, 1, generator=generator)
    pitch = 1.0 + 9.0 * torch.rand(WAVES, 1, generator=generator)
    waves = (phase + pitch * torch.linspace(0, 2 * math.pi, size.frame)).sin()
    loudness = torch.randn(size.batches, size.batch, WAVES, generator=generator) / WAVES**0.5
    frames = torch.empty(size.batches, size.batch, size.frame)
    torch.matmul(loudness, waves, out=frames)
    trust = 0.5 + 0.5 * torch.rand(size.batches, size.batch, generator=generator)
    return frames, trust


class Autoencoder(nn.Sequential):
    """Frame to frame through a narrow middle; the parameters are made on `device`."""

    def __init__(self, size: Size, device: torch.device) -> None:
        super().__init__(
            nn.Linear(size.frame, size.hidden, device=device),
            nn.GELU(),
            nn.Linear(size.hidden, 2 * WAVES, device=device),
            nn.Linear(2 * WAVES, size.hidden, device=device),
            nn.GELU(),
            nn.Linear(size.hidden, size.frame, device=device),
        )


def noise_level(step: int, steps: int) -> float:
    """The noise grows in the course of the training."""
    return 0.1 + 0.4 * step / steps


def train(
    model: nn.Module, frames: Tensor, trust: Tensor, steps: int, device: torch.device
) -> tuple[float, float]:
    """Train for `steps` batches; returns the last loss and the best one."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    best = torch.full((), math.inf, device=device)  # OK
    history: list[float] = []
    for step in range(steps):
        clean = frames[step % len(frames)].to(device)  # SYNC # COPY
        weight = trust[step % len(trust)].to(device, non_blocking=True)  # COPY
        level = torch.tensor(noise_level(step, steps), device=device)  # SYNC # COPY
        noisy = clean + level * torch.randn_like(clean)  # OK
        error = (model(noisy) - clean).square().mean(1)
        loss = (weight * error).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # SYNC
        optimizer.step()
        if loss < best:  # SYNC
            best = loss.detach()
        history.append(loss.item())  # SYNC
    return history[-1], best.item()  # SYNC


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a denoising autoencoder.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=SIZES, default="small")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    device, size = torch.device(args.device), SIZES[args.size]
    torch.manual_seed(args.seed)
    frames, trust = record_frames(size, torch.Generator().manual_seed(args.seed))
    model = Autoencoder(size, device)
    start = time.perf_counter()
    loss, best = train(model, frames, trust, args.steps, device)
    seconds = time.perf_counter() - start
    print(f"{args.steps} steps, {1e3 * seconds / args.steps:.2f} ms each")
    print(f"final loss {loss:.6f}")
    print(f"final best loss {best:.6f}")


if __name__ == "__main__":
    main()
