"""Tensors in if, while, assert, and in Python's builtins."""
import math

import torch


def main(device):
    v = torch.rand(4, device=device) + 1
    n = torch.full((), 3, dtype=torch.long, device=device)
    for _ in range(n):  # SYNC
        pass
    k = 0
    while v.sum() < 100 and k < 3:  # SYNC
        v = v * 10  # OK
        k += 1
    assert v.min() > 0  # SYNC
    length = len(v)  # OK
    total = sum(v)  # OK
    big = max(v[0], v[1])  # SYNC
    r = round(float(v[0]), 2)  # SYNC
    root = math.sqrt(v[0])  # SYNC
    lst = list(v)  # OK
    a, b, *rest = v  # OK
    pairs = dict(zip("ab", v))  # OK
    flag = bool(v[0] > 1) and bool(v[1] > 1)  # SYNC
    inv = not v[0]  # SYNC
    c = complex(v[0])  # SYNC
    i = int(n)  # SYNC
    j = [0, 1, 2, 3, 4][n]  # SYNC
    s = "x" * n  # SYNC
    t = v[0] if n > 2 else v[1]  # SYNC
    low = min(v)  # SYNC
    yes = all(v > 0)  # SYNC
    no = any(v < 0)  # SYNC
    same = v is v  # OK
    h = hash(v)  # OK
    e = v == v  # OK
    p = pow(v, 2)  # OK
    ab = abs(v)  # OK
    d = v // 2, v % 2  # OK
    f = math.isnan(v[0])  # SYNC
    o = n.__index__()  # SYNC
    comp = [x.item() for x in v]  # SYNC
    gen = sum(float(x) for x in v)  # SYNC
    found = next((q for q in v if q > 5), None)  # SYNC
    key = max(range(3), key=lambda q: v[q].item())  # SYNC
    filt = list(filter(lambda q: q > 1, v))  # SYNC
    return length, total, big, r, root, lst, a, b, rest, pairs, flag, inv, c, i, j, s, t, low, yes, no, same, h, e, p, ab, d, f, o, comp, gen, found, key, filt
