"""CUDA graphs: capture, replay, and what breaks capture."""
import torch


def main(device):
    x = torch.zeros(16, device=device)
    lin = torch.nn.Linear(16, 16).to(device)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())  # OK
    with torch.cuda.stream(side):
        for _ in range(2):
            lin(x)  # OK
    torch.cuda.current_stream().wait_stream(side)  # OK
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):  # SYNC
        y = lin(x).relu()  # OK
    for i in range(3):
        x.copy_(torch.full((16,), float(i), device=device))  # OK
        g.replay()  # OK
        s = y.sum()  # OK
    v = s.item()  # SYNC
    cap = torch.cuda.make_graphed_callables(torch.nn.Linear(16, 16).to(device), (x,))  # SYNC
    z = cap(x)  # OK
    is_cap = torch.cuda.is_current_stream_capturing()  # OK
    errors = []
    bad = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(bad):  # SYNC
            x.sum().item()  # OK
    except RuntimeError as error:
        errors.append(type(error).__name__)
    return v, z, is_cap, errors
