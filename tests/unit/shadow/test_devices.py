"""Where tensors say that they live."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn


def test_a_tensor_answers_as_on_cuda(session: Any) -> None:
    x = torch.ones(3, device="cuda")
    assert x.device == torch.device("cuda", 0)
    assert (x.is_cuda, x.is_cpu, x.get_device()) == (True, False, 0)
    assert x.type() == "torch.cuda.FloatTensor"
    assert x.to("cuda") is x
    assert x.cuda() is x
    assert x.cpu().device.type == "cpu"
    assert "device='cuda:0'" in repr(x)
    for view in (x.view(1, 3), x.data, x.detach(), x[1:], x.half(), x + 1, nn.Parameter(x)):
        assert view.is_cuda


def test_legacy_types_are_types(session: Any) -> None:
    x = torch.ones(3, device="cuda")
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x, torch.cuda.HalfTensor)
    assert not isinstance(x.cpu(), torch.cuda.FloatTensor)
    assert x.type(torch.cuda.HalfTensor).type() == "torch.cuda.HalfTensor"


def test_a_module_moves_to_a_gpu_by_its_number(session: Any) -> None:
    assert torch.nn.Linear(2, 2).to(0).weight.is_cuda
    assert torch.nn.Linear(2, 2).to(device=0, dtype=torch.half).weight.is_cuda


def test_factories_put_tensors_where_they_are_told(session: Any) -> None:
    x = torch.ones(3, device="cuda")
    for made in (
        torch.zeros_like(x),
        x.new_zeros(2),
        x.new_tensor([1, 2]),
        x.new([1, 2]),
        torch.ones(2).type_as(x),
        torch.zeros_like(torch.ones(2), device="cuda"),
        torch.cuda.FloatTensor([1, 2]),
        torch.tensor([1], device="cuda"),
        torch.as_tensor([1], device="cuda"),
        torch.asarray([1], device="cuda"),
        torch.as_tensor(np.ones(2), device="cuda"),
        torch.arange(3, device="cuda"),
        torch.randperm(3, device="cuda"),
        torch.tril_indices(2, 2, device="cuda"),
    ):
        assert made.is_cuda
    for made in (torch.zeros_like(x, device="cpu"), torch.zeros(2), torch.tensor([1])):
        assert not made.is_cuda


def test_default_devices_are_honoured(session: Any) -> None:
    with torch.device("cuda"):
        assert torch.zeros(2).is_cuda
        assert torch.tensor([1]).is_cuda
        assert nn.Linear(2, 2).weight.is_cuda
        assert not torch.zeros(2, device="cpu").is_cuda
    torch.set_default_device("cuda")
    try:
        assert torch.get_default_device().type == "cuda"
        assert torch.as_tensor([1.0]).is_cuda
    finally:
        torch.set_default_device(None)
    assert not torch.zeros(2).is_cuda


def test_tensors_of_internal_factories_follow_their_operator(session: Any) -> None:
    on_gpu, on_host = torch.tensor([0, 2], device="cuda"), torch.tensor([0, 2])
    assert F.one_hot(on_gpu).is_cuda
    assert not F.one_hot(on_host).is_cuda
    with pytest.raises(RuntimeError, match="two devices"):
        F.one_hot(on_host) + F.one_hot(on_gpu)


def test_mixing_devices_raises_what_cuda_raises(make_session: Any) -> None:
    make_session(count=2)
    x, y = torch.ones(3, device="cuda"), torch.ones(3, device="cuda:1")
    match = "Expected all tensors to be on the same device, but found at least two devices, "
    with pytest.raises(RuntimeError, match=match + "cuda:0 and cpu!"):
        x + torch.ones(3)
    with pytest.raises(RuntimeError, match=match + "cuda:0 and cuda:1!"):
        x + y
    with pytest.raises(RuntimeError, match="two devices"):
        torch.ones(3) + x.sum()
    with pytest.raises(RuntimeError, match="two devices"):
        nn.Embedding(4, 2).cuda()(torch.tensor([1]))
    with pytest.raises(RuntimeError, match="indices should be either on cpu"):
        torch.ones(3)[torch.tensor([0], device="cuda")]
    with pytest.raises(RuntimeError, match="invalid device ordinal"):
        torch.ones(3, device="cuda:7")
    assert (x + torch.tensor(1.0)).is_cuda


@pytest.mark.filterwarnings("ignore:__array__ implementation")
def test_numpy_refuses_the_gpus_memory(session: Any) -> None:
    x = torch.ones(3, device="cuda")
    message = (
        "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor "
        "to host memory first."
    )
    for convert in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(TypeError) as caught:
            convert()
        assert str(caught.value) == message
    with pytest.raises(RuntimeError, match="Unsupported device"):
        np.from_dlpack(x)
    assert torch.from_dlpack(x).is_cuda


def test_modules_move_with_their_parameters_and_buffers(session: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to("cuda")
    tensors = [*model.parameters(), *model.buffers()]
    assert all(tensor.is_cuda for tensor in tensors)
    assert all(type(p) is nn.Parameter for p in model.parameters())
    twin = copy.deepcopy(model)
    model.cpu()
    assert not any(p.is_cuda for p in model.parameters())
    assert all(p.is_cuda for p in twin.parameters())
    assert nn.Linear(2, 2, device="meta").to_empty(device="cuda").weight.is_cuda
    assert nn.LazyLinear(2).cuda()(torch.ones(1, 3, device="cuda")).is_cuda


def test_checkpoints_remember_devices(make_session: Any) -> None:
    make_session(count=2)
    file = io.BytesIO()
    torch.save({"x": torch.arange(3.0, device="cuda"), "y": torch.ones(2)}, file)

    def load(**options: Any) -> dict[str, torch.Tensor]:
        file.seek(0)
        loaded: dict[str, torch.Tensor] = torch.load(file, **options)
        return loaded

    assert load()["x"].device.type == "cuda"
    assert load()["y"].device.type == "cpu"
    assert load()["x"].tolist() == [0.0, 1.0, 2.0]
    assert load(map_location="cpu")["x"].device.type == "cpu"
    assert load(map_location="cuda:1")["y"].device.index == 1
    assert load(map_location={"cuda:0": "cuda:1"})["x"].device.index == 1
    assert pickle.loads(pickle.dumps(torch.ones(2, device="cuda"))).is_cuda


def test_gradients_go_back_over_the_bus(session: Any) -> None:
    x = torch.ones(3, requires_grad=True)
    loss = (x.cuda() * 2).sum()
    session.forget()
    loss.backward()
    assert x.grad is not None
    assert x.grad.device.type == "cpu"
    assert [row.direction for row in session.take("transfers")] == ["d2h"]


def test_subclasses_keep_their_type_and_see_the_call(session: Any) -> None:
    class Logged(torch.Tensor):
        seen: list[str] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            cls.seen.append(getattr(func, "__name__", ""))
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Logged).cuda()
    assert type(x) is Logged
    assert x.is_cuda
    assert Logged.seen == ["cuda"]


def test_sparse_tensors_live_somewhere_too(session: Any) -> None:
    indices = torch.zeros(1, 1, dtype=torch.long, device="cuda")
    x = torch.sparse_coo_tensor(indices, torch.ones(1, device="cuda"), (2,), check_invariants=False)
    for tensor in (x, x.coalesce(), x.to_dense(), x._values(), x * 2):
        assert tensor.is_cuda
    assert x.cpu().device.type == "cpu"


def test_inference_mode_sees_the_same_operators(session: Any) -> None:
    layer = nn.Linear(4, 4, device="cuda")
    x = torch.ones(2, 4, device="cuda")
    session.forget()
    with torch.inference_mode():
        layer(x).sum().item()
    kernels = [row.name for row in session.take("activity") if row.kind == "kernel"]
    assert kernels == ["aten::addmm", "aten::sum"]
    assert session.waits() == [("aten::_local_scalar_dense", "scalar_readback")]


def test_autocast_and_scaler_work_as_on_cuda(session: Any) -> None:
    layer = nn.Linear(8, 8).cuda()
    x = torch.randn(4, 8, device="cuda")
    with torch.autocast("cuda"):
        assert torch.is_autocast_enabled("cuda")
        assert layer(x).dtype == torch.float16
        with torch.autocast("cuda", enabled=False):
            assert layer(x).dtype == torch.float32
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = layer(x).float().sum()
    assert not torch.is_autocast_enabled("cpu")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda")
    scaler.scale(loss).backward()
    session.forget()
    scaler.step(optimizer)
    scaler.update()
    assert session.waits() == [("aten::_local_scalar_dense", "scalar_readback")]


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_run(session: Any, kind: Any) -> None:
    model = kind(4, 5, 2, batch_first=True).cuda()
    packed = nn.utils.rnn.pack_padded_sequence(
        torch.randn(3, 6, 4, device="cuda"), torch.tensor([6, 4, 2]), batch_first=True
    )
    output, _ = model(packed)
    padded, lengths = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
    assert padded.is_cuda
    assert not lengths.is_cuda
    padded.sum().backward()
    assert all(p.grad.is_cuda for p in model.parameters())


def test_ctc_loss_uploads_host_lengths(session: Any) -> None:
    logits = torch.randn(5, 2, 4, device="cuda").log_softmax(-1)
    targets = torch.ones(2, 2, dtype=torch.long, device="cuda")
    session.forget()
    loss = F.ctc_loss(logits, targets, torch.tensor([5, 5]), torch.tensor([2, 2]))
    assert loss.is_cuda
    assert session.waits()


def test_convolutions_say_which_of_their_operands_is_elsewhere(session: Any) -> None:
    on_gpu, on_host = torch.ones(1, 1, 3, device="cuda"), torch.ones(1, 1, 3)
    both = r"Input type \(torch\.{}FloatTensor\) and {} type \(torch\.{}FloatTensor\) should be"
    with pytest.raises(RuntimeError, match=both.format("cuda.", "weight", "")):
        torch.nn.functional.conv1d(on_gpu, on_host)
    with pytest.raises(RuntimeError, match=both.format("", "weight", "cuda.") + ".*MKLDNN"):
        torch.nn.functional.conv1d(on_host, on_gpu)
    with pytest.raises(RuntimeError, match=both.format("cuda.", "bias", "")):
        torch.nn.functional.conv1d(on_gpu, on_gpu, on_host[0, 0, :1])


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_the_default_tensor_type_decides_where_legacy_tensors_are(session: Any) -> None:
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    try:
        session.forget()
        assert torch.Tensor(2).is_cuda
        assert torch.Tensor().is_cuda
        assert not session.take("transfers")
        assert torch.Tensor([1.0, 2.0]).tolist() == [1.0, 2.0]
        assert [row.cause for row in session.take("transfers")] == ["literal_upload", ""]
    finally:
        torch.set_default_tensor_type("torch.FloatTensor")
    assert not torch.Tensor(2).is_cuda


def test_subclasses_of_tensor_can_be_made(session: Any) -> None:
    class Points(torch.Tensor):
        pass

    assert Points([1.0, 2.0]).tolist() == [1.0, 2.0]
    made = Points(torch.ones(2, device="cuda"))
    assert (type(made), made.is_cuda) == (Points, True)


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_function_transforms_see_devices(session: Any) -> None:
    def summed(w: torch.Tensor) -> torch.Tensor:
        assert w.is_cuda
        return (w * torch.ones(3, device=w.device)).sum()

    x = torch.ones(2, 3, device="cuda")
    assert torch.func.grad(summed)(x[0]).is_cuda
    assert torch.vmap(torch.func.grad(summed))(x).is_cuda
    assert torch.func.jvp(summed, (x[0],), (x[0],))[1].is_cuda


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_moves_inside_function_transforms(session: Any) -> None:
    host, gpu = torch.ones(3), torch.ones(3, device="cuda")
    moving = torch.func.grad(lambda w: (gpu * w.to("cuda")).sum())
    assert moving(host).device.type == "cpu"
    assert torch.vmap(moving)(torch.ones(2, 3)).device.type == "cpu"
    value, tangent = torch.func.jvp(lambda w: w.to("cuda") ** 2, (host,), (host,))
    assert value.is_cuda
    assert tangent.is_cuda
