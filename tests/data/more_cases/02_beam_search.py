"""Beam search: topk over beams, reordering, host bookkeeping of finished beams."""
import torch


def main(device):
    beams, vocab = 3, 20
    scores = torch.zeros(beams, device=device)
    seqs = torch.zeros(beams, 1, dtype=torch.long, device=device)
    finished = []
    for step in range(3):
        logp = torch.randn(beams, vocab, device=device).log_softmax(-1)  # OK
        total = (scores[:, None] + logp).view(-1)  # OK
        scores, flat = total.topk(beams)  # OK
        beam = torch.div(flat, vocab, rounding_mode="floor")  # OK
        token = flat % vocab  # OK
        seqs = torch.cat([seqs[beam], token[:, None]], dim=1)  # OK
        for i, t in enumerate(token):  # OK
            if t >= 0:  # SYNC
                finished.append((scores[i].item(), seqs[i].clone()))  # SYNC
        best = max(scores.tolist())  # SYNC
        if scores[0] - scores[-1] > 1e9:  # SYNC
            break
    order = sorted(scores, reverse=True)  # SYNC
    top = max(scores)  # SYNC
    idx = beam.tolist()  # SYNC
    again = seqs[idx]  # SYNC # COPY
    hyp = seqs[scores.argmax()]  # SYNC
    hyp = seqs[scores.argmax().view(1)]  # OK
    return best, order, top, again, hyp
