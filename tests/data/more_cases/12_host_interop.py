"""numpy, tolist, DLPack, pickle, deepcopy, save and load."""
import copy
import io
import pickle

import numpy as np
import torch


def main(device):
    x = torch.rand(4, 4, device=device)
    a = x.cpu().numpy()  # SYNC # COPY
    a = x.detach().cpu().numpy()  # SYNC # COPY
    a = x.numpy(force=True)  # SYNC
    try:
        a = x.numpy()  # OK
    except TypeError:
        pass
    try:
        a = np.asarray(x)  # OK
    except TypeError:
        pass
    l = x.tolist()  # SYNC
    y = copy.deepcopy(x)  # OK
    y = copy.copy(x)  # OK
    y = x.clone()  # OK
    d = torch.from_dlpack(x)  # OK
    blob = pickle.dumps(x)  # SYNC
    back = pickle.loads(blob)  # SYNC # COPY
    buf = io.BytesIO()
    torch.save({"x": x}, buf)  # SYNC
    buf.seek(0)
    z = torch.load(buf)["x"]  # SYNC # COPY
    buf.seek(0)
    z = torch.load(buf, map_location="cpu")["x"]  # OK
    buf.seek(0)
    z = torch.load(buf, map_location=device)["x"]  # SYNC # COPY
    f = torch.from_numpy(a).to(device)  # SYNC # COPY
    f = torch.as_tensor(a, device=device)  # SYNC # COPY
    f = torch.as_tensor([1.0, 2.0], device=device)  # SYNC # COPY
    f = torch.asarray(a, device=device)  # SYNC # COPY
    f = torch.as_tensor(x)  # OK
    f = torch.as_tensor(x, device=device)  # OK
    f = x.new_tensor([1.0, 2.0])  # SYNC # COPY
    f = torch.scalar_tensor(2.0, device=device)  # OK
    f = torch.tensor(2.0, device=device)  # SYNC # COPY
    f = torch.full((), 2.0, device=device)  # OK
    f = torch.tensor([x[0, 0], x[0, 1]])  # SYNC
    f = torch.tensor([x[0, 0].item(), 2.0], device=device)  # SYNC # COPY
    f = torch.stack([x[0, 0], x[0, 1]])  # OK
    f = torch.tensor(x[0].tolist())  # SYNC
    f = torch.Tensor([1.0, 2.0]).to(device)  # SYNC # COPY
    f = torch.frombuffer(bytearray(16), dtype=torch.float32).to(device)  # SYNC # COPY
    n = np.array([v.item() for v in x[0]])  # SYNC
    sd = {k: v.cpu() for k, v in {"w": x}.items()}  # SYNC # COPY
    return a, l, y, d, back, z, f, n, sd
