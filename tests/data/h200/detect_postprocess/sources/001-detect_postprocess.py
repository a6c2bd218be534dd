"""Find discs, rings and squares in noisy scenes, then clean up the boxes and count the mistakes.

The detector is a bank of matched filters, one for each shape and size: a normalised
cross-correlation gives each pixel a score for each filter. Post-processing takes the scores
apart: threshold, best candidates of each class, non-maximum suppression. The boxes found are
compared with the shapes that were drawn; nearly all of them are right.

The network is a fraction of the time, the post-processing is the rest: it asks the GPU at every
turn. Boolean masks, an `if` on `any()` for each class, a suppression loop that fetches one index
at a time, constants rebuilt for every image, results sent to the host image by image, and
`torch.cuda.synchronize()` around the stopwatch. Trailing tags mark the places: `SYNC` where the
host waits for the device, `COPY` where data moves needlessly or from pageable memory, `OK` where
a line only looks like one of these. `detect_postprocess_fixed.py` computes the same without them.
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
    scores = scores.masked_fill(scores < scores.amax(1, keepdim=True), 0.0)  # OK
    return scores.view(len(images), len(SHAPES), -1)


def decode(index: Tensor) -> Tensor:
    """Boxes (x0, y0, x1, y1), cut at the border, for positions in the scores of a class."""
    pixel, size = index % SIZE**2, index // SIZE**2
    radii = torch.tensor(RADII, device=index.device)[size]  # SYNC # COPY
    x, y = pixel % SIZE, pixel // SIZE  # OK
    boxes = torch.stack([x - radii, y - radii, x + radii, y + radii], -1).float()  # OK
    limit = torch.tensor([SIZE - 1.0] * 4, device=index.device)  # SYNC # COPY
    return boxes.clamp(min=0.0).minimum(limit)


def overlap(box: Tensor, boxes: Tensor) -> Tensor:
    """Intersection over union of boxes that broadcast against each other."""
    low, high = torch.maximum(box[..., :2], boxes[..., :2]), torch.minimum(box, boxes)[..., 2:]
    shared = (high - low).clamp(min=0.0).prod(-1)
    area = (box[..., 2:] - box[..., :2]).prod(-1) + (boxes[..., 2:] - boxes[..., :2]).prod(-1)
    return shared / (area - shared)


def suppress(boxes: Tensor, scores: Tensor) -> Tensor:
    """Indices of the boxes that no better box overlaps."""
    order = scores.argsort(descending=True)
    kept: list[int] = []
    while order.numel() > 0:  # OK
        best = order[0].item()  # SYNC
        kept.append(best)
        order = order[overlap(boxes[best], boxes[order]) <= MAX_OVERLAP]  # SYNC
    return torch.tensor(kept, device=boxes.device)  # SYNC # COPY


def postprocess(scores: Tensor) -> list[Detection]:
    """The detections of one image; `scores` is (class, position)."""
    found: list[Detection] = []
    for shape, row in enumerate(scores):  # OK
        best, index = row.topk(CANDIDATES)  # OK
        keep = best > MIN_SCORE  # OK
        if keep.any():  # SYNC
            best, boxes = best[keep], decode(index[keep])  # SYNC
            chosen = suppress(boxes, best)
            kept_boxes = boxes[chosen].cpu()  # SYNC # COPY
            kept_scores = best[chosen].tolist()  # SYNC
            for box, value in zip(kept_boxes.tolist(), kept_scores, strict=True):  # OK
                found.append(Detection(shape, box, value))
    return found


def now(device: torch.device) -> float:
    """The time, when the device has caught up."""
    if device.type == "cuda":
        torch.cuda.synchronize()  # SYNC
    return time.perf_counter()


@torch.inference_mode()
def detect(images: Tensor, batch: int, device: torch.device) -> tuple[list[list[Detection]], float]:
    """The detections of each image, and the seconds spent in the network."""
    bank = filter_bank().to(device)  # SYNC # COPY
    found: list[list[Detection]] = []
    seconds = 0.0
    for start in range(0, len(images), batch):
        chunk = images[start : start + batch].to(device)  # SYNC # COPY
        before = now(device)
        scores = score(chunk, bank)
        seconds += now(device) - before
        found += [postprocess(rows) for rows in scores]  # OK
        syncscope.step()
    return found, seconds


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
