"""Around the tensors: DLPack, numpy, TorchScript, custom operators, warnings, plain values."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from syncscope.errors import ShadowUnsupportedError


def test_dlpack_keeps_the_device(session: Any) -> None:
    x = torch.arange(3.0, device="cuda")
    assert x.__dlpack_device__()[1] == 0
    assert int(x.__dlpack_device__()[0]) == 2
    for y in (
        torch.from_dlpack(x),
        torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)),
    ):
        assert y.is_cuda
        assert y.data_ptr() == x.data_ptr()
    host = torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2)))
    assert not host.is_cuda
    assert np.from_dlpack(host).tolist() == [1.0, 1.0]
    assert x.__cuda_array_interface__["shape"] == (3,)
    with pytest.raises(AttributeError, match="non-CUDA tensor type"):
        host.__cuda_array_interface__  # noqa: B018


def test_storages_are_made_and_loaded_on_the_gpu(session: Any) -> None:
    assert torch.UntypedStorage(4, device="cuda").device.type == "cuda"
    assert torch.UntypedStorage(4).device.type == "cpu"
    file = io.BytesIO()
    torch.save(torch.ones(2, device="cuda"), file)
    for location, kind in (
        ("cpu", "cpu"),
        (torch.device(0), "cuda"),
        ({"cuda:0": "cpu"}, "cpu"),
        (lambda storage, place: storage, "cpu"),
        (lambda storage, place: storage.cuda(), "cuda"),
    ):
        file.seek(0)
        assert torch.load(file, map_location=location).device.type == kind
    file.seek(0)
    with pytest.raises(RuntimeError, match=r"CUDA device 3 but torch.cuda.device_count\(\) is 1"):
        torch.load(file, map_location="cuda:3")


def test_a_pinned_buffer_refilled_through_numpy_in_flight_is_a_race(session: Any) -> None:
    buffer = torch.zeros(100).pin_memory()
    array = buffer.numpy()

    def upload() -> list[str]:
        session.forget()
        buffer.to("cuda", non_blocking=True)
        return [row.kind for row in session.take("blocking")]

    assert upload() == []
    assert upload() == []
    array[:] = 1
    assert upload() == ["race"]
    torch.cuda.synchronize()
    array[:] = 2
    assert upload() == []


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_torchscript_compiles_what_is_replaced(session: Any) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            shift = torch.tensor([1.0, 2.0, 3.0], device=x.device)
            return self.layer(x) + torch.ones_like(x) + torch.arange(3, device=x.device) + shift

    model = Model().cuda()
    x = torch.randn(2, 3, device="cuda")
    scripted = torch.jit.script(model)
    file = io.BytesIO()
    torch.jit.save(scripted, file)
    file.seek(0)
    for module in (
        scripted,
        torch.jit.load(file, map_location="cuda"),
        torch.jit.trace(model, (x,)),
    ):
        y = module(x)
        assert y.is_cuda
        assert torch.equal(y, model(x))


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_a_traced_move_moves_again(session: Any) -> None:
    traced = torch.jit.trace(lambda x: x.to("cuda") * 2, (torch.ones(2),))
    session.forget()
    assert traced(torch.ones(2)).is_cuda
    assert [row.direction for row in session.take("transfers")] == ["h2d"]


def test_operators_written_in_python_are_looked_into(session: Any) -> None:
    @torch.library.custom_op("shadow_unit::summed", mutates_args=())
    def summed(x: torch.Tensor) -> torch.Tensor:
        return x * torch.zeros(2, device=x.device) + x.sum().item()

    assert summed(torch.ones(2, device="cuda")).tolist() == [2.0, 2.0]
    assert ("aten::_local_scalar_dense", "scalar_readback") in session.waits()


def test_exporting_a_program_is_refused_in_one_line(session: Any) -> None:
    with pytest.raises(ShadowUnsupportedError, match=r"torch\.export\.export"):
        torch.export.export(nn.Linear(1, 1).cuda(), (torch.ones(1, 1, device="cuda"),))


def test_a_recurrent_network_refuses_inputs_of_another_device(session: Any) -> None:
    x = torch.ones(2, 1, 3)
    match = "Input and parameter tensors are not at the same device, found input tensor at cpu"
    with pytest.raises(RuntimeError, match=match):
        nn.LSTM(3, 2).cuda()(x)
    hidden = torch.zeros(1, 1, 2)
    with pytest.raises(RuntimeError, match="Input and hidden tensors are not at the same device"):
        nn.GRU(3, 2).cuda()(x.cuda(), hidden)
    packed = nn.utils.rnn.pack_padded_sequence(x.cuda(), torch.tensor([2]))
    assert nn.LSTM(3, 2).cuda()(packed)[0].data.is_cuda


EXPRESSIONS = (
    "torch.linalg.svdvals(x)",
    "torch.linalg.eigvalsh(x)",
    "torch.linalg.cond(x)",
    "torch.linalg.norm(x, 'nuc')",
    "torch.linalg.norm(x, 2)",
    "torch.linalg.matrix_norm(x, ord=-2)",
    "torch.norm(x, 'nuc')",
    "x.norm(p='nuc')",
)


def test_singular_values_are_the_cpus_to_the_last_digit(make_session: Any) -> None:
    x = torch.randn(7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x = x @ x.T
    wanted = {text: eval(text, {"torch": torch, "x": x}) for text in EXPRESSIONS}
    session = make_session()
    for text, value in wanted.items():
        for tensor in (x, x.cuda()):
            assert torch.equal(eval(text, {"torch": torch, "x": tensor}).cpu(), value), text
    session.forget()
    torch.linalg.svdvals(x.cuda().requires_grad_()).sum().backward()
    assert ("aten::_linalg_svd", "linalg_info") in session.waits()


@pytest.mark.usefixtures("warning_lines")
def test_warnings_name_the_line_that_called_and_come_once_a_line(session: Any) -> None:
    x = torch.ones(2, 3, 4, device="cuda")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(2):
            _ = x.T
            torch.tensor(torch.ones(2))
            torch.add(x[0], x[0], out=torch.ones(1, device="cuda"))
            F.mse_loss(torch.ones(2, device="cuda"), torch.ones(2, 1, device="cuda"))
    own = Path(__file__).name
    names = [Path(warning.filename).name for warning in caught]
    assert names == [own] * len(names)
    assert len({warning.lineno for warning in caught}) == len(names) >= 3


@pytest.mark.usefixtures("warning_lines")
def test_a_module_filter_of_the_program_holds(session: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", module=__name__)
        torch.tensor(torch.ones(2))
    assert not caught


class Moving(nn.Module):
    """Every way of TorchScript to ask for a device, or to go to one."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        if x.is_cuda and x.device.type == "cuda":
            return [
                torch.arange(3).to("cuda"),
                torch.ones(3).to(x.device, torch.float64),
                torch.ones(3).to(x),
                torch.ones(3).cuda(),
                x.cpu(),
                x.to(device="cpu", dtype=torch.float64),
            ]
        return []


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_scripted_code_asks_and_moves_as_on_cuda(session: Any) -> None:
    scripted = torch.jit.script(Moving())
    x = torch.ones(3, device="cuda")
    session.forget()
    places = [tensor.is_cuda for tensor in scripted(x)]
    assert places == [True] * 4 + [False] * 2
    directions = [row.direction for row in session.take("transfers")]
    assert directions == ["h2d"] * 4 + ["d2h"] * 2
    assert b"syncscope" not in scripted.save_to_buffer()
    assert len(scripted(x)) == 6
