"""Devices given as bare numbers, default devices, and the stand-ins that make them work."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from syncscope.shadow import devices

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "eye": (2,),
    "full": ((2,), 1.0),
    "linspace": (0, 1, 3),
    "logspace": (0, 1, 3),
    "normal": (0.0, 1.0, (2,)),
    "randint": (3, (2,)),
    "tril_indices": (2, 2),
    "triu_indices": (2, 2),
    "empty_permuted": ((2, 2), (0, 1)),
    "empty_strided": ((2,), (1,)),
    "full_like": (torch.ones(2), 1.0),
    "randint_like": (torch.ones(2), 3),
}


def test_every_factory_takes_a_number(session: Any) -> None:
    for name in devices._FACTORIES:
        usual = (torch.ones(2),) if name.endswith("_like") else (2,)
        made = getattr(torch, name)(*ARGUMENTS.get(name, usual), device=0)
        assert made.device == torch.device("cuda", 0), name


def test_a_number_is_a_gpu_wherever_a_device_is_asked_for(make_session: Any) -> None:
    make_session(count=2)
    x = torch.ones(2)
    for made in (
        x.to(1),
        x.to(device=1),
        x.cuda(1),
        x.new_zeros(2, device=1),
        x.new_tensor([1], device=1),
        torch.tensor([1], device=1),
        torch.as_tensor([1], device=1),
        torch.asarray([1], device=1),
        torch.fft.fftfreq(4, device=1),
        torch.sparse_coo_tensor([[0]], [1.0], (2,), device=1, check_invariants=False),
        torch.Generator(device=1),
        torch.empty(0, device=1).new([1.0]),
        nn.Linear(2, 2, device=1).weight,
        nn.Linear(2, 2).to(1).weight,
    ):
        assert made.device == torch.device(1)
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(2, device=2)


def test_number_zero_is_not_taken_for_none(make_session: Any) -> None:
    make_session(count=2)
    assert torch.ones(2, device=1).new([1.0], device=0).device.index == 0


def test_torch_device_stays_the_type_that_it_was(session: Any) -> None:
    before = torch.cuda.current_device()
    device = torch.device(before)
    assert device == torch.device("cuda:0")
    assert isinstance(device, torch.device)
    assert type(device) == torch.device  # noqa: E721  (programs compare types like this)
    assert {torch.device: 1}[type(device)] == 1
    assert copy.deepcopy(device) == device
    assert pickle.loads(pickle.dumps(device)) == device
    assert pickle.loads(pickle.dumps(torch.device)) is torch.device
    file = io.BytesIO()
    torch.save({"device": device}, file)
    file.seek(0)
    assert torch.load(file)["device"] == device
    with pytest.raises(TypeError):
        torch.device()


def test_a_number_can_be_the_default_device(session: Any) -> None:
    torch.set_default_device(0)
    try:
        made = [torch.ones(2), torch.tensor([1.0]), torch.as_tensor([1.0]), nn.Linear(2, 2).weight]
        made += [torch.sparse_coo_tensor([[0]], [1.0], (2,), check_invariants=False)]
        assert all(tensor.is_cuda for tensor in made)
        assert not torch.ones(2, device="cpu").is_cuda
    finally:
        torch.set_default_device(None)
    with torch.device(0):
        assert torch.ones(2).is_cuda
    assert not torch.ones(2).is_cuda


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_the_legacy_default_type_moves_factories_to_the_gpu(session: Any) -> None:
    for kind in (torch.cuda.HalfTensor, "torch.cuda.HalfTensor"):
        torch.set_default_tensor_type(kind)
        try:
            assert torch.ones(2).type() == "torch.cuda.HalfTensor"
            assert torch.tensor([1.0]).type() == "torch.cuda.HalfTensor"
        finally:
            torch.set_default_tensor_type(torch.FloatTensor)
        assert torch.ones(2).type() == "torch.FloatTensor"
    with pytest.raises(TypeError, match="only floating-point types are supported"):
        torch.set_default_tensor_type(torch.cuda.LongTensor)


def test_legacy_types_of_the_host_do_not_hold_tensors_of_the_gpu(session: Any) -> None:
    x = torch.ones(2, device="cuda").long()
    assert not isinstance(x, torch.LongTensor)
    assert isinstance(x, torch.cuda.LongTensor)
    assert isinstance(x.cpu(), torch.LongTensor)
    assert isinstance(x, torch.Tensor)
    assert torch.FloatTensor([1, 2]).tolist() == [1.0, 2.0]
    for size in ((2, 3), (torch.Size((2, 3)),)):
        assert torch.cuda.FloatTensor(*size).shape == (2, 3)
    assert x.type(torch.FloatTensor).type() == "torch.FloatTensor"


def test_function_modes_see_the_functions_that_the_program_knows(session: Any) -> None:
    seen = []

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        x = torch.zeros(2, device=0)
        torch.zeros_like(x)
        torch.tensor([1.0])
    for function in (torch.zeros, torch.zeros_like, torch.tensor):
        assert function in seen


def test_tensor_subclasses_are_asked_for_their_own_factories(session: Any) -> None:
    class Kept(torch.Tensor):
        asked: list[Any] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            cls.asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, device="cuda").as_subclass(Kept)
    assert type(torch.zeros_like(x)) is Kept
    assert type(x.new_zeros(2)) is Kept
    assert torch.zeros_like in Kept.asked
