"""Comparisons that return Python values."""
import torch


def main(device):
    a = torch.rand(16, device=device)
    b = a.clone()
    e = torch.equal(a, b)  # SYNC
    e = a.equal(b)  # SYNC
    e = torch.allclose(a, b)  # SYNC
    e = a.allclose(b, atol=1e-3)  # SYNC
    e = torch.isclose(a, b)  # OK
    e = torch.eq(a, b)  # OK
    e = torch.isclose(a, b).all().item()  # SYNC
    e = torch.is_nonzero(a[0])  # SYNC
    e = a[0].is_nonzero()  # SYNC
    e = torch.equal(a, a[:8])  # OK
    e = torch.equal(a, a)  # OK
    e = a.is_contiguous() and a.is_floating_point()  # OK
    e = a.shape == b.shape  # OK
    torch.testing.assert_close(a, b)  # SYNC
    if torch.isnan(a).any():  # SYNC
        raise ValueError("nan")
    if not torch.isfinite(a).all():  # SYNC
        raise ValueError("inf")
    if a.isnan().any().item() or a.isinf().sum() > 0:  # SYNC
        raise ValueError("nan")
    bad = ~torch.isfinite(a)  # OK
    a = torch.nan_to_num(a)  # OK
    a = torch.where(bad, 0.0, a)  # OK
    s = a.sum()  # OK
    skip = s != s  # OK
    if skip:  # SYNC
        return None
    if a.numel() and a.dim():  # OK
        s = s + 1
    if s > 1 and s < 100: s = s * 2  # SYNC
    torch._check(True)  # OK
    return e, bad, s
