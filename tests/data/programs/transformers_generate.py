"""Greedy and sampled generation with a tiny GPT-2."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

set_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = GPT2Config(
    vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=63,
    pad_token_id=63,
)  # fmt: skip
model = GPT2LMHeadModel(config).to(device).eval()
prompt = torch.randint(1, 62, (2, 5), generator=torch.Generator().manual_seed(1)).to(device)
mask = torch.ones_like(prompt)
greedy = model.generate(prompt, attention_mask=mask, max_new_tokens=12, do_sample=False)
sampled = model.generate(
    prompt, attention_mask=mask, max_new_tokens=12, do_sample=True, top_k=8, top_p=0.9,
    temperature=0.7,
)  # fmt: skip
print(f"device {greedy.device.type} {sampled.shape[0]}")
print("final", greedy.tolist())
