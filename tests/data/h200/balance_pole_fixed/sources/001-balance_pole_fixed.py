"""Learn to balance poles: the repaired twin of `balance_pole.py`.

It plays the same pushes and prints the same final figures. Poles that fell are set up again with
`torch.where`, for which nobody has to know how many they are; limits are Python numbers, columns
are taken one by one, `torch.distributions` does not check its arguments, and falls are counted
on the device. The progress of all updates is read back once and printed at the end.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

HORIZON = 16
TRACK, TILT = 2.4, 0.21
DISCOUNT = 0.95


class Carts:
    """Independent carts with poles; a pole that falls is set up again at once."""

    def __init__(self, count: int, device: torch.device) -> None:
        self.count, self.device = count, device
        self.state = self.upright()

    def upright(self) -> Tensor:
        """Position, speed, angle and spin of carts with nearly upright poles."""
        return 0.1 * torch.rand(self.count, 4, device=self.device) - 0.05

    def push(self, right: Tensor) -> Tensor:
        """Move on by 20 ms, pushing each cart right (1) or left (0); returns which poles fell."""
        place, speed, angle, spin = self.state.unbind(1)
        sin, cos = angle.sin(), angle.cos()
        thrust = (10.0 * (2 * right - 1) + 0.05 * spin**2 * sin) / 1.1
        turn = (9.8 * sin - cos * thrust) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        drive = thrust - 0.05 * turn * cos / 1.1
        moved = [
            place + 0.02 * speed,
            speed + 0.02 * drive,
            angle + 0.02 * spin,
            spin + 0.02 * turn,
        ]
        self.state = torch.stack(moved, dim=1)
        fallen = (self.state[:, 0].abs() > TRACK) | (self.state[:, 2].abs() > TILT)
        self.state = torch.where(fallen[:, None], self.upright(), self.state)
        return fallen


class ActorCritic(nn.Module):
    """Scores of the two pushes, and the time the pole is expected to stand."""

    def __init__(self, device: torch.device, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(4, width, device=device),
            nn.Tanh(),
            nn.Linear(width, width, device=device),
            nn.Tanh(),
        )
        self.actor = nn.Linear(width, 2, device=device)
        self.critic = nn.Linear(width, 1, device=device)

    def forward(self, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(8.0 * state)
        return self.actor(hidden), self.critic(hidden).squeeze(1)


@dataclass
class Rollout:
    """What happened in `HORIZON` pushes of all carts, as (push, cart)."""

    log_probs: Tensor
    values: Tensor
    fallen: Tensor


def play(model: ActorCritic, carts: Carts) -> Rollout:
    log_probs, values, fallen = [], [], []
    for _ in range(HORIZON):
        scores, value = model(carts.state)
        choice = Categorical(logits=scores, validate_args=False)
        right = choice.sample()
        log_probs.append(choice.log_prob(right))
        values.append(value)
        fallen.append(carts.push(right))
    return Rollout(torch.stack(log_probs), torch.stack(values), torch.stack(fallen))


def returns(rollout: Rollout, last_value: Tensor) -> Tensor:
    """Discounted standing time from each push on, as (push, cart)."""
    total, totals = last_value, []
    for fell in rollout.fallen.flip(0):
        total = (1.0 + DISCOUNT * total).masked_fill(fell, 0.0)
        totals.append(total)
    return torch.stack(totals[::-1])


def learn(model: ActorCritic, carts: Carts, updates: int) -> Tensor:
    """Improve the model `updates` times; returns loss and falls of each, still on the device."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    history: list[Tensor] = []
    for _ in range(updates):
        rollout = play(model, carts)
        with torch.no_grad():
            target = returns(rollout, model(carts.state)[1])
        advantage = target - rollout.values.detach()
        advantage = advantage - advantage.mean()
        spread = advantage.std()
        advantage = advantage / spread.masked_fill(spread <= 1e-6, 1.0)
        policy_loss = -(rollout.log_probs * advantage).mean()
        value_loss = (rollout.values - target).square().mean()
        loss = policy_loss + 0.01 * value_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(torch.stack([loss.detach(), rollout.fallen.sum()]))
    return torch.stack(history)


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


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learn to balance poles.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=40, help="updates of the model")
    parser.add_argument("--carts", type=int, default=256)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    device = torch.device(args.device)
    torch.manual_seed(args.seed)
    model, carts = ActorCritic(device), Carts(args.carts, device)
    history = read_back(learn(model, carts, args.steps)).tolist()
    for update, (loss, falls) in enumerate(history):
        print(f"update {update + 1}: {falls:.0f} falls, loss {loss:.4f}")
    print(f"final loss {loss:.6f}")
    print(f"final falls {falls:.0f}")


if __name__ == "__main__":
    main()
