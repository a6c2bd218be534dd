"""Masks in attention: key padding, causal, bool and float."""
import warnings

import torch
import torch.nn.functional as F
from torch import nn


def main(device):
    warnings.simplefilter("ignore")
    x = torch.randn(2, 6, 16, device=device)
    pad = torch.zeros(2, 6, dtype=torch.bool, device=device)
    pad[0, 4:] = True  # OK
    causal = torch.triu(torch.ones(6, 6, dtype=torch.bool, device=device), 1)  # OK
    mha = nn.MultiheadAttention(16, 4, batch_first=True).to(device)
    y, w = mha(x, x, x)  # OK
    y, w = mha(x, x, x, key_padding_mask=pad)  # OK
    y, w = mha(x, x, x, attn_mask=causal, need_weights=False)  # OK
    y, w = mha(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)  # OK
    q = torch.randn(2, 4, 6, 4, device=device)
    z = F.scaled_dot_product_attention(q, q, q, is_causal=True)  # OK
    z = F.scaled_dot_product_attention(q, q, q, attn_mask=~causal)  # OK
    z = F.scaled_dot_product_attention(q, q, q, attn_mask=~pad[:, None, None])  # OK
    enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 32, batch_first=True), 2).to(device)
    a = enc(x)  # OK
    a = enc(x, src_key_padding_mask=pad)  # OK
    enc.eval()
    with torch.no_grad():
        a = enc(x)  # OK
        a = enc(x, src_key_padding_mask=pad)  # SYNC # COPY
    dec = nn.TransformerDecoder(nn.TransformerDecoderLayer(16, 4, 32, batch_first=True), 1).to(device)
    b = dec(x, x)  # OK
    b = dec(x, x, tgt_mask=causal)  # SYNC
    b = dec(x, x, tgt_mask=causal, tgt_is_causal=True)  # OK
    if pad.any():  # SYNC
        x = x.masked_fill(pad[..., None], 0)  # OK
    lens = (~pad).sum(1)  # OK
    short = x[:, : lens.max().item()]  # SYNC
    bias = torch.zeros(2, 1, 6, 6, device=device).masked_fill(causal, float("-inf"))  # OK
    bias = torch.finfo(x.dtype).min * (1 - pad.float())  # OK
    alibi = torch.tensor([2.0 ** -i for i in range(4)], device=device)  # SYNC # COPY
    rope = torch.outer(torch.arange(6, device=device), 1.0 / 10 ** torch.arange(2, device=device))  # OK
    return y, w, z, a, b, short, bias, alibi, rope
