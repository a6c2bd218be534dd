"""top-k and top-p sampling, multinomial, Categorical, Gumbel."""
import torch
from torch.distributions import Bernoulli, Categorical


def main(device):
    logits = torch.randn(4, 50, device=device)
    kth = logits.topk(10).values[:, -1:]  # OK
    logits = logits.masked_fill(logits < kth, float("-inf"))  # OK
    probs = logits.softmax(-1)  # OK
    ordered, order = probs.sort(descending=True)  # OK
    drop = ordered.cumsum(-1) - ordered > 0.9  # OK
    ordered[drop] = 0.0  # OK
    probs = torch.zeros_like(probs).scatter(1, order, ordered)  # OK
    one = torch.multinomial(probs, 1)  # OK
    two = torch.multinomial(probs + 1e-6, 2, replacement=True)  # OK
    three = torch.multinomial(probs + 1e-6, 3)  # OK
    if torch.isnan(probs).any() or torch.isinf(probs).any() or (probs < 0).any():  # SYNC
        raise ValueError("bad probabilities")
    cat = Categorical(probs=probs)  # SYNC
    s = cat.sample()  # OK
    lp = cat.log_prob(s)  # SYNC
    fast = Categorical(logits=torch.zeros(4, 5, device=device), validate_args=False)  # OK
    s2 = fast.sample((3,))  # OK
    ent = fast.entropy()  # OK
    b = Bernoulli(probs=torch.full((3,), 0.5, device=device), validate_args=False).sample()  # OK
    gumbel = -torch.empty_like(probs).exponential_().log()  # OK
    pick = (probs.log() + gumbel).argmax(-1)  # OK
    coin = torch.bernoulli(probs)  # OK
    if torch.rand((), device=device) < 0.5:  # SYNC
        pick = one[:, 0]
    return two, three, lp, s2, ent, b, coin, pick
