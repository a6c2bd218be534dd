"""Does the shadow GPU block where an H200 does? Asked of PyTorch's own operator database.

Runs every operator of `torch.testing`'s op_db under the shadow GPU, in the way in which
tests/data/truth was recorded on an H200, and compares the recording that the shadow GPU
writes with it: calls that synchronize and copies in either direction, sample by sample.
Then runs the same samples on the plain CPU and compares the results bit for bit.

    python benchmarks/op_db_agreement.py                the truth: one dtype, 6 samples
    python benchmarks/op_db_agreement.py --all-dtypes   all dtypes, up to 40 samples

Exits with 1 when agreement is below the targets. Samples are matched by their number; the
few operators whose samples another version of PyTorch makes in another order are left out.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from syncscope.callsite import StackTable
from syncscope.context import CaptureContext
from syncscope.recording.tables import BlockingRow, TransferRow
from syncscope.shadow.gpu import ShadowGpu

TRUTH = Path(__file__).parent.parent / "tests" / "data" / "truth"
FIRST_DTYPES = (torch.float32, torch.int64, torch.bool, torch.complex64)
UNINITIALISED = ("empty", "new_empty", "resize_", "resize_as_")
BLOCKING_TARGET, COUNT_TARGET = 0.995, 0.98

MATRIX = "how often cuSOLVER reads back depends on the matrix"
SAMPLES = "this PyTorch makes its samples in another order than the one on the H200"
CUDA_ONLY = "CUDA source code or a kernel for CUDA only: the shadow GPU cannot run it"
CPU_LACKS = "the CPU has no kernel for this dtype or argument"
FOLDS = "under any dispatch mode PyTorch multiplies these batches as one matrix"
BY_DEVICE = "PyTorch itself computes it otherwise on CUDA tensors"
VECTORS = "under any dispatch mode PyTorch computes vectors as well as values"
REASONS = {
    "_efficient_attention_forward": CUDA_ONLY,
    "_flash_attention_forward": CUDA_ONLY,
    "jiterator": CUDA_ONLY,
    "matmul": FOLDS,
    "__rmatmul__": FOLDS,
    "nn.functional.linear_cross_entropy.chunked": BY_DEVICE,
    "linalg.eig": MATRIX,
    "linalg.eigvals": VECTORS,
    "linalg.ldl_factor": MATRIX,
    "linalg.pinv.singular": MATRIX,
    "linalg.matrix_exp": MATRIX,
    "matrix_exp": MATRIX,
    "nn.functional.ctc_loss": "with a dispatch mode, as in the truth, `mean` uploads no lengths",
    "histc": SAMPLES,
    "masked.std": SAMPLES,
    "masked.var": SAMPLES,
    "trace": SAMPLES,
}
"""Why operators disagree for no fault of a rule; the longest matching beginning counts."""

CPU_LIMITS = (
    "not implemented for",
    "not implemented on the CPU",
    "CPU does not support",
    "Unsupported dtype",
    "expected scalar type Float but found Half",
)
"""Errors of plain PyTorch on the CPU, which has fewer kernels than CUDA."""

NAMESPACES = tuple(
    (owner, dict(vars(owner))) for owner in (torch, torch.nn.functional, torch.linalg, torch.Tensor)
)
"""Where operators are found, and what was there before the shadow GPU."""

Counts = tuple[int, int, int]
"""Synchronizing calls, copies to the device, copies to the host."""


@dataclass
class Rows:
    """Stands in for the recording's writer: keeps rows in memory."""

    tables: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    sources: list[Callable[[], dict[str, Any]]] = field(default_factory=list)

    def rows(self, table: str) -> list[Any]:
        """The list that collectors append to."""
        return self.tables[table]

    def counts(self) -> Counts:
        """What has been recorded so far."""
        batches = {name: batch for source in self.sources for name, batch in source().items()}
        if not batches:
            return 0, 0, 0
        waits = sum("Synchronize" in name for name in batches["runtime"]["name"].to_pylist())
        copies = Counter(batches["activity"]["direction"].to_pylist())
        return waits, copies["h2d"], copies["d2h"]

    def calls(self) -> tuple[str, ...]:
        """Operators that copied, or waited."""
        transfers = [TransferRow(*row) for row in self.tables["transfers"]]
        blocking = [BlockingRow(*row) for row in self.tables["blocking"]]
        return (*(f"{row.op} {row.direction}" for row in transfers), *(row.op for row in blocking))

    def clear(self) -> None:
        """Forget everything; collectors keep the lists."""
        for rows in self.tables.values():
            rows.clear()
        for source in self.sources:
            source()


@dataclass
class Outcome:
    """One sample of one operator: what the shadow GPU recorded, or why it could not."""

    operator: Any
    dtype: torch.dtype
    number: int
    sample: Any
    counts: Counts | None = None
    result: Any = None
    error: str = ""
    calls: tuple[str, ...] = ()


def dtypes_of(operator: Any, every: bool) -> list[torch.dtype]:
    """The first dtype, as in the truth, or all of them."""
    supported = operator.supported_dtypes("cuda")
    first = [dtype for dtype in FIRST_DTYPES if dtype in supported][:1]
    if not every:
        return first
    return first + sorted((d for d in supported if d not in first), key=str)


def observe(operators: list[Any], every: bool, limit: int) -> Iterator[Outcome]:
    """Run the operators' samples under the shadow GPU, each twice, and count the second."""
    rows = Rows()
    context = CaptureContext(writer=rows, stacks=StackTable())  # type: ignore[arg-type]
    shadow = ShadowGpu(context)
    shadow.start()
    try:
        for operator in operators:
            for dtype in dtypes_of(operator, every):
                yield from observe_one(operator, dtype, limit, rows)
    finally:
        shadow.stop()


def observe_one(operator: Any, dtype: torch.dtype, limit: int, rows: Rows) -> Iterator[Outcome]:
    """The first samples of one operator and dtype."""
    torch.manual_seed(1)
    samples = iter(operator.sample_inputs("cuda", dtype, requires_grad=False))
    for number in range(limit):
        try:
            sample = next(samples, None)
        except Exception as error:  # noqa: BLE001  # whatever a sample generator may raise
            yield Outcome(operator, dtype, number, None, error=f"making samples: {error!r}"[:160])
            return
        if sample is None:
            return
        yield observed(Outcome(operator, dtype, number, sample), rows)


def as_programs_find_it(function: Any) -> Any:
    """What a program gets that looks the operator up now.

    op_db holds functions from before the shadow GPU replaced some of them.
    """
    for owner, known in NAMESPACES:
        for name, value in known.items():
            if value is function:
                return getattr(owner, name)
    return function


def observed(outcome: Outcome, rows: Rows) -> Outcome:
    """Call an operator twice and count the second call."""
    sample = outcome.sample
    call = as_programs_find_it(outcome.operator.op)
    try:
        call(sample.input, *sample.args, **sample.kwargs)
        kept = sample.transform(copied)
        rows.clear()
        torch.manual_seed(2)
        outcome.result = call(sample.input, *sample.args, **sample.kwargs)
    except Exception as error:  # noqa: BLE001  # whatever an operator may raise
        outcome.error = repr(error)[:160]
    else:
        outcome.counts = rows.counts()
        outcome.calls = rows.calls()
        outcome.sample = kept
    return outcome


def copied(value: Any) -> Any:
    """Inputs as they are before the call: some are written by it, or by the next sample."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout != torch.strided:
        return value.detach().clone()
    elements = value.untyped_storage().nbytes() // value.element_size()
    whole = value.detach().as_strided((elements,), (1,), 0).clone()
    return whole.as_strided(value.shape, value.stride(), value.storage_offset())


def same_on_the_cpu(outcome: Outcome) -> bool:
    """Whether the plain CPU computes the same bits. Called after the shadow GPU is gone."""
    sample = outcome.sample
    kwargs = dict(sample.kwargs)
    if "device" in kwargs:
        kwargs["device"] = "cpu"
    torch.manual_seed(2)
    try:
        result = outcome.operator(sample.input, *sample.args, **kwargs)
        torch.testing.assert_close(
            outcome.result, result, rtol=0, atol=0, equal_nan=True, check_stride=False
        )
    except AssertionError:
        return False
    except Exception:  # noqa: BLE001  # not comparable: other arguments name the device
        return True
    return True


def expected_counts(every: bool, path: Path | None) -> dict[tuple[str, str], list[Any]]:
    """Truth by operator and dtype; dtype "" stands for the first."""
    name = "op_db_dtypes_h200.json.gz" if every else "op_db_h200.json.gz"
    source = path or TRUTH / name
    opener: Any = gzip.open if source.suffix == ".gz" else open
    with opener(source, "rt") as file:
        truth = json.load(file)
    if "opinfo" in truth:
        fields = ("sync", "h2d", "d2h")
        return {
            (key, ""): [[sample[name] for name in fields] for sample in samples]
            for key, samples in truth["opinfo"].items()
        }
    if not every:
        return {(key, ""): samples for key, samples in truth["operators"].items()}
    return {
        (key, dtype): samples
        for key, dtypes in truth["operators"].items()
        for dtype, samples in dtypes.items()
    }


@dataclass
class Tally:
    """Agreement so far."""

    samples: int = 0
    agreed: Counter[str] = field(default_factory=Counter)
    impossible: int = 0
    """Samples that no CPU can run; other failures count as disagreement."""
    reordered: int = 0
    """Samples that cannot be matched by number; they are shown and not counted."""
    disagreements: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, outcome: Outcome, expected: list[int] | None) -> None:
        """Count one sample."""
        if expected is None:
            return
        name = outcome.operator.full_name
        if reason_for(name, []) == SAMPLES:
            self.reordered += 1
        else:
            self.samples += 1
            self.compare(outcome, expected)

    def compare(self, outcome: Outcome, expected: list[int]) -> None:
        """Count agreement, or note the disagreement."""
        name = outcome.operator.full_name
        if outcome.counts is None:
            line = f"could not run: {outcome.error}"
            self.impossible += reason_for(name, [line]) in (CUDA_ONLY, CPU_LACKS)
            self.disagreements[name].append(line)
            return
        got = outcome.counts
        self.agreed["blocking"] += bool(got[0]) == bool(expected[0])
        for index, kind in enumerate(("waits", "h2d", "d2h")):
            self.agreed[kind] += got[index] == expected[index]
        if list(got) != list(expected):
            self.disagreements[name].append(
                f"{str(outcome.dtype).removeprefix('torch.')} sample {outcome.number}: "
                f"shadow {got}, H200 {tuple(expected)} {' '.join(outcome.calls)[:120]}"
            )

    def share(self, kind: str) -> float:
        """Agreement of one kind, of the samples that could run on a CPU."""
        return self.agreed[kind] / max(1, self.samples - self.impossible)


def reason_for(name: str, lines: list[str]) -> str:
    """Why an operator disagrees, as far as that is known."""
    bare = name.removeprefix("torch.ops.aten.")
    found = [key for key in REASONS if bare.startswith(key)]
    if found:
        return REASONS[max(found, key=len)]
    if lines and all(any(limit in line for limit in CPU_LIMITS) for line in lines):
        return CPU_LACKS
    return "unexplained"


def report(tally: Tally, results: Counter[str], shown: int) -> bool:
    """Print the agreement; whether it reaches the targets."""
    print(f"{tally.samples} samples, of which {tally.impossible} need a real GPU")
    print(f"{tally.reordered} more whose order differs between versions of PyTorch: not counted")
    reached = True
    for kind in ("blocking", "waits", "h2d", "d2h"):
        target = BLOCKING_TARGET if kind == "blocking" else COUNT_TARGET
        reached &= tally.share(kind) >= target
        print(f"  {kind:9} agree {tally.share(kind):8.3%}   target {target:.1%}")
    print(f"results equal to the plain CPU's: {results['same']} of {results.total()}")
    for name, lines in sorted(tally.disagreements.items()):
        print(f"{name}: {reason_for(name, lines)}")
        for line in lines[:shown]:
            print(f"    {line}")
        if len(lines) > shown:
            print(f"    ... {len(lines)} in all")
    return reached


def main() -> int:
    """Exit code: 0 when the targets are reached."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--truth", type=Path, help="another recording of the truth")
    parser.add_argument("--all-dtypes", action="store_true")
    parser.add_argument("--only", default="", help="operators whose names contain this")
    parser.add_argument("--show", type=int, default=2, help="disagreements shown per operator")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

    every = options.all_dtypes
    truth = expected_counts(every, options.truth)
    operators = [operator for operator in op_db if options.only in operator.full_name]
    tally, results = Tally(), Counter[str]()
    kept: list[Outcome] = []
    for outcome in observe(operators, every, 40 if every else 6):
        operator = outcome.operator
        dtype = str(outcome.dtype).removeprefix("torch.")
        key = (operator.formatted_name, dtype) if every else (operator.full_name, "")
        expected = truth.get(key, [])
        tally.add(outcome, expected[outcome.number] if outcome.number < len(expected) else None)
        if outcome.counts is not None and not operator.name.startswith(UNINITIALISED):
            kept.append(outcome)
    for outcome in kept:
        same = same_on_the_cpu(outcome)
        results["same" if same else "different"] += 1
        if not same:
            tally.disagreements[outcome.operator.full_name].append(
                f"{outcome.dtype} sample {outcome.number}: the result differs from the CPU's"
            )
    return 0 if report(tally, results, options.show) else 1


if __name__ == "__main__":
    sys.exit(main())
