"""A control loop: actions out, observations in."""
import numpy as np
import torch
from torch import nn


def main(device):
    rng = np.random.default_rng(0)
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    for episode in range(2):
        logps, rewards = [], []
        obs = rng.standard_normal(4).astype(np.float32)
        for t in range(3):
            o = torch.from_numpy(obs).to(device)  # SYNC # COPY
            o2 = torch.tensor(obs, device=device)  # SYNC # COPY
            dist = torch.distributions.Categorical(logits=policy(o))  # SYNC
            act = dist.sample()  # OK
            logps.append(dist.log_prob(act))  # SYNC
            a = act.item()  # SYNC
            obs = rng.standard_normal(4).astype(np.float32) + a
            rewards.append(float(obs[0]))
        returns = torch.tensor(rewards, device=device)  # SYNC # COPY
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)  # OK
        loss = -(torch.stack(logps) * returns).sum()  # OK
        opt.zero_grad()  # OK
        loss.backward()  # OK
        opt.step()  # OK
    buffer = torch.zeros(8, 4, device=device)
    buffer[0] = o  # OK
    ptr = torch.zeros((), dtype=torch.long, device=device)
    buffer[ptr] = o  # SYNC
    buffer[ptr.view(1)] = o  # OK
    q = buffer.max(1).values  # OK
    eps = torch.rand(1).item()  # OK
    if np.random.rand() < eps:
        a = 0
    greedy = policy(buffer).argmax(1).cpu().numpy()  # SYNC # COPY
    target = q + 0.9 * (1 - torch.zeros(8, device=device)) * q  # OK
    gathered = policy(buffer).gather(1, torch.zeros(8, 1, dtype=torch.long, device=device))  # OK
    return target, greedy, gathered, o2
