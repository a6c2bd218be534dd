"""Learn to read digits: a small convolutional network on colour images drawn in code.

Every image is a dot-matrix digit, turned, stretched, shifted, coloured and covered with noise.
The network reads almost all unseen digits correctly after the default number of steps.

The program is slower than it has to be. Each step reads single numbers back from the GPU (the
loss, a check for NaN, the accuracy), uploads its batch from ordinary memory while the host
waits, and uploads constants that never change. Trailing tags mark the places: `SYNC` where the
host waits for the device, `COPY` where data moves needlessly or from pageable memory, `OK` where
a line only looks like one of these. `classify_digits_fixed.py` computes the same without them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
MEAN = (0.5, 0.5, 0.5)
STD = (0.25, 0.25, 0.25)
LOG_EVERY = 20
Batches = DataLoader[tuple[Tensor, ...]]


def draw_digits(count: int, generator: torch.Generator, size: int = 24) -> TensorDataset:
    """`count` labelled images of random digits, each (3, size, size) with values in [0, 1]."""
    font = torch.tensor([[[int(dot) for dot in row] for row in glyph.split()] for glyph in GLYPHS])
    labels = torch.randint(10, (count,), generator=generator)
    angle = (torch.rand(count, generator=generator) - 0.5) * 0.9
    stretch = 1.2 + 0.6 * torch.rand(count, 2, generator=generator)
    shift = (torch.rand(count, 2, generator=generator) - 0.5) * 0.5
    cos, sin = angle.cos(), angle.sin()
    top = torch.stack([cos * stretch[:, 0], -sin * stretch[:, 0], shift[:, 0]], dim=1)
    bottom = torch.stack([sin * stretch[:, 1], cos * stretch[:, 1], shift[:, 1]], dim=1)
    grid = F.affine_grid(torch.stack([top, bottom], 1), [count, 1, size, size], align_corners=False)
    ink = F.grid_sample(font.float()[labels][:, None], grid, align_corners=False)
    paper = torch.rand(count, 3, 1, 1, generator=generator)
    pen = (paper + 0.35 + 0.3 * torch.rand(count, 3, 1, 1, generator=generator)) % 1.0
    noise = 0.1 * torch.randn(count, 3, size, size, generator=generator)
    return TensorDataset((paper + (pen - paper) * ink + noise).clamp(0.0, 1.0), labels)


class DigitNet(nn.Sequential):
    """Two strided convolutions and two linear layers; the parameters are made on `device`."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(
            nn.Conv2d(3, 24, 5, stride=2, padding=2, device=device),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1, device=device),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48 * 6 * 6, 96, device=device),
            nn.ReLU(),
            nn.Linear(96, 10, device=device),
        )


def normalise(images: Tensor) -> Tensor:
    mean = torch.tensor(MEAN, device=images.device).view(3, 1, 1)  # SYNC # COPY
    std = torch.tensor(STD, device=images.device).view(3, 1, 1)  # SYNC # COPY
    return (images - mean) / std


def endless(loader: Batches, steps: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """`steps` numbered batches, starting the loader again whenever it is exhausted."""
    step = 0
    while step < steps:
        for images, labels in loader:
            if step == steps:
                return
            yield step, images, labels
            step += 1


def train(model: nn.Module, loader: Batches, steps: int, device: torch.device) -> float:
    """Train for `steps` steps; returns the loss of the last one."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    running = last = 0.0
    for step, images, labels in endless(loader, steps):
        images = images.to(device)  # SYNC # COPY
        labels = labels.to(device)  # SYNC # COPY
        logits = model(normalise(images))
        loss = F.cross_entropy(logits, labels)
        if torch.isnan(loss):  # SYNC
            raise FloatingPointError(f"the loss is not a number at step {step}")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = loss.item()  # SYNC
        running += last
        accuracy = (logits.argmax(1) == labels).float().mean().item()  # SYNC
        if (step + 1) % LOG_EVERY == 0:
            print(f"step {step + 1}: loss {running / LOG_EVERY:.4f}, accuracy {accuracy:.3f}")
            running = 0.0
    return last


@torch.no_grad()
def evaluate(model: nn.Module, loader: Batches, device: torch.device) -> float:
    """The share of digits that the model reads correctly."""
    correct = 0
    for images, labels in loader:
        images = images.to(device)  # SYNC # COPY
        predicted = model(normalise(images)).argmax(1).cpu()  # SYNC # COPY
        correct += (predicted == labels).sum().item()  # OK
    return correct / len(loader.dataset)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn to read drawn digits.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    torch.backends.cudnn.deterministic = True
    generator = torch.Generator().manual_seed(args.seed)
    train_digits, test_digits = draw_digits(4096, generator), draw_digits(1024, generator)
    train_loader = DataLoader(train_digits, batch_size=128, shuffle=True, generator=generator)
    test_loader = DataLoader(test_digits, batch_size=256)
    model = DigitNet(device)
    loss = train(model, train_loader, args.steps, device)
    accuracy = evaluate(model, test_loader, device)
    print(f"final loss {loss:.6f}")
    print(f"final accuracy {accuracy:.4f}")


if __name__ == "__main__":
    main()
