"""A tiny GPT-2, saved, and loaded onto the device in the ways that name it by a number."""

import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

set_seed(0)
device = torch.device(0) if torch.cuda.is_available() else torch.device("cpu")
where = device.index if device.type == "cuda" else "cpu"
config = GPT2Config(
    vocab_size=64, n_positions=64, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=63,
    pad_token_id=63,
)  # fmt: skip
with tempfile.TemporaryDirectory() as folder:
    GPT2LMHeadModel(config).save_pretrained(folder)
    models = [
        GPT2LMHeadModel.from_pretrained(folder, device_map=device_map).eval()
        for device_map in ("auto", where, {"": where})
    ]
tokens = torch.arange(1, 9, device=where).view(2, 4)
with torch.inference_mode():
    logits = [model(tokens).logits for model in models]
print(f"device {logits[0].device.type} {models[-1].device}")
print("final", [round(float(one.sum()), 4) for one in logits])
