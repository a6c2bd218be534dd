"""Greedy decoding with a KV cache: positions, stop checks, cache slices."""
import torch
import torch.nn.functional as F


def main(device):
    vocab, dim, heads, steps = 64, 32, 4, 4
    emb = torch.randn(vocab, dim, device=device)
    wq, wk, wv = (torch.randn(dim, dim, device=device) for _ in range(3))
    cache_k = torch.zeros(2, heads, 16, dim // heads, device=device)
    cache_v = torch.zeros_like(cache_k)
    ids = torch.randint(1, vocab, (2, 1), device=device)
    pos = torch.zeros(1, dtype=torch.long, device=device)
    done = torch.zeros(2, dtype=torch.bool, device=device)
    lengths = torch.zeros(2, dtype=torch.long, device=device)
    for step in range(steps):
        x = emb[ids[:, -1:]]  # OK
        q, k, v = (x @ w for w in (wq, wk, wv))  # OK
        k, v, q = (t.view(2, 1, heads, -1).transpose(1, 2) for t in (k, v, q))  # OK
        cache_k[:, :, step : step + 1] = k  # OK
        cache_v.index_copy_(2, pos, v)  # OK
        mask = torch.arange(16, device=device) <= pos  # OK
        y = F.scaled_dot_product_attention(q, cache_k, cache_v, attn_mask=mask.view(1, 1, 1, 16))  # OK
        logits = y.transpose(1, 2).reshape(2, -1) @ emb.T  # OK
        nxt = logits.argmax(-1, keepdim=True)  # OK
        ids = torch.cat([ids, nxt], 1)  # OK
        done |= nxt[:, 0] == 0  # OK
        done |= nxt[:, 0] < 0  # OK
        pos += 1  # OK
        if done.all():  # SYNC
            break
        live = cache_k[:, :, : pos[0]]  # SYNC
        if ids[0, -1] < 0:  # SYNC
            done[0] = True
    text = " ".join(str(i) for i in ids[0].tolist())  # SYNC
    return text, live.shape, lengths.max().item()  # SYNC
