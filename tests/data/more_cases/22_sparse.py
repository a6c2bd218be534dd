"""Sparse COO and CSR."""
import warnings

import torch


def main(device):
    warnings.simplefilter("ignore")
    d = torch.zeros(6, 6, device=device)
    d.fill_diagonal_(2.0)  # OK
    x = torch.randn(6, 4, device=device)
    coo = d.to_sparse()  # SYNC
    coo2 = d.to_sparse_coo()  # SYNC
    csr = d.to_sparse_csr()  # SYNC
    y = torch.sparse.mm(coo, x)  # OK
    y = coo @ x  # OK
    y = csr @ x  # OK
    back = coo.to_dense()  # OK
    back = csr.to_dense()  # OK
    idx, val = coo.indices(), coo.values()  # OK
    crow = csr.crow_indices()  # OK
    nnz = coo._nnz()  # OK
    t = coo.t()  # OK
    s = torch.sparse.sum(coo)  # OK
    two = coo * 2  # OK
    add = coo + coo  # OK
    un = torch.sparse_coo_tensor(idx, val, (6, 6), check_invariants=False)  # OK
    co = un.coalesce()  # SYNC
    eye = torch.sparse_csr_tensor(crow, csr.col_indices(), csr.values(), (6, 6))  # OK
    host = coo.cpu()  # SYNC # COPY
    up = host.to(device)  # SYNC # COPY
    mul = coo2.mul(coo2)  # OK
    emb = torch.nn.Embedding(10, 4, sparse=True, device=device)
    emb(torch.randint(0, 10, (3,), device=device)).sum().backward()  # OK
    opt = torch.optim.SparseAdam(emb.parameters())
    opt.step()  # SYNC
    return y, back, nnz, t, s, two, add, co, eye, up, mul
