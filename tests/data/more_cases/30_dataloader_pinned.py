"""DataLoader with pinned memory, and without."""
import torch
from torch.utils.data import DataLoader, TensorDataset


def main(device):
    data = TensorDataset(torch.randn(32, 8), torch.randint(0, 2, (32,)))
    model = torch.nn.Linear(8, 2).to(device)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in DataLoader(data, batch_size=8, pin_memory=True):
        x = x.to(device, non_blocking=True)  # OK
        y = y.to(device, non_blocking=True)  # OK
        loss = torch.nn.functional.cross_entropy(model(x), y)  # OK
        opt.zero_grad()  # OK
        loss.backward()  # OK
        opt.step()  # OK
    for x, y in DataLoader(data, batch_size=8, pin_memory=True):
        x, y = x.to(device), y.cuda()  # SYNC # COPY
        model(x)  # OK
    for x, y in DataLoader(data, batch_size=8):
        x = x.to(device, non_blocking=True)  # COPY
        y = y.to(device)  # SYNC # COPY
        model(x)  # OK
    for batch in DataLoader(data, batch_size=16):
        x, y = [t.to(device) for t in batch]  # SYNC # COPY
        x, y = (t.pin_memory().to(device, non_blocking=True) for t in batch)  # OK
    val = 0.0
    correct = torch.zeros((), device=device)
    with torch.no_grad():
        for x, y in DataLoader(data, batch_size=16, pin_memory=True):
            out = model(x.to(device, non_blocking=True))  # OK
            correct += (out.argmax(1) == y.to(device, non_blocking=True)).sum()  # OK
            val += out.sum().item()  # SYNC
    return val, correct.item()  # SYNC
