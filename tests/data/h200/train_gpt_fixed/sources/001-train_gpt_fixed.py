"""Train a small character-level GPT: the repaired twin of `train_gpt.py`.

It sees the same sentences in the same order and prints the same final figures. The text and the
order of its rows are uploaded once, from pinned memory. Positions and the causal mask are made on
the device. The loss skips padding with `ignore_index`, which needs no size, and clipping scales
by a factor that never exceeds one, which needs no `if`. Losses travel to pinned memory while the
device works on, and each is printed as soon as its copy has arrived. Sampling always writes the
full length; the host cuts the text at the end of the sentence.
"""

from __future__ import annotations

import argparse
import re
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, END = 0, 1
MAX_NORM = 0.4


@dataclass(frozen=True)
class Config:
    """Sizes of the model and of a batch, and the learning rate.

    A batch of at most 3072 characters keeps the gradient of the embedding reproducible on a GPU.
    """

    context: int
    layers: int
    heads: int
    width: int
    batch: int
    rate: float


CONFIGS = {
    "small": Config(context=64, layers=2, heads=4, width=64, batch=12, rate=5e-3),
    "large": Config(context=128, layers=8, heads=8, width=512, batch=16, rate=1e-3),
}


class Text:
    """Sentences as rows of character ids: `END` closes a sentence, `PAD` fills its row."""

    def __init__(self, path: Path, context: int) -> None:
        sentences = re.split(r"(?<=\.)\s+", path.read_text().strip())
        self.characters = sorted(set("".join(sentences)))
        self.rows = torch.full((len(sentences), context + 1), PAD)
        for row, sentence in zip(self.rows, sentences, strict=True):
            ids = torch.tensor([*self.encode(sentence), END])[: context + 1]
            row[: len(ids)] = ids

    def encode(self, text: str) -> list[int]:
        return [self.characters.index(character) + 2 for character in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.characters[i - 2] for i in ids if i > END)

    @property
    def vocabulary(self) -> int:
        return len(self.characters) + 2


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer, each with a residual connection."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: Tensor, future: Tensor) -> Tensor:
        batch, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind()
        scores = q @ k.transpose(-2, -1) * (width // self.heads) ** -0.5
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)
        x = x + self.project((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    """A decoder-only transformer with learned positions."""

    def __init__(self, vocabulary: int, config: Config) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, config.width)
        self.positions = nn.Embedding(config.context, config.width)
        self.blocks = nn.ModuleList(Block(config.width, config.heads) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, vocabulary)
        future = torch.ones(config.context, config.context, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, ids: Tensor) -> Tensor:
        length = ids.shape[1]
        positions = torch.arange(length, device=ids.device)
        future = self.future[:length, :length]
        x = self.tokens(ids) + self.positions(positions)
        for block in self.blocks:
            x = block(x, future)
        return self.head(self.norm(x))


def upload(host: Tensor, device: torch.device) -> Tensor:
    """Copy a host tensor to the device without waiting."""
    if device.type == "cuda":
        host = host.pin_memory()
    return host.to(device, non_blocking=True)


class Readback:
    """A device tensor on its way to the host."""

    def __init__(self, value: Tensor) -> None:
        self.host, self.copied = value, None
        if value.device.type == "cuda":
            self.host = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
            self.host.copy_(value, non_blocking=True)
            self.copied = torch.cuda.Event()
            self.copied.record()

    def arrived(self) -> bool:
        return self.copied is None or self.copied.query()

    def wait(self) -> Tensor:
        """The tensor on the host; waits for the device, so call it outside the step loop."""
        if self.copied is not None:
            self.copied.synchronize()
        return self.host


class StepLog:
    """Prints the numbers of each step, in order, once they are on the host."""

    def __init__(self) -> None:
        self.pending: deque[tuple[int, Readback]] = deque()

    def add(self, step: int, loss: Tensor, norm: Tensor) -> None:
        self.pending.append((step, Readback(torch.stack([loss.detach(), norm]))))
        while self.pending and self.pending[0][1].arrived():
            self._print(*self.pending.popleft())

    def close(self) -> None:
        """Wait for what is still under way and print it."""
        for step, numbers in self.pending:
            numbers.wait()
            self._print(step, numbers)
        self.pending.clear()

    @staticmethod
    def _print(step: int, numbers: Readback) -> None:
        loss, norm = numbers.host.tolist()
        print(f"step {step + 1}: loss {loss:.4f}, gradient norm {norm:.2f}")


def train(model: GPT, text: Text, order: Tensor, rate: float, device: torch.device) -> Tensor:
    """Train on the rows of `text` that each row of `order` names; returns the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    table, order = upload(text.rows, device), upload(order, device)
    log = StepLog()
    for step, chosen in enumerate(order):
        rows = table[chosen]
        targets = rows[:, 1:]
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        log.add(step, loss, norm)
    log.close()
    return loss.detach()


@torch.no_grad()
def write(model: GPT, text: Text, prompt: str, length: int, device: torch.device) -> str:
    """Continue `prompt` by `length` characters, cut where the sentence ends."""
    ids = upload(torch.tensor([text.encode(prompt)]), device)
    for _ in range(length):
        logits = model(ids)[0, -1]
        character = torch.multinomial(logits.softmax(-1), 1)
        ids = torch.cat([ids, character[None]], dim=1)
    written = Readback(ids[0]).wait().tolist()
    return text.decode(written[: written.index(END)] if END in written else written)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train a small character-level GPT.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", choices=CONFIGS, default="small")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    device, config = torch.device(args.device), CONFIGS[args.size]
    torch.manual_seed(args.seed)
    text = Text(Path(__file__).with_name("text.txt"), config.context)
    generator = torch.Generator().manual_seed(args.seed)
    order = torch.randint(len(text.rows), (args.steps, config.batch), generator=generator)
    with device:
        model = GPT(text.vocabulary, config)
    loss = train(model, text, order, config.rate, device)
    written = write(model, text, "The ", config.context - 4, device)
    print(f"final loss {Readback(loss).wait():.4f}")
    print(f"final text {written}")


if __name__ == "__main__":
    main()
