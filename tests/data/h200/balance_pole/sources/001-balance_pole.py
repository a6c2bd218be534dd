"""Learn to balance poles: actor-critic on many simulated carts at once, all of it on the device.

Each cart carries a hinged pole and is pushed left or right fifty times a second. A small network
learns from scratch when to push which way; the number of falls drops with every few updates.

Simulation and network never leave the GPU, yet the host waits at each step of the simulation:
it asks whether any pole fell, copies the states of the fallen through boolean masks, indexes
columns with a Python list, rebuilds the limits from Python numbers, counts the falls one readback
at a time, and lets `torch.distributions` check its arguments. Trailing tags mark the places:
`SYNC` where the host waits for the device, `COPY` where data moves needlessly or from pageable
memory, `OK` where a line only looks like one of these. `balance_pole_fixed.py` computes the same
without them.
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
        return 0.1 * torch.rand(self.count, 4, device=self.device) - 0.05  # OK

    def push(self, right: Tensor) -> Tensor:
        """Move on by 20 ms, pushing each cart right (1) or left (0); returns which poles fell."""
        place, speed, angle, spin = self.state.unbind(1)  # OK
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
        limits = torch.tensor([TRACK, TILT], device=self.device)  # SYNC # COPY
        fallen = (self.state[:, [0, 2]].abs() > limits).any(1)  # SYNC # COPY
        upright = self.upright()
        if fallen.any():  # SYNC
            self.state[fallen] = upright[fallen]  # SYNC
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
        hidden = self.body(8.0 * state)  # OK
        return self.actor(hidden), self.critic(hidden).squeeze(1)


@dataclass
class Rollout:
    """What happened in `HORIZON` pushes of all carts, as (push, cart), and the number of falls."""

    log_probs: Tensor
    values: Tensor
    fallen: Tensor
    falls: int


def play(model: ActorCritic, carts: Carts) -> Rollout:
    log_probs, values, fallen = [], [], []
    falls = 0
    for _ in range(HORIZON):
        scores, value = model(carts.state)
        choice = Categorical(logits=scores)  # SYNC
        right = choice.sample()  # OK
        log_probs.append(choice.log_prob(right))  # SYNC
        values.append(value)
        fallen.append(carts.push(right))
        falls += int(fallen[-1].sum())  # SYNC
    return Rollout(torch.stack(log_probs), torch.stack(values), torch.stack(fallen), falls)


def returns(rollout: Rollout, last_value: Tensor) -> Tensor:
    """Discounted standing time from each push on, as (push, cart)."""
    total, totals = last_value, []
    for fell in rollout.fallen.flip(0):  # OK
        total = (1.0 + DISCOUNT * total).masked_fill(fell, 0.0)  # OK
        totals.append(total)
    return torch.stack(totals[::-1])


def learn(model: ActorCritic, carts: Carts, updates: int) -> tuple[float, int]:
    """Improve the model `updates` times; returns the last loss and the last number of falls."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for update in range(updates):
        rollout = play(model, carts)
        with torch.no_grad():
            target = returns(rollout, model(carts.state)[1])
        advantage = target - rollout.values.detach()
        advantage = advantage - advantage.mean()
        spread = advantage.std()
        if spread > 1e-6:  # SYNC
            advantage = advantage / spread
        policy_loss = -(rollout.log_probs * advantage).mean()
        value_loss = (rollout.values - target).square().mean()
        loss = policy_loss + 0.01 * value_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"update {update + 1}: {rollout.falls} falls, loss {loss.item():.4f}")  # SYNC
    return loss.item(), rollout.falls  # SYNC


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
    loss, falls = learn(model, carts, args.steps)
    print(f"final loss {loss:.6f}")
    print(f"final falls {falls}")


if __name__ == "__main__":
    main()
