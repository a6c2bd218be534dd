"""Train LoRA adapters of peft on a tiny GPT-2, merge them and save."""

import warnings

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPT2Config, GPT2LMHeadModel, set_seed

warnings.simplefilter("ignore")
set_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
config = GPT2Config(
    vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip
lora = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True)
model = get_peft_model(GPT2LMHeadModel(config), lora).to(device)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
tokens = torch.randint(1, 64, (6, 4, 16), generator=torch.Generator().manual_seed(1))
for batch in tokens:
    ids = batch.to(device)
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
model.save_pretrained("adapter")
merged = model.merge_and_unload(safe_merge=True)
print(f"device {merged.device.type}")
print(f"final loss {loss.item():.6f}")
