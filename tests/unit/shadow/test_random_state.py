"""Random numbers of the shadow GPU."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint


def draw(device: str = "cuda") -> list[float]:
    return torch.randn(3, device=device).tolist()


def test_a_program_that_seeds_everything_draws_what_the_cpu_draws(session: Any) -> None:
    torch.manual_seed(3)
    wanted = draw("cpu") + draw("cpu")
    torch.manual_seed(3)
    assert draw() + draw("cpu") == wanted


def test_seeding_the_gpu_alone_repeats_its_numbers_and_no_others(session: Any) -> None:
    torch.manual_seed(3)
    cpu = draw("cpu")
    torch.manual_seed(3)
    torch.cuda.manual_seed(5)
    first = draw()
    assert draw("cpu") == cpu
    torch.cuda.manual_seed_all(5)
    assert draw() == first
    assert torch.cuda.initial_seed() == 5
    torch.manual_seed(3)
    assert draw() == cpu


def test_every_gpu_has_a_stream(make_session: Any) -> None:
    make_session(count=2)
    torch.cuda.manual_seed_all(1)
    first = draw("cuda:0")
    assert draw("cuda:1") == first
    torch.cuda.manual_seed(2)
    assert draw("cuda:1") != draw("cuda:0")
    with torch.cuda.device(1):
        torch.cuda.manual_seed(1)
    assert draw("cuda:1") == first


def test_in_place_operators_and_dropout_draw_from_the_gpus_stream(session: Any) -> None:
    def all_kinds() -> list[float]:
        torch.cuda.manual_seed(1)
        x = torch.empty(4, device="cuda").normal_()
        x = torch.nn.functional.dropout(x) + torch.rand_like(x) + torch.bernoulli(x.sigmoid())
        return (x + torch.randperm(4, device="cuda")).tolist()

    wanted = all_kinds()
    draw("cpu")
    assert all_kinds() == wanted


def test_states_are_saved_and_restored(session: Any) -> None:
    torch.cuda.manual_seed(1)
    state = torch.cuda.get_rng_state()
    assert state.device.type == "cpu"
    first = draw()
    torch.cuda.set_rng_state(state)
    assert draw() == first
    torch.cuda.set_rng_state_all([state])
    assert draw() == first
    generator = torch.cuda.default_generators[0]
    generator.set_state(state)
    assert torch.randn(3, device="cuda", generator=generator).tolist() == first


def test_a_state_that_a_real_gpu_saved_can_be_restored(session: Any) -> None:
    state = torch.tensor([7, *[0] * 15], dtype=torch.uint8)
    torch.cuda.set_rng_state(state)
    first = draw()
    torch.cuda.manual_seed(7)
    assert draw() == first


@pytest.mark.parametrize("apart", [False, True])
def test_fork_rng_and_checkpointing_keep_the_streams_as_they_were(
    session: Any, apart: bool
) -> None:
    def numbers(inside: bool) -> list[float]:
        torch.manual_seed(0)
        if apart:
            torch.cuda.manual_seed(1)
        if inside:
            with torch.random.fork_rng(devices=[0]):
                draw()
                draw("cpu")
        return draw() + draw("cpu")

    assert numbers(inside=True) == numbers(inside=False)
    x = torch.ones(100, device="cuda", requires_grad=True)
    for reentrant in (False, True):
        y = checkpoint(torch.nn.functional.dropout, x, use_reentrant=reentrant)
        x.grad = None
        y.sum().backward()
        assert x.grad is not None
        assert torch.equal(x.grad, y)


def test_a_generator_of_the_wrong_device_raises_cudas_error(session: Any) -> None:
    cuda = "Expected a 'cuda' device type for generator but found 'cpu'"
    cpu = "Expected a 'cpu' device type for generator but found 'cuda'"
    x = torch.ones(2, device="cuda")
    with pytest.raises(RuntimeError, match=cuda):
        torch.randn(2, device="cuda", generator=torch.Generator())
    with pytest.raises(RuntimeError, match=cuda):
        x.normal_(generator=torch.Generator())
    with pytest.raises(RuntimeError, match=cuda):
        torch.multinomial(x, 1, generator=torch.Generator())
    with pytest.raises(RuntimeError, match=cpu):
        torch.randperm(3, generator=torch.Generator("cuda"))
    generator = torch.Generator("cuda").manual_seed(3)
    first = torch.randn(2, device="cuda", generator=generator)
    assert torch.equal(first, torch.randn(2, device="cuda", generator=generator.manual_seed(3)))


def test_states_travel_in_checkpoints(session: Any) -> None:
    torch.cuda.manual_seed(1)
    file = io.BytesIO()
    torch.save({"cuda": torch.cuda.get_rng_state_all()}, file)
    first = draw()
    file.seek(0)
    torch.cuda.set_rng_state_all(torch.load(file)["cuda"])
    assert draw() == first
