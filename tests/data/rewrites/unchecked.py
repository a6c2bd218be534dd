"""Functions that check on the host."""

import torch
from torch.distributions import Normal


def main(device):
    a = torch.eye(4, device=device) * 3 + 1
    mu, sd = torch.zeros(3, device=device), torch.ones(3, device=device)
    d = Normal(mu, sd)
    i = torch.tensor([[0, 1], [1, 0]], device=device)
    v = torch.ones(2, device=device)
    s = torch.sparse_coo_tensor(i, v, (2, 2), check_invariants=True)
    return (
        torch.linalg.inv(a),
        torch.linalg.cholesky(a),
        torch.linalg.solve(a, mu.new_ones(4)),
        torch.inverse(a),
        d.log_prob(sd),
        d.sample(),
        s.shape,
    )
