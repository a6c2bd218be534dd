"""Formatting, printing, logging."""
import io
import logging
from pprint import pformat

import torch


def main(device):
    x = torch.rand(3, device=device)
    s = x.sum()
    out = io.StringIO()
    print(x, file=out)  # SYNC
    print(x.shape, x.dtype, x.device, file=out)  # OK
    a = f"{s}"  # SYNC
    a = f"{s:.3f}"  # SYNC
    a = "%.3f" % s  # SYNC
    a = "{}".format(s)  # SYNC
    a = "{:.2f}".format(s)  # SYNC
    a = str(x)  # SYNC
    a = repr(x)  # SYNC
    a = f"{x!r}"  # SYNC
    a = f"{x.shape[0]} {x.ndim} {tuple(x.size())}"  # OK
    a = "%s" % (x,)  # SYNC
    a = "%d" % s  # SYNC
    a = pformat({"loss": s})  # SYNC
    log = logging.getLogger("k")
    log.addHandler(logging.StreamHandler(out))
    log.setLevel(logging.INFO)
    log.propagate = False
    log.info("loss %s", s)  # SYNC
    log.debug("loss %s", s)  # OK
    log.info("shape %s", tuple(x.shape))  # OK
    log.handlers.clear()
    empty = repr(torch.empty(0, device=device))  # OK
    layer = repr(torch.nn.Linear(2, 2, device=device))  # OK
    param = str(torch.nn.Parameter(x))  # SYNC
    err = ValueError(x)  # OK
    msg = str({"a": [s]})  # SYNC
    return a, empty, layer, param, err, msg
