"""Linear algebra: what checks its info on the host."""
import torch


def main(device):
    a = torch.randn(8, 8, device=device)
    spd = a @ a.T + 8 * torch.eye(8, device=device)  # OK
    tall = torch.randn(12, 8, device=device)
    b = torch.randn(8, 3, device=device)
    u, s, v = torch.linalg.svd(a)  # SYNC
    u, s, v = torch.svd(tall)  # SYNC
    s = torch.linalg.svdvals(a)  # SYNC
    q, r = torch.linalg.qr(a)  # OK
    e, w = torch.linalg.eigh(spd)  # SYNC
    e = torch.linalg.eigvalsh(spd)  # SYNC
    det = torch.det(a)  # OK
    det = torch.linalg.det(spd)  # OK
    sign, logdet = torch.linalg.slogdet(spd)  # OK
    ld = torch.logdet(spd)  # OK
    rank = torch.linalg.matrix_rank(a)  # SYNC
    pinv = torch.linalg.pinv(tall)  # SYNC
    cond = torch.linalg.cond(a)  # SYNC
    nrm = torch.linalg.norm(a)  # OK
    nuc = torch.linalg.norm(a, "nuc")  # SYNC
    two = torch.linalg.matrix_norm(a, 2)  # SYNC
    sol = torch.linalg.lstsq(tall, torch.randn(12, 2, device=device)).solution  # SYNC
    lu = torch.linalg.lu(a)  # OK
    f, piv = torch.linalg.lu_factor(a)  # SYNC
    x = torch.linalg.lu_solve(f, piv, b)  # OK
    c = torch.cholesky_solve(b, torch.linalg.cholesky(spd))  # SYNC
    ci = torch.cholesky_inverse(torch.linalg.cholesky_ex(spd).L)  # OK
    tri = torch.linalg.solve_triangular(r, b, upper=True)  # OK
    mp = torch.linalg.matrix_power(a, 3)  # OK
    me = torch.linalg.matrix_exp(a * 0.1)  # SYNC # COPY
    inv = a.inverse()  # SYNC
    mpi = torch.linalg.matrix_power(spd, -1)  # SYNC
    ts = torch.linalg.tensorsolve(spd, torch.randn(8, device=device))  # SYNC
    house = torch.linalg.householder_product(*torch.geqrf(a))  # OK
    cross = torch.linalg.cross(b.T[:, :3], b.T[:, :3])  # OK
    lowrank = torch.svd_lowrank(tall, q=3)  # SYNC
    bt = torch.linalg.solve(spd.expand(3, 8, 8), b)  # SYNC
    cov = torch.cov(a)  # SYNC
    cdist = torch.cdist(a, a)  # OK
    return u, s, v, e, w, det, sign, logdet, ld, rank, pinv, cond, nrm, nuc, two, sol, lu, x, c, ci, tri, mp, me, inv, mpi, ts, house, cross, lowrank, bt, cov, cdist
