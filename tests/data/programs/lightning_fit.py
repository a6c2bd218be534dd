"""Trainer.fit of lightning, with validation, logging, clipping and a torchmetrics metric."""

import sys
import warnings

import lightning
import torch
from torch import nn
from torchmetrics import Accuracy

warnings.simplefilter("ignore")


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
        self.accuracy = Accuracy(task="multiclass", num_classes=4)

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.accuracy(self.net(x), y)
        self.log("val_accuracy", self.accuracy)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


lightning.seed_everything(0, verbose=False)
inputs = torch.randn(64, 16, generator=torch.Generator().manual_seed(1))
dataset = torch.utils.data.TensorDataset(inputs, inputs.argmax(1) % 4)
model = Classifier()
trainer = lightning.Trainer(
    max_epochs=2, accelerator="auto", devices=1, logger=False, enable_checkpointing=False,
    enable_model_summary=False, enable_progress_bar="--bar" in sys.argv, log_every_n_steps=2,
    gradient_clip_val=1.0, precision="16-mixed" if "--fp16" in sys.argv else "32-true",
)  # fmt: skip
loader = torch.utils.data.DataLoader(dataset, batch_size=8)
trainer.fit(model, loader, torch.utils.data.DataLoader(dataset, batch_size=16))
print(f"device {trainer.strategy.root_device.type}")
print(f"final loss {trainer.callback_metrics['train_loss']:.6f}")
