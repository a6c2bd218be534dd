"""Fine-tune a tiny GPT-2 with transformers' Trainer; argument: the precision flag, if any."""

import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed

set_seed(0)
config = GPT2Config(
    vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0,
    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)  # fmt: skip
rows = torch.randint(1, 64, (48, 16), generator=torch.Generator().manual_seed(1))
dataset = [{"input_ids": row, "labels": row} for row in rows]
arguments = TrainingArguments(
    output_dir="out", max_steps=8, per_device_train_batch_size=4, logging_steps=4, report_to=[],
    save_strategy="no", disable_tqdm=True, dataloader_num_workers=0,
    fp16="--fp16" in sys.argv,
)  # fmt: skip
trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=dataset)
result = trainer.train()
print(f"device {trainer.model.device.type}")
print(f"final loss {result.training_loss:.6f}")
