"""Packed sequences and recurrent networks."""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence, unpad_sequence


def main(device):
    seqs = [torch.randn(n, 8, device=device) for n in (5, 3, 2)]
    lens = torch.full((3,), 5, dtype=torch.long, device=device)
    lens_host = torch.tensor([5, 3, 2])
    padded = pad_sequence(seqs, batch_first=True)  # OK
    packed = pack_padded_sequence(padded, lens_host, batch_first=True)  # OK
    packed = pack_padded_sequence(padded, lens_host, batch_first=True, enforce_sorted=False)  # SYNC # COPY
    packed2 = pack_sequence(seqs)  # OK
    try:
        pack_padded_sequence(padded, lens, batch_first=True)  # OK
    except RuntimeError:
        pass
    lstm = nn.LSTM(8, 16, batch_first=True).to(device)
    gru = nn.GRU(8, 16, bidirectional=True, batch_first=True).to(device)
    rnn = nn.RNN(8, 16, batch_first=True).to(device)
    out, (h, c) = lstm(packed2)  # OK
    out, (h, c) = lstm(packed)  # OK
    out, h2 = gru(packed2)  # OK
    y, n = pad_packed_sequence(out, batch_first=True)  # OK
    y2, _ = lstm(padded)  # OK
    y3, _ = rnn(padded)  # OK
    y2.sum().backward()  # OK
    out.data.sum().backward()  # OK
    cell = nn.LSTMCell(8, 16).to(device)
    hx = cell(padded[:, 0])  # OK
    parts = unpad_sequence(padded, lens_host, batch_first=True)  # OK
    mask = torch.arange(5, device=device)[None] < lens[:, None]  # OK
    last = y2[torch.arange(3, device=device), lens - 1]  # OK
    last = y2[range(3), lens - 1]  # SYNC # COPY
    longest = padded[:, : lens.max()]  # SYNC
    return y, n, h2, y3, hx, parts, mask, last, longest
