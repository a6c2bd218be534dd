"""PyTorch's operator database on the shadow GPU: values of the CPU, results on the GPU.

Run as a script, this file goes through the database and prints what is wrong.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

UNINITIALIZED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
}
OVERLAPPING = {"as_strided"}
"""Their samples look beyond the elements that a copy to the CPU keeps."""
CUDA_KERNELS = {"nn.functional.linear_cross_entropy"}
NOT_COMPARABLE = {"chalf"}
DTYPES = ("float32", "int64", "bool", "complex64")


def on_cpu(value: Any) -> Any:
    """An argument as the plain CPU run gets it."""
    import torch

    if isinstance(value, torch.Tensor):
        return value.cpu()
    return torch.device("cpu") if isinstance(value, torch.device) or value == "cuda" else value


def compare(op: Any, sample: Any) -> str:
    """What differs between the CPU and the shadow GPU; "" if nothing."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_map

    args, kwargs = tree_map(on_cpu, ((sample.input, *sample.args), sample.kwargs))
    try:
        torch.manual_seed(0)
        wanted = tree_leaves(op(*args, **kwargs))
    except (RuntimeError, TypeError, ValueError, NotImplementedError):
        return ""
    torch.manual_seed(0)
    found = tree_leaves(op(sample.input, *sample.args, **sample.kwargs))
    for one, other in zip(found, wanted, strict=True):
        if not isinstance(one, torch.Tensor) or one.layout != torch.strided:
            continue
        if not one.is_cuda and one.dim():
            return "its result is not on the GPU"
        if other.is_cuda:
            return "its result on the CPU is on the GPU"
        if not torch.equal(one.cpu(), other) and not torch.allclose(
            one.cpu(), other, rtol=0, atol=0, equal_nan=True
        ):
            return "its values differ"
    return ""


def sweep(folder: Path) -> list[str]:
    """All operators, first two samples each."""
    import torch
    from torch.testing._internal.common_methods_invocations import op_db

    from syncscope.callsite import StackTable
    from syncscope.context import CaptureContext
    from syncscope.recording.manifest import Manifest
    from syncscope.recording.writer import RecordingWriter
    from syncscope.shadow.gpu import ShadowGpu

    writer = RecordingWriter(folder / "run", Manifest("ops", (), True, False, 0, {}))
    gpu = ShadowGpu(CaptureContext(writer, StackTable()))
    gpu.start()
    wrong, compared = [], 0
    for op in op_db:
        dtypes = [getattr(torch, name) for name in DTYPES if getattr(torch, name) in op.dtypes]
        skipped = op.name in UNINITIALIZED | OVERLAPPING | CUDA_KERNELS | NOT_COMPARABLE
        if skipped or op.name.startswith("jiterator") or not dtypes:
            continue
        samples = op.sample_inputs("cuda", dtypes[0], requires_grad=False)
        for sample, _ in zip(samples, range(2), strict=False):
            compared += 1
            try:
                difference = compare(op, sample)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is reported)
                difference = f"{type(error).__name__}: {str(error)[:200]}"
            if difference:
                wrong.append(f"{op.name} {op.variant_test_name}: {difference}")
    gpu.stop()
    print(f"{compared} samples compared")
    return wrong


def test_operators_compute_what_the_cpu_computes() -> None:
    run = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert int(run.stdout.split()[-3]) > 1000


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as scratch:
        lines = sweep(Path(scratch))
    for line in lines:
        print(line)
    sys.exit(bool(lines))
