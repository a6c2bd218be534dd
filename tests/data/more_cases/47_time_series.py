"""Rolling statistics, cumulative operators, sorting networks."""
import torch


def main(device):
    x = torch.randn(64, device=device)
    a = x.unfold(0, 8, 1).mean(-1)  # OK
    a = x.cumsum(0), x.cumprod(0), x.cummax(0), x.logcumsumexp(0)  # OK
    b = x.diff()  # OK
    c = torch.corrcoef(torch.stack([x, x.flip(0)]))  # SYNC
    d = torch.trapezoid(x)  # OK
    e = torch.std_mean(x)  # OK
    f = x.sort().indices[:4]  # OK
    g = torch.combinations(x[:5])  # SYNC
    h = torch.cartesian_prod(x[:3], x[:3])  # OK
    i = torch.meshgrid(x[:3], x[:3], indexing="ij")  # OK
    j = torch.vander(x[:4])  # OK
    k = torch.block_diag(x[:2, None], x[:2, None])  # OK
    l = torch.tril_indices(4, 4, device=device)  # OK
    m = x.view(8, 8)[torch.tril_indices(8, 8, device=device).unbind()]  # OK
    n = torch.renorm(x.view(8, 8), 2, 0, 1.0)  # OK
    o = torch.nanmean(x), x.nansum(), x.nanmedian()  # OK
    p = x.aminmax()  # OK
    q = torch.histogram(x.cpu(), bins=4)  # SYNC # COPY
    r = torch.triu(x.view(8, 8)).sum()  # OK
    s = (x > 0).float().mean()  # OK
    t = torch.dist(x, x)  # OK
    u = torch.einsum("i,i->", x, x)  # OK
    v = torch.tensordot(x.view(8, 8), x.view(8, 8), 1)  # OK
    w = torch.gradient(x)[0]  # OK
    y = x.view(8, 8).tensor_split(3)  # OK
    idx = torch.tensor([2, 5])
    y = x.tensor_split(idx)  # OK
    y = x.tensor_split((2, 5))  # OK
    z = torch.nn.functional.conv1d(x.view(1, 1, -1), torch.ones(1, 1, 3, device=device))  # OK
    aa = torch.masked.mean(x, mask=x > 0)  # SYNC # COPY
    bb = torch.allclose(x, x)  # SYNC
    cc = torch.bitwise_and(x > 0, x < 1).nonzero().squeeze(-1)  # SYNC
    dd = torch.multinomial(x.abs(), 3).sort().values.cpu()  # SYNC # COPY
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, y, z, aa, bb, cc, dd
