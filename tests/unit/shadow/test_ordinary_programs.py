"""Programs as people write them: on the shadow GPU they compute what they compute on the CPU."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import distributions as D
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

Program = Callable[[str], Any]
PROGRAMS: list[Program] = []


def program(function: Program) -> Program:
    PROGRAMS.append(function)
    return function


@program
def language_model(device: str) -> Any:
    embed, cell = nn.Embedding(20, 8).to(device), nn.LSTM(8, 16, 2, dropout=0.1).to(device)
    head = nn.Linear(16, 20).to(device)
    parameters = [*embed.parameters(), *cell.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters)
    tokens = torch.randint(0, 20, (7, 4), device=device)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(head(cell(embed(tokens))[0]).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, parameters


@program
def adversarial_training(device: str) -> Any:
    maker, critic = nn.Linear(4, 2).to(device), nn.Linear(2, 1).to(device)
    optimizers = [torch.optim.Adam(maker.parameters()), torch.optim.RMSprop(critic.parameters())]
    for _ in range(3):
        real, fake = torch.randn(16, 2, device=device), maker(torch.randn(16, 4, device=device))
        weight = torch.rand(16, 1, device=device)
        between = (weight * real + (1 - weight) * fake.detach()).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        loss = critic(fake.detach()).mean() - critic(real).mean()
        loss = loss + ((slope.norm(2, dim=1) - 1) ** 2).mean()
        for optimizer, part in zip(optimizers, (-critic(fake).mean(), loss), strict=True):
            optimizer.zero_grad()
            part.backward(inputs=optimizer.param_groups[0]["params"])
        for optimizer in optimizers:
            optimizer.step()
    return list(maker.parameters()), list(critic.parameters())


@program
def policy_gradient(device: str) -> Any:
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2)).to(device)
    state, log_probs, rewards = torch.zeros(4, device=device), [], []
    for _ in range(10):
        choice = D.Categorical(logits=policy(state))
        action = choice.sample()
        log_probs.append(choice.log_prob(action))
        rewards.append(1.0 if action.item() == 0 else -1.0)
        state = state * 0.9 + torch.tensor([rewards[-1], 0, 0, 0], device=device)
    returns = torch.tensor(rewards, device=device).flip(0).cumsum(0).flip(0)
    (-(torch.stack(log_probs) * (returns - returns.mean())).sum()).backward()
    return rewards, [parameter.grad for parameter in policy.parameters()]


@program
def box_suppression(device: str) -> Any:
    corner = torch.rand(30, 2, device=device) * 10
    boxes = torch.cat([corner, corner + torch.rand(30, 2, device=device) * 5], 1)
    order, kept = torch.rand(30, device=device).argsort(descending=True), []
    while order.numel():
        first, rest = boxes[order[0]], boxes[order[1:]]
        kept.append(order[0].item())
        size = (torch.min(first[2:], rest[:, 2:]) - torch.max(first[:2], rest[:, :2])).clamp(min=0)
        area = (rest[:, 2:] - rest[:, :2]).prod(1) + (first[2:] - first[:2]).prod()
        overlap = size.prod(1)
        order = order[1:][overlap / (area - overlap) < 0.3]
    return kept, boxes[torch.tensor(kept, device=device)]


@program
def accumulation_and_averaging(device: str) -> Any:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.Linear(8, 4)).to(device)
    average = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    data = TensorDataset(torch.randn(12, 8), torch.arange(12) % 4)
    for index, (x, y) in enumerate(DataLoader(data, 2, shuffle=True)):
        loss = F.cross_entropy(model(x.to(device)), y.to(device), label_smoothing=0.1) / 2
        loss.backward()
        if index % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
            optimizer.step()
            optimizer.zero_grad()
            average.update_parameters(model)
    return list(average.parameters()), copy.deepcopy(optimizer.state_dict()["param_groups"])


@program
def function_transforms(device: str) -> Any:
    model, x = nn.Linear(3, 1).to(device), torch.randn(5, 3, device=device)

    def loss(parameters: Any, sample: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(torch.func.functional_call(model, parameters, (sample,)), sample[:1])

    one_each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))
    return (
        list(one_each(dict(model.named_parameters()), x).values()),
        torch.func.hessian(lambda t: (t**3).sum())(x[0]),
        torch.func.jvp(torch.exp, (x[0],), (x[1],)),
        torch.func.vmap(lambda t: t + torch.randn(3, device=device), randomness="different")(x),
    )


@program
def hooks_and_recomputation(device: str) -> Any:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(device)
    seen: list[float] = []
    model[0].register_full_backward_hook(lambda module, to, come: seen.append(come[0].sum().item()))
    model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))
    x = torch.randn(3, 4, device=device, requires_grad=True)
    for reentrant in (True, False):
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    with torch.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    return seen, x.grad


@program
def spectra(device: str) -> Any:
    x = torch.randn(4, 64, device=device)
    window = torch.hann_window(16, device=device)
    waves = torch.stft(x, 16, window=window, return_complex=True)
    shifted = torch.fft.rfft(x) * torch.exp(-1j * torch.linspace(0, 1, 33, device=device))
    return torch.istft(waves, 16, window=window), torch.fft.irfft(shifted), waves.angle()


@program
def samples(device: str) -> Any:
    zero, one = torch.zeros(3, device=device), torch.ones(3, device=device)
    parts = D.MixtureSameFamily(D.Categorical(one[:2]), D.Normal(zero[:2], 1.0))
    draws = [D.Normal(zero, one).rsample(), D.Gamma(one, 1.0).sample(), D.Dirichlet(one).sample()]
    draws += [
        D.MultivariateNormal(zero, torch.eye(3, device=device)).sample(),
        D.Beta(one, one).sample(),
    ]
    draws += [D.Poisson(one).sample(), parts.sample((2,)), torch.randperm(5, device=device)]
    return draws, parts.log_prob(zero[:1]), D.kl_divergence(D.Normal(zero, 1.0), D.Normal(one, 2.0))


@program
def sparse_tables(device: str) -> Any:
    places = torch.tensor([[0, 1, 1], [2, 0, 2]], device=device)
    matrix = torch.sparse_coo_tensor(
        places, torch.tensor([3.0, 4, 5], device=device), (2, 3), check_invariants=True
    )
    table = nn.EmbeddingBag(10, 3, sparse=True).to(device)
    optimizer = torch.optim.SparseAdam(list(table.parameters()))
    table(torch.tensor([[1, 2], [3, 4]], device=device)).sum().backward()
    optimizer.step()
    return matrix @ torch.randn(3, 2, device=device), matrix.to_dense(), table.weight


@program
def order_statistics(device: str) -> Any:
    x = torch.randn(50, device=device)
    return (
        x.quantile(torch.tensor([0.1, 0.9], device=device)),
        x.median(),
        x.kthvalue(3),
        torch.bincount((x.abs() * 2).long()),
        torch.unique(x.round(), return_counts=True),
        torch.searchsorted(x.sort().values, x[:3]),
        torch.cov(x.view(2, 25)),
        [f"{value:.3f}" for value in x[:3]],
    )


def leaves(value: Any) -> list[Any]:
    """Numbers and host tensors in a result."""
    if isinstance(value, torch.Tensor):
        return [value.detach().cpu()]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def run(function: Program, device: str) -> list[Any]:
    random.seed(0)
    torch.manual_seed(0)
    return leaves(function(device))


@pytest.mark.filterwarnings("ignore")
def test_ordinary_programs_compute_what_the_cpu_computes(make_session: Any) -> None:
    plain = [run(function, "cpu") for function in PROGRAMS]
    make_session()
    for function, wanted in zip(PROGRAMS, plain, strict=True):
        found = run(function, "cuda")
        for one, other in zip(found, wanted, strict=True):
            same = torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
            assert same, function.__name__
