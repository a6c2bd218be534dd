"""How long small pieces of PyTorch take: on a GPU, and by the shadow GPU's clock.

    python benchmarks/clock_fit.py --json measured.json            # on a machine with a GPU
    python benchmarks/clock_fit.py --compare measured.json         # on the shadow GPU

Both sides are timed with CUDA events around a loop of one piece, so that a piece costs the
larger of its time on the host and its time on the device. The constants of
`syncscope.shadow.clock` are fitted to the measured column.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

import syncscope

Piece = Callable[[], object]
BLOCKS = 9
SLOW_ON_A_CPU = ("matmul bfloat16",)
"""Takes minutes where the CPU has no such instructions: the shadow GPU leaves it out."""


def host_bound() -> dict[str, Piece]:
    """Pieces whose kernels take a few microseconds: the host's time is what counts."""
    cuda = torch.device("cuda")
    x, y = torch.rand(64, 64, device=cuda), torch.rand(64, 64, device=cuda)
    ids = torch.arange(64, device=cuda)
    weight = torch.rand(64, 64, device=cuda, requires_grad=True)
    norm = torch.nn.LayerNorm(64).to(cuda)
    linear = torch.nn.Linear(64, 64).to(cuda)
    pinned = torch.rand(64, 64).pin_memory()
    pageable = torch.rand(64, 64)
    mask = x > 0.5
    event = torch.cuda.Event()
    return {
        "add": lambda: x + y,
        "add_": lambda: x.add_(1.0),
        "view": lambda: (x.view(-1), x + y),
        "index": lambda: (x[0], x + y),
        "empty": lambda: (torch.empty(64, 64, device=cuda), x + y),
        "zeros": lambda: torch.zeros(64, 64, device=cuda),
        "randn": lambda: torch.randn(64, 64, device=cuda),
        "matmul": lambda: x @ y,
        "sum": lambda: x.sum(),
        "mean over dim": lambda: x.mean(dim=-1),
        "softmax": lambda: x.softmax(-1),
        "cat": lambda: torch.cat((x, y)),
        "gather rows": lambda: x[ids],
        "where": lambda: torch.where(mask, x, y),
        "masked fill": lambda: x.masked_fill(mask, 0.0),
        "argmax": lambda: x.argmax(-1),
        "sort": lambda: x.sort(-1),
        "cast": lambda: x.to(torch.bfloat16),
        "add with grad": lambda: weight + x,
        "linear module": lambda: linear(x),
        "layer norm module": lambda: norm(x),
        "gelu with grad": lambda: F.gelu(weight),
        "dropout": lambda: F.dropout(weight, 0.1),
        "embedding": lambda: F.embedding(ids, weight),
        "cross entropy": lambda: F.cross_entropy(weight, ids),
        "forward and backward": lambda: linear(x).sum().backward(),
        "upload pinned": lambda: pinned.to(cuda, non_blocking=True),
        "upload pageable": lambda: pageable.to(cuda),
        "device copy": lambda: x.clone(),
        "item": lambda: x[0, 0].item(),
        "synchronize": lambda: (x + y, torch.cuda.synchronize()),
        "event record": lambda: (event.record(), x + y),
        "nonzero": lambda: mask.nonzero(),
        "mask read": lambda: x[mask],
    }


def loops() -> dict[str, Piece]:
    """Whole training steps of small models."""
    cuda = torch.device("cuda")
    mlp = torch.nn.Sequential(
        *(torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU()) for _ in range(4))
    ).to(cuda)
    adam = torch.optim.AdamW(mlp.parameters(), lr=1e-3)
    sgd = torch.optim.SGD(mlp.parameters(), lr=1e-3, momentum=0.9)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True).to(cuda)
    x, tokens = torch.rand(64, 64, device=cuda), torch.rand(8, 32, 128, device=cuda)

    def train(optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        mlp(x).square().mean().backward()
        optimizer.step()

    def half() -> None:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            layer(tokens).float().mean().backward()

    def rollout() -> None:
        with torch.no_grad():
            mlp(x)

    return {
        "MLP, AdamW": lambda: train(adam),
        "MLP, SGD": lambda: train(sgd),
        "MLP, AdamW step": adam.step,
        "MLP, inference": rollout,
        "transformer layer": lambda: layer(tokens).mean().backward(),
        "transformer layer, autocast": half,
    }


def device_bound() -> dict[str, Piece]:
    """Pieces that keep the device busy for far longer than the host needs to launch them."""
    cuda, n, rows = torch.device("cuda"), 4096, 1 << 24
    a, b = torch.rand(n, n, device=cuda), torch.rand(n, n, device=cuda)
    half = a.to(torch.bfloat16)
    big, other = torch.rand(rows, device=cuda), torch.rand(rows, device=cuda)
    table, ids = big.view(-1, 256), torch.randint(0, rows // 256, (rows // 256,), device=cuda)
    image = torch.rand(64, 64, 224, 56, device=cuda)
    kernel = torch.rand(64, 64, 3, 3, device=cuda)
    query = torch.rand(8, 16, 2048, 64, device=cuda, dtype=torch.bfloat16)
    pinned, pageable = torch.rand(rows).pin_memory(), torch.rand(rows)

    def matmul_tf32() -> None:
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            a @ b
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False

    return {
        "matmul float32": lambda: a @ b,
        "matmul tf32": matmul_tf32,
        "matmul bfloat16": lambda: half @ half,
        "convolution float32": lambda: F.conv2d(image, kernel, padding=1),
        "attention bfloat16": lambda: F.scaled_dot_product_attention(query, query, query),
        "add, large": lambda: big + other,
        "sum, large": lambda: big.sum(),
        "softmax, large": lambda: table.softmax(-1),
        "layer norm, large": lambda: F.layer_norm(table, (256,)),
        "gather rows, large": lambda: table[ids],
        "gelu, large": lambda: F.gelu(big),
        "sort, large": lambda: big.sort(),
        "upload pinned, large": lambda: big.copy_(pinned, non_blocking=True),
        "upload pageable, large": lambda: big.copy_(pageable),
        "download pinned, large": lambda: pinned.copy_(big, non_blocking=True),
        "download pageable, large": lambda: pageable.copy_(big),
    }


def microseconds(piece: Piece, repeat: int, blocks: int) -> float:
    """Median over blocks of the time of one call, by CUDA events around `repeat` calls."""
    times = []
    for _ in range(blocks + 1):  # the first block warms up
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        for _ in range(repeat):
            piece()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / repeat)
    return statistics.median(times[1:])


def measure(blocks: int, repeat: int, skip: tuple[str, ...] = ()) -> dict[str, float]:
    """Name of the piece -> microseconds a call."""
    result = {}
    for group, calls in (
        (host_bound(), repeat),
        (loops(), max(repeat // 4, 1)),
        (device_bound(), max(repeat // 10, 1)),
    ):
        for name, piece in group.items():
            if name not in skip:
                result[name] = microseconds(piece, calls, blocks)
    return result


def predict() -> dict[str, float]:
    """The same on the shadow GPU, whose clock does not vary: two calls tell as much as many."""
    with (
        tempfile.TemporaryDirectory() as folder,
        syncscope.record(Path(folder) / "run", device="shadow"),
    ):
        return measure(1, 20, SLOW_ON_A_CPU)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write what was measured here")
    parser.add_argument("--compare", type=Path, help="what was measured on the GPU")
    options = parser.parse_args()
    if options.compare is None:
        measured = {
            "device": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "us": measure(BLOCKS, 200),
        }
        text = json.dumps(measured, indent=1)
        options.json.write_text(text + "\n") if options.json else print(text)
        return
    measured = json.loads(options.compare.read_text())
    print(f"{'piece':<30}{'measured':>10}{'shadow':>10}{'ratio':>8}   us a call")
    predicted = predict()
    for name, real in measured["us"].items():
        if name in predicted:
            ratio = predicted[name] / real
            print(f"{name:<30}{real:>10.1f}{predicted[name]:>10.1f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
