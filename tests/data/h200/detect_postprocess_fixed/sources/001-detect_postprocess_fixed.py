"""Find discs, rings and squares in noisy scenes: the repaired twin of `detect_postprocess.py`.

It finds the same boxes and prints the same final figures. Post-processing keeps fixed shapes, so
that no size depends on values: all images and classes of a batch go through the suppression
together, a flag says which candidates are alive, and the dead ones are dropped on the host. The
results of each batch are copied to pinned memory while the next one is computed; the host waits
once, when the loop is over. Timing events replace the synchronised stopwatch.
"""

from __future__ import annotations

import argparse
import time
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

import syncscope

SHAPES = ("disc", "ring", "square")
RADII = (5, 8)
SIZE = 96
CANDIDATES = 64
MIN_SCORE = 0.75
MAX_OVERLAP = 0.3
Truth = list[tuple[int, int, int, int]]


class Detection(NamedTuple):
    """One shape that was found: class, box (x0, y0, x1, y1) and score."""

    shape: int
    box: list[float]
    score: float


def draw_shape(shape: int, radius: int, width: int = 21) -> Tensor:
    """A (width, width) stencil of one shape in its middle."""
    axis = torch.arange(width) - width // 2
    far = (axis[:, None] ** 2 + axis**2).sqrt()
    if SHAPES[shape] == "disc":
        return (far <= radius).float()
    if SHAPES[shape] == "ring":
        return ((far <= radius) & (far > radius - 3)).float()
    return (axis[:, None].abs().clamp(min=axis.abs()) <= radius - 1).float()


def draw_scenes(count: int, generator: torch.Generator) -> tuple[Tensor, list[Truth]]:
    """Noisy images (count, 1, SIZE, SIZE), and class, radius, x and y of each shape in them."""
    scenes = 0.25 * torch.randn(count, 1, SIZE, SIZE, generator=generator)
    truths: list[Truth] = []
    for scene in scenes:
        truth: Truth = []
        for cell in range(9):
            shape, size, present, dx, dy = torch.randint(0, 6, (5,), generator=generator).tolist()
            if present < 2:
                continue
            radius = RADII[size % 2]
            x, y = cell % 3 * 32 + 13 + dx, cell // 3 * 32 + 13 + dy
            scene[0, y - 10 : y + 11, x - 10 : x + 11] += draw_shape(shape % 3, radius)
            truth.append((shape % 3, radius, x, y))
        truths.append(truth)
    return scenes, truths


def filter_bank() -> Tensor:
    """One filter for each shape and radius, of zero mean and unit norm."""
    bank = torch.stack([draw_shape(s, r) for s in range(len(SHAPES)) for r in RADII])
    bank = bank - bank.mean((1, 2), keepdim=True)
    return (bank / bank.pow(2).sum((1, 2), keepdim=True).sqrt())[:, None]


def score(images: Tensor, bank: Tensor) -> Tensor:
    """Normalised cross-correlation, as (image, class, filter of the class * pixel).

    Only the best filter of each pixel has a say there; the others score nothing.
    """
    width = bank.shape[-1]
    dot = F.conv2d(images, bank, padding=width // 2)
    mean = F.avg_pool2d(images, width, 1, width // 2)
    power = F.avg_pool2d(images * images, width, 1, width // 2)
    spread = (power - mean * mean).clamp(min=1e-6).sqrt() * width
    scores = dot / spread
    scores = scores.masked_fill(scores < scores.amax(1, keepdim=True), 0.0)
    return scores.view(len(images), len(SHAPES), -1)


def decode(index: Tensor, radii: Tensor) -> Tensor:
    """Boxes (x0, y0, x1, y1), cut at the border, for positions in the scores of a class."""
    pixel, radius = index % SIZE**2, radii[index // SIZE**2]
    x, y = pixel % SIZE, pixel // SIZE
    boxes = torch.stack([x - radius, y - radius, x + radius, y + radius], -1).float()
    return boxes.clamp(0.0, SIZE - 1.0)


def overlap(box: Tensor, boxes: Tensor) -> Tensor:
    """Intersection over union of boxes that broadcast against each other."""
    low, high = torch.maximum(box[..., :2], boxes[..., :2]), torch.minimum(box, boxes)[..., 2:]
    shared = (high - low).clamp(min=0.0).prod(-1)
    area = (box[..., 2:] - box[..., :2]).prod(-1) + (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    return shared / (area - shared)


def suppress(boxes: Tensor, alive: Tensor) -> Tensor:
    """Strike out each box that a better living one overlaps; boxes come best first."""
    pairs = overlap(boxes[..., :, None, :], boxes[..., None, :, :]) > MAX_OVERLAP
    pairs = pairs.triu(1)
    for i in range(CANDIDATES):
        alive = alive & ~(alive[..., i : i + 1] & pairs[..., i, :])
    return alive


def postprocess(scores: Tensor, radii: Tensor) -> Tensor:
    """Box, score and flag of each candidate, as (image, class, candidate, 6)."""
    best, index = scores.topk(CANDIDATES)
    boxes = decode(index, radii)
    alive = suppress(boxes, best > MIN_SCORE)
    return torch.cat([boxes, best[..., None], alive[..., None].float()], -1)


def unpack(candidates: Tensor) -> list[Detection]:
    """The living candidates of one image; `candidates` is on the host."""
    return [
        Detection(shape, box, value)
        for shape, rows in enumerate(candidates.tolist())
        for *box, value, alive in rows
        if alive
    ]


class Stopwatch:
    """Adds up time on the device without waiting for it; read it when the device is done."""

    def __init__(self, device: torch.device) -> None:
        self.on_device = device.type == "cuda"
        self.laps: list[tuple[torch.cuda.Event, torch.cuda.Event]] = []
        self.host_seconds = 0.0

    def __enter__(self) -> None:
        if self.on_device:
            events = (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            self.laps.append(events)
            events[0].record()
        self.host_seconds -= time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        self.host_seconds += time.perf_counter()
        if self.on_device:
            self.laps[-1][1].record()

    def seconds(self) -> float:
        if self.on_device:
            return sum(start.elapsed_time(end) for start, end in self.laps) / 1e3
        return self.host_seconds


@torch.inference_mode()
def detect(images: Tensor, batch: int, device: torch.device) -> tuple[list[list[Detection]], float]:
    """The detections of each image, and the seconds spent in the network."""
    pinned = device.type == "cuda"
    bank, radii = filter_bank(), torch.tensor(RADII)
    if pinned:
        images, bank, radii = images.pin_memory(), bank.pin_memory(), radii.pin_memory()
    bank, radii = bank.to(device, non_blocking=True), radii.to(device, non_blocking=True)
    found = torch.empty(len(images), len(SHAPES), CANDIDATES, 6, pin_memory=pinned)
    stopwatch = Stopwatch(device)
    for start in range(0, len(images), batch):
        chunk = images[start : start + batch].to(device, non_blocking=True)
        with stopwatch:
            scores = score(chunk, bank)
        found[start : start + batch].copy_(postprocess(scores, radii), non_blocking=True)
        syncscope.step()
    if pinned:
        done = torch.cuda.Event()
        done.record()
        done.synchronize()
    return [unpack(candidates) for candidates in found], stopwatch.seconds()


def count_right(found: list[Detection], truth: Truth) -> int:
    """How many detections have the class and, within two pixels, the place of a drawn shape."""

    def is_drawn(shape: int, box: list[float]) -> bool:
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
        return any(s == shape and abs(x - tx) <= 2 and abs(y - ty) <= 2 for s, _, tx, ty in truth)

    return sum(is_drawn(shape, box) for shape, box, _ in found)


def print_quality(found: list[list[Detection]], truths: list[Truth]) -> None:
    right = sum(map(count_right, found, truths))
    detections, drawn = sum(map(len, found)), sum(map(len, truths))
    total = sum(detection.score for one in found for detection in one)
    print(f"final detections {detections} of {drawn} shapes")
    print(f"final precision {right / detections:.4f}, recall {right / drawn:.4f}")
    print(f"final mean score {total / detections:.6f}")


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Find shapes in noisy scenes.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=8, help="batches to process")
    parser.add_argument("--batch", type=int, default=4, help="images in a batch")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    device = torch.device(args.device)
    generator = torch.Generator().manual_seed(args.seed)
    torch.backends.cudnn.deterministic = True
    images, truths = draw_scenes(args.steps * args.batch, generator)
    found, seconds = detect(images, args.batch, device)
    print(f"network: {1e3 * seconds / args.steps:.2f} ms for a batch")
    print_quality(found, truths)


if __name__ == "__main__":
    main()
