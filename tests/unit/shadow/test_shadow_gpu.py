"""Starting and stopping the shadow GPU; what it promises as a whole."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
import torch
from torch import nn

from syncscope.errors import ShadowUnsupportedError, UsageError
from syncscope.shadow.gpus import GPUS, find_gpu


def train(device: str, steps: int = 3) -> list[torch.Tensor]:
    """A small training run; its parameters."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    for _ in range(steps):
        x = torch.randn(5, 8, device=device)
        loss = nn.functional.cross_entropy(model(x), torch.arange(5, device=device) % 4)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        loss.item()
    return [parameter.detach().cpu() for parameter in model.parameters()]


def test_an_unknown_gpu_is_a_usage_error_that_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match="H200, H100, A100, L4, RTX 4090, T4"):
        find_gpu("V9000")
    assert find_gpu("rtx-4090") is GPUS["RTX 4090"]


def test_values_are_those_of_the_cpu_bit_for_bit(make_session: Any) -> None:
    plain = train("cpu")
    session = make_session()
    shadow = train("cuda")
    session.gpu.stop()
    assert all(torch.equal(one, other) for one, other in zip(plain, shadow, strict=True))


def test_two_runs_write_the_same_rows(make_session: Any) -> None:
    runs = []
    for _ in range(2):
        session = make_session()
        train("cuda")
        session.gpu.stop()
        tables = ("runtime", "activity", "blocking", "transfers", "unmodelled")
        runs.append({table: session.take(table) for table in tables})
    assert runs[0] == runs[1]
    assert runs[0]["runtime"]


def test_nothing_stays_patched_after_an_exception(make_session: Any) -> None:
    before = {
        name: dict(vars(owner))
        for name, owner in {
            "Tensor": torch.Tensor,
            "UntypedStorage": torch.UntypedStorage,
            "torch": torch,
            "cuda": torch.cuda,
            "autocast": torch.amp.autocast_mode.autocast,
            "Thread": threading.Thread,
        }.items()
    }
    session = make_session()
    with pytest.raises(ZeroDivisionError):
        torch.ones(1 // 0, device="cuda")
    session.gpu.stop()
    session.gpu.stop()
    after = {
        "Tensor": torch.Tensor,
        "UntypedStorage": torch.UntypedStorage,
        "torch": torch,
        "cuda": torch.cuda,
        "autocast": torch.amp.autocast_mode.autocast,
        "Thread": threading.Thread,
    }
    for name, names in before.items():
        now = dict(vars(after[name]))
        changed = {key for key in names if now.get(key) is not names[key]}
        assert not {key for key in changed if not key.startswith("__")}, name
    assert not torch.cuda.is_available()
    assert torch._C._len_torch_dispatch_stack() == 0


def test_a_mode_left_open_by_an_exception_does_not_stop_stop(make_session: Any) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    session = make_session()
    mode = FlopCounterMode(display=False)
    mode.__enter__()
    session.gpu.stop()
    mode.__exit__(None, None, None)
    assert torch._C._len_torch_dispatch_stack() == 0


def test_only_one_runs_at_a_time(make_session: Any) -> None:
    make_session()
    with pytest.raises(UsageError, match="already"):
        make_session()


def test_memory_stays_flat_over_ten_thousand_steps(session: Any) -> None:
    x = torch.randn(16, 16, device="cuda")

    def steps(count: int) -> None:
        y = x
        for index in range(count):
            y = (y * 0.5 + x).view(4, 64).t().reshape(16, 16)
            if index % 100 == 0:
                session.forget()

    steps(500)
    before, resident = torch.cuda.memory_allocated(), resident_bytes()
    steps(10_000)
    assert torch.cuda.memory_allocated() == before
    assert resident_bytes() - resident < 8 << 20


def resident_bytes() -> int:
    """Memory that this process occupies."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_threads_have_the_shadow_gpu_too(session: Any) -> None:
    seen = []

    def work() -> None:
        x = torch.ones(3, device="cuda")
        seen.append(((x * 2).is_cuda, float(x.sum())))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(True, 3.0)]
    assert ("aten::_local_scalar_dense", "scalar_readback") in session.waits()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_a_forked_child_gets_cudas_error_and_writes_nothing(session: Any) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            torch.ones(3)
            torch.ones(3, device="cuda")
            os.write(write, b"no error")
        except RuntimeError as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"Cannot re-initialize CUDA in forked subprocess" in os.read(read, 1000)
    torch.ones(3, device="cuda")


def test_a_function_imported_beforehand_is_reached(session: Any) -> None:
    assert tensor([1.0], device="cuda").is_cuda


from torch import tensor  # noqa: E402  (its alias is what the test above is about)


def test_compiled_functions_run_eagerly_and_are_noted(session: Any) -> None:
    double = torch.compile(lambda x: x * 2)
    assert double(torch.ones(2, device="cuda")).tolist() == [2.0, 2.0]
    session.gpu.stop()
    assert [row.op for row in session.take("unmodelled")] == ["torch.compile"]


def test_a_cuda_extension_is_refused_in_one_line(session: Any) -> None:
    import torch.utils.cpp_extension as extensions

    with pytest.raises(ShadowUnsupportedError, match="CUDA extension") as caught:
        extensions.load("mine", ["mine.cu"])
    assert "\n" not in str(caught.value)


def test_a_kernel_for_cuda_only_is_refused_in_one_line(session: Any) -> None:
    library = torch.library.Library("shadow_test", "DEF")
    library.define("only_cuda(Tensor x) -> Tensor")
    library.impl("only_cuda", lambda x: x, "CUDA")
    with pytest.raises(ShadowUnsupportedError, match="only_cuda") as caught:
        torch.ops.shadow_test.only_cuda(torch.ones(2, device="cuda"))
    assert "\n" not in str(caught.value)


def test_its_price_is_printed(make_session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def seconds(device: str) -> float:
        model = nn.Sequential(*[nn.Linear(128, 128) for _ in range(8)]).to(device)
        x = torch.randn(64, 128, device=device)
        best = 1.0
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(10):
                model(x).sum().backward()
            best = min(best, time.perf_counter() - start)
        return best

    plain = seconds("cpu")
    session = make_session()
    shadow = seconds("cuda")
    session.gpu.stop()
    with capsys.disabled():
        print(f" [small layers: x{shadow / plain:.1f} of the plain CPU run]", end="")
    assert shadow < 20 * plain
