"""Train a small character-level GPT on the sentences of `text.txt`, then let it write one.

The text is a short story of the repository's own. A sentence is one training example, padded to
the length of the context; the loss counts only real characters. `--size large` gives a model that
keeps a data-centre GPU busy.

The mistakes are the usual ones of a training script: batches gathered in ordinary memory and
uploaded while the host waits, positions and the causal mask made on the CPU in every forward
pass, padding dropped with a boolean mask (its size is known to the device alone, so the host
waits, in the backward pass too), gradient clipping decided by an `if` on the host, numbers
printed in every step, and a sampling loop that looks at each new character. Trailing tags mark
the places: `SYNC` where the host waits for the device, `COPY` where data moves needlessly or from
pageable memory, `OK` where a line only looks like one of these. `train_gpt_fixed.py` computes the
same without them.
"""

from __future__ import annotations

import argparse
import re
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
        weights = scores.masked_fill(future, float("-inf")).softmax(-1)  # OK
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

    def forward(self, ids: Tensor) -> Tensor:
        device, length = ids.device, ids.shape[1]
        positions = torch.arange(length).to(device)  # SYNC # COPY
        future = torch.ones(length, length, dtype=torch.bool).triu(1).to(device)  # SYNC # COPY
        x = self.tokens(ids) + self.positions(positions)
        for block in self.blocks:
            x = block(x, future)
        return self.head(self.norm(x))


def train(model: GPT, text: Text, order: Tensor, rate: float, device: torch.device) -> float:
    """Train on the rows of `text` that each row of `order` names; returns the last loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    for step, chosen in enumerate(order):
        rows = text.rows[chosen].to(device)  # SYNC # COPY
        targets = rows[:, 1:]
        keep = targets != PAD  # OK
        logits = model(rows[:, :-1])
        loss = F.cross_entropy(logits[keep], targets[keep])  # SYNC
        optimizer.zero_grad()
        loss.backward()  # SYNC
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()])  # OK
        if norm > MAX_NORM:  # SYNC
            nn.utils.clip_grads_with_norm_(model.parameters(), MAX_NORM, norm)
        optimizer.step()
        print(f"step {step + 1}: loss {loss:.4f}, gradient norm {norm:.2f}")  # SYNC
    return loss.item()  # SYNC


@torch.no_grad()
def write(model: GPT, text: Text, prompt: str, length: int, device: torch.device) -> str:
    """Continue `prompt` by at most `length` characters, or until the sentence ends."""
    ids = torch.tensor([text.encode(prompt)], device=device)  # SYNC # COPY
    for _ in range(length):
        logits = model(ids)[0, -1]
        character = torch.multinomial(logits.softmax(-1), 1)  # OK
        if character == END:  # SYNC
            break
        ids = torch.cat([ids, character[None]], dim=1)
    return text.decode(ids[0].tolist())  # SYNC


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
    print(f"final loss {loss:.4f}")
    print(f"final text {written}")


if __name__ == "__main__":
    main()
