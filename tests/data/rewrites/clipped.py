"""A norm that the host compares before it clips."""

import torch


def main(device):
    weights = [torch.ones(4, device=device, requires_grad=True) for _ in range(2)]
    limit = 1.0
    for scale in (0.1, 3.0):
        sum((w * w).sum() * scale for w in weights).backward()
        norm = torch.nn.utils.get_total_norm([w.grad for w in weights])
        if norm > limit:
            torch.nn.utils.clip_grads_with_norm_(weights, limit, norm)
    torch.nn.utils.clip_grad_norm_(weights, 1.0, error_if_nonfinite=True)
    return [w.grad for w in weights]
