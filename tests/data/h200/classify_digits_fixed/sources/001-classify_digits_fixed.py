"""Learn to read digits: the repaired twin of `classify_digits.py`.

It draws the same images, learns the same weights and prints the same final figures. The host
never waits inside the loop: batches come from pinned memory and are copied asynchronously,
constants are uploaded once, losses and hits stay on the GPU and are read back when the training
is over. The price is that the losses are printed, and checked for NaN, at the end.
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


def upload(host: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to the device without waiting."""
    if device.type == "cuda":
        host = host.pin_memory()
    return host.to(device, non_blocking=True)


def read_back(value: Tensor) -> Tensor:
    """A device tensor on the host, after one explicit wait; for use outside the step loop."""
    if value.device.type != "cuda":
        return value
    host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
    host.copy_(value, non_blocking=True)
    copied = torch.cuda.Event()
    copied.record()
    copied.synchronize()
    return host


class Normalise(nn.Module):
    """Subtracts the mean colour and divides by the spread; the constants live on `device`."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        mean, std = upload(torch.tensor([MEAN, STD]).view(2, 3, 1, 1), device)
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, images: Tensor) -> Tensor:
        return (images - self.mean) / self.std


class DigitNet(nn.Sequential):
    """Two strided convolutions and two linear layers; the parameters are made on `device`."""

    def __init__(self, device: torch.device) -> None:
        super().__init__(
            Normalise(device),
            nn.Conv2d(3, 24, 5, stride=2, padding=2, device=device),
            nn.ReLU(),
            nn.Conv2d(24, 48, 3, stride=2, padding=1, device=device),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(48 * 6 * 6, 96, device=device),
            nn.ReLU(),
            nn.Linear(96, 10, device=device),
        )


def endless(loader: Batches, steps: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """`steps` numbered batches, starting the loader again whenever it is exhausted."""
    step = 0
    while step < steps:
        for images, labels in loader:
            if step == steps:
                return
            yield step, images, labels
            step += 1


def train(model: nn.Module, loader: Batches, steps: int, device: torch.device) -> Tensor:
    """Train for `steps` steps; returns loss and accuracy of each, still on the device."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    history = torch.zeros(steps, 2, device=device)
    for step, images, labels in endless(loader, steps):
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history[step, 0] = loss.detach()
        history[step, 1] = (logits.argmax(1) == labels).float().mean()
    return history


@torch.no_grad()
def evaluate(model: nn.Module, loader: Batches, device: torch.device) -> Tensor:
    """How many digits the model reads correctly, still on the device."""
    correct = torch.zeros((), dtype=torch.long, device=device)
    for images, labels in loader:
        images = images.to(device, non_blocking=True)
        labels = labels.to(device, non_blocking=True)
        correct += (model(images).argmax(1) == labels).sum()
    return correct


def print_history(history: Tensor) -> None:
    """Print the mean loss of each window; `history` is on the host."""
    if history.isnan().any():
        raise FloatingPointError("the loss is not a number")
    for end in range(LOG_EVERY, len(history) + 1, LOG_EVERY):
        loss, accuracy = history[end - LOG_EVERY : end, 0].mean(), history[end - 1, 1]
        print(f"step {end}: loss {loss:.4f}, accuracy {accuracy:.3f}")


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
    pinned = device.type == "cuda"
    train_loader = DataLoader(
        train_digits, batch_size=128, shuffle=True, generator=generator, pin_memory=pinned
    )
    test_loader = DataLoader(test_digits, batch_size=256, pin_memory=pinned)
    model = DigitNet(device)
    history = train(model, train_loader, args.steps, device)
    correct = evaluate(model, test_loader, device)
    history, correct = read_back(history), read_back(correct)
    print_history(history)
    print(f"final loss {history[-1, 0]:.6f}")
    print(f"final accuracy {correct.item() / len(test_digits):.4f}")


if __name__ == "__main__":
    main()
