"""Fine-tune and evaluate a tiny BERT classifier with transformers' Trainer."""

import torch
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

set_seed(0)
config = BertConfig(
    vocab_size=64, hidden_size=32, num_hidden_layers=2, num_attention_heads=2,
    intermediate_size=64, max_position_embeddings=16, num_labels=2,
    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
rows = torch.randint(1, 64, (32, 12), generator=torch.Generator().manual_seed(1))
dataset = [
    {"input_ids": row, "attention_mask": torch.ones_like(row), "labels": row[0] % 2} for row in rows
]


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


arguments = TrainingArguments(
    output_dir="out", num_train_epochs=2, per_device_train_batch_size=8,
    per_device_eval_batch_size=16, logging_steps=2, eval_strategy="epoch", save_strategy="no",
    report_to=[], disable_tqdm=True,
)  # fmt: skip
trainer = Trainer(
    BertForSequenceClassification(config), arguments,
    train_dataset=dataset, eval_dataset=dataset[:16], compute_metrics=accuracy,
)  # fmt: skip
result = trainer.train()
metrics = trainer.evaluate()
print(f"device {trainer.model.device.type}")
print(f"final loss {result.training_loss:.6f} accuracy {metrics['eval_accuracy']:.4f}")
