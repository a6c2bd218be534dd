"""Loss functions and their arguments on the host."""
import torch
import torch.nn.functional as F


def main(device):
    logits = torch.randn(8, 5, device=device, requires_grad=True)
    y = torch.arange(8, device=device) % 5
    weight = torch.ones(5, device=device)
    a = F.cross_entropy(logits, y)  # OK
    a = F.cross_entropy(logits, y, weight=weight, label_smoothing=0.1)  # SYNC
    a = F.cross_entropy(logits, y, ignore_index=-100, reduction="none")  # OK
    a = F.nll_loss(logits.log_softmax(-1), y)  # OK
    a = F.binary_cross_entropy_with_logits(logits, torch.rand_like(logits), pos_weight=weight)  # OK
    a = F.binary_cross_entropy(logits.sigmoid(), torch.rand_like(logits))  # OK
    a = F.mse_loss(logits, torch.zeros_like(logits))  # OK
    a = F.smooth_l1_loss(logits, torch.zeros_like(logits))  # OK
    a = F.kl_div(logits.log_softmax(-1), torch.rand_like(logits), reduction="batchmean")  # OK
    a = F.cosine_embedding_loss(logits, logits, torch.ones(8, device=device))  # OK
    a = F.triplet_margin_loss(logits, logits + 1, logits - 1)  # OK
    a = F.multi_margin_loss(logits, y)  # OK
    a = F.gaussian_nll_loss(logits, logits, torch.ones_like(logits))  # SYNC
    a = F.poisson_nll_loss(logits, torch.rand_like(logits))  # OK
    a = F.hinge_embedding_loss(logits, torch.ones_like(logits))  # OK
    lp = torch.randn(12, 3, 5, device=device).log_softmax(-1)
    t = torch.randint(1, 5, (3, 4), device=device)
    il, tl = torch.full((3,), 12), torch.full((3,), 4)
    b = F.ctc_loss(lp, t, il, tl)  # SYNC # COPY
    b = F.ctc_loss(lp, t, il.to(device), tl.to(device))  # SYNC # COPY
    b = F.ctc_loss(lp, t, [12] * 3, [4] * 3)  # SYNC # COPY
    b = F.ctc_loss(lp, t.cpu(), il, tl)  # SYNC # COPY
    a.backward()  # OK
    acc = (logits.argmax(-1) == y).sum().item() / len(y)  # SYNC
    m = y != -100  # OK
    ce = F.cross_entropy(logits[m], y[m])  # SYNC
    soft = F.cross_entropy(logits, logits.softmax(-1))  # OK
    k = F.one_hot(y, num_classes=5)  # OK
    k = F.one_hot(y)  # SYNC
    dice = 1 - (2 * (logits * k).sum() + 1) / (logits.sum() + k.sum() + 1)  # OK
    return a, b, acc, ce, soft, k, dice
