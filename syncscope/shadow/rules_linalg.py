"""Rules of linear algebra: info checks, and what cuSOLVER, cuBLAS and MAGMA do on the host.

Numbers of iterations depend on the data; where a rule says "estimated", the count does and
that the operator waits does not.
"""

from __future__ import annotations

import math

import torch

from syncscope.shadow.effects import Effect
from syncscope.shadow.rules_call import (
    FLAG_READ,
    SYNC,
    Call,
    Effects,
    Rule,
    always,
    batch_count,
    read,
    real_itemsize,
    trace,
    unless_empty,
)

_values = torch._C.TensorBase.tolist
"""`Tensor.tolist` of the stand-ins; the shadow GPU watches the public one."""

_MAGMA_BATCHED = trace("S S S")
"""A context synchronization and two stream synchronizations."""


def _lu(call: Call) -> Effects:
    """MAGMA's batched LU waits; cuSOLVER and cuBLAS do not. The choice is by shape."""
    matrices = call.subject
    if matrices is None or not matrices.numel():
        return ()
    batch, (rows, columns) = batch_count(matrices), matrices.shape[-2:]
    if rows == columns and (batch == 1 or rows <= 16 or (rows <= 128 and batch <= 16)):
        return ()
    return _MAGMA_BATCHED


def _jacobi_sweeps(size: int) -> int:
    """Sweeps of a Jacobi iteration on random matrices (estimated from sizes 3 to 600)."""
    return max(2, round(2.45 + 1.15 * math.log2(size)))


def _svd(call: Call) -> Effects:
    """gesvdj by default: small matrices in one kernel, larger ones sweep by sweep (estimated)."""
    matrices = call.subject
    if matrices is None:
        return ()
    return _svd_of(matrices, call.kwargs.get("driver"))


def _svd_of(matrices: torch.Tensor, driver: str | None) -> Effects:
    if not matrices.numel():
        return ()
    batch, (rows, columns) = batch_count(matrices), matrices.shape[-2:]
    if driver == "gesvd":
        return _gesvd(matrices) * batch + (FLAG_READ,)
    converged = (read(4 * batch), FLAG_READ)
    if driver == "gesvda" or max(rows, columns) <= 32:
        return converged
    sweeps = _jacobi_sweeps(min(rows, columns))
    return (read(real_itemsize(matrices)),) * (sweeps * batch) + converged


def _gesvd(matrices: torch.Tensor) -> Effects:
    """QR iterations on the host; each sends its rotations up (count estimated)."""
    size = min(matrices.shape[-2:])
    row = size * real_itemsize(matrices)
    rotations = (Effect("h2d", row, waits=False),) * (4 * round(1.7 * size) + 1)
    return (*trace(f"D{row} D{row} S"), *rotations)


def _eigh(call: Call) -> Effects:
    matrices = call.subject
    return () if matrices is None else _eigh_of(matrices)


def _eigh_of(matrices: torch.Tensor) -> Effects:
    """syevjBatched, syevj (sweeps estimated) or syevd, by batch, size and dtype."""
    if not matrices.numel():
        return ()
    batch, size = batch_count(matrices), matrices.shape[-1]
    if size == 1 or (batch > 1 and size <= 32):
        return (FLAG_READ,)
    number = real_itemsize(matrices)
    if matrices.dtype == torch.float32 and 32 <= size <= 512:
        sweeps = _jacobi_sweeps(size)
        one = (*((read(number),) * sweeps), Effect("h2d", number, waits=False))
    elif size > 512:
        one = trace(f"D{number} S D16 D{number} S")
    else:
        one = (read(number),)
    return one * batch + (FLAG_READ,)


def _pinv(call: Call) -> Effects:
    """Through `linalg_eigh` or `linalg_svd`."""
    matrices = call.subject
    if matrices is None:
        return ()
    if call.kwargs.get("hermitian", False):
        return _eigh_of(matrices)
    return _svd_of(matrices, None)


def _eig(call: Call) -> Effects:
    """cusolverDnXgeev works on the host as much as on the device, matrix by matrix."""
    matrices = call.subject
    if matrices is None:
        return ()
    check = (FLAG_READ,)
    last = check if matrices.is_complex() else check * 2
    if not matrices.numel():
        return check + last
    return check + _geev(matrices) * batch_count(matrices) + (SYNC,) + last


def _geev(matrices: torch.Tensor) -> Effects:
    """One matrix. Above 75 rows the QR iteration deflates in blocks (count estimated)."""
    size, number = matrices.shape[-1], real_itemsize(matrices)
    whole, row = size * size * matrices.element_size(), size * number
    blocks = f"D{row} S D{row - number} S H{row} S H{row} S " * 22 if size > 75 else ""
    head = f"3*S D{whole} S S H{whole} D4 S D4 S D4 D4 S D{row} 4*S D{whole} "
    if matrices.is_complex():
        values = size * matrices.element_size()
        tail = f"D{whole} S H{whole} H{whole} H{values} S H4 S S D4 3*S D{whole} S H{whole} 3*S"
    else:
        tail = (
            f"D{whole} S H{whole} H{whole} H{row} H{row} S H4 S S D4 S S D16 S S "
            f"D{row} D{whole} S H{whole} 3*S"
        )
    return trace(head + blocks + tail)


def _ldl_factor(call: Call) -> Effects:
    """cuSOLVER reads its pivot search back step by step, MAGMA factors on both sides."""
    matrices = call.subject
    if matrices is None or not matrices.numel():
        return ()
    batch, size = batch_count(matrices), matrices.shape[-1]
    if matrices.is_complex() and call.kwargs.get("hermitian", False):
        panel = size * size * matrices.element_size()
        one = trace(f"S D{panel} S H{panel} S S 10*S")
        return one * batch + trace(f"H{4 * size * batch} S H{4 * batch} S")
    result = call.result
    if isinstance(result, (tuple, list)) and len(result) > 1:
        return (read(24),) * _pivot_searches(result[1])
    return (read(24),) * (size * batch)


def _pivot_searches(pivots: torch.Tensor) -> int:
    """Steps of Bunch-Kaufman: a column kept in place is searched once, others twice."""
    searches = 0
    for row in _values(pivots.reshape(-1, pivots.shape[-1])):
        column = 0
        while column < len(row):
            searches += 1 if row[column] == column + 1 else 2
            column += 1 if row[column] > 0 else 2
    return searches


def _ldl_solve(call: Call) -> Effects:
    """A context synchronization, then each matrix's pivots as 64-bit numbers."""
    factors = call.subject
    if factors is None or not factors.numel():
        return ()
    pivots = Effect("d2h", 8 * factors.shape[-1], waits=False)
    return (SYNC,) + (pivots,) * batch_count(factors)


def _batched_cholesky(call: Call) -> Effects:
    """One matrix goes to cuSOLVER, several to MAGMA, which waits."""
    if call.subject is None:
        return ()
    operands = [arg for arg in call.args[:2] if isinstance(arg, torch.Tensor)]
    shapes = torch.broadcast_shapes(*(operand.shape[:-2] for operand in operands))
    empty = any(not operand.numel() for operand in operands)
    return () if empty or math.prod(shapes) <= 1 else (SYNC,)


_SINGLE_LIMITS = (1.19209e-07, 5.97886e-04, 5.11662e-02, 5.80052e-01, 1.46166e00, 3.01007e00)
_DOUBLE_LIMITS = (2.22045e-16, 2.58096e-08, 3.39717e-04, 4.99123e-02, 2.99616e-01, 1.09086e00)


def _matrix_exp(call: Call) -> Effects:
    """A polynomial by the norm of each matrix; its coefficients are uploaded.

    A single matrix's norm is read to choose the degree. A batch always takes the highest,
    and reads how often its matrices have to be squared.
    """
    matrices = call.subject
    if matrices is None or not matrices.numel() or matrices.shape[-1] <= 1:
        return ()
    with torch.no_grad():
        norms = _values(matrices.detach().abs().double().sum(-2).amax(-1).reshape(-1))
    wide = matrices.dtype in (torch.float64, torch.complex128)
    limits = _DOUBLE_LIMITS if wide else _SINGLE_LIMITS
    number = real_itemsize(matrices)
    if len(norms) > 1:
        return trace(_scaled_and_squared(norms, limits[-1], number))
    chosen = f"D{number} S H8 S "
    degree = sum(norms[0] > limit for limit in limits[:-1])
    if degree == 5:
        return trace(chosen + _scaled_and_squared(norms, limits[-1], number) + " H8 S")
    coefficients = ((), (), (3, 4), (2, 4, 2, 5), (16,))[degree]
    return trace(chosen + " ".join(f"H{count * number} S" for count in coefficients))


def _scaled_and_squared(norms: list[float], limit: float, number: int) -> str:
    """Trace of the highest degree, with one round for each number of squarings."""
    squarings = {
        max(0, math.ceil(math.log2(norm / limit))) if 0 < norm < math.inf else 0 for norm in norms
    }
    return f"H{25 * number} S D8 S D{16 * len(squarings)} S"


_LU = "measured; BatchLinearAlgebra.cpp, lu_factor chooses MAGMA by shape"

LINALG_RULES: dict[str, Rule] = {
    "aten::_linalg_check_errors": always("D1 S", "measured; BatchLinearAlgebra.cpp"),
    "aten::cholesky": unless_empty("D1 S", "measured; BatchLinearAlgebra.cpp checks infos"),
    "aten::cholesky_inverse": Rule(_batched_cholesky, "measured; cuda/BatchLinearAlgebra.cpp"),
    "aten::cholesky_solve": Rule(_batched_cholesky, "measured; cuda/BatchLinearAlgebra.cpp"),
    "aten::_cholesky_solve_helper": Rule(_batched_cholesky, "as cholesky_solve"),
    "aten::linalg_lu_factor_ex": Rule(_lu, _LU),
    "aten::linalg_lu": Rule(_lu, _LU),
    "aten::_linalg_det": Rule(_lu, _LU),
    "aten::_linalg_slogdet": Rule(_lu, _LU),
    "aten::_linalg_solve_ex": Rule(_lu, _LU),
    "aten::linalg_inv_ex": Rule(_lu, _LU),
    "aten::_linalg_svd": Rule(_svd, "measured; BatchLinearAlgebraLib.cpp, gesvdj"),
    "aten::_linalg_eigh": Rule(_eigh, "measured; BatchLinearAlgebraLib.cpp, linalg_eigh"),
    "aten::linalg_pinv.atol_rtol_tensor": Rule(_pinv, "measured; LinearAlgebra.cpp"),
    "aten::linalg_eig": Rule(_eig, "measured; cuSOLVER Xgeev"),
    "aten::linalg_eigvals": Rule(_eig, "as linalg_eig"),
    "aten::_linalg_eigvals": Rule(_eig, "as linalg_eig"),
    "aten::linalg_lstsq": always("D1 S", "measured; BatchLinearAlgebra.cpp checks infos"),
    "aten::linalg_ldl_factor_ex": Rule(_ldl_factor, "measured; cuSOLVER sytrf, MAGMA hetrf"),
    "aten::linalg_ldl_solve": Rule(_ldl_solve, "measured; cuSOLVER sytrs"),
    "aten::linalg_matrix_exp": Rule(_matrix_exp, "measured; LinearAlgebra.cpp, mexp"),
}
