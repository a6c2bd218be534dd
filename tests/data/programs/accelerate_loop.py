"""A loop of accelerate: prepare, gradient accumulation, clipping, gather; argument: fp16 or no."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn

set_seed(0)
precision = sys.argv[1] if len(sys.argv) > 1 else "no"
accelerator = Accelerator(mixed_precision=precision, gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
inputs = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
dataset = torch.utils.data.TensorDataset(inputs, inputs.argmax(1) % 4)
loader = torch.utils.data.DataLoader(dataset, batch_size=8)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 4)
model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
for _epoch in range(2):
    for x, y in loader:
        with accelerator.accumulate(model):
            loss = nn.functional.cross_entropy(model(x), y)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
gathered = accelerator.gather_for_metrics(loss.detach())
print(f"device {accelerator.device.type}")
print(f"final loss {gathered.mean().item():.6f}")
