"""Update and compute metrics of torchmetrics on the GPU."""

import torch
from torchmetrics import MeanMetric, MeanSquaredError, MetricCollection
from torchmetrics.classification import (
    BinaryAUROC,
    MulticlassAccuracy,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)

device = "cuda" if torch.cuda.is_available() else "cpu"
generator = torch.Generator().manual_seed(0)
metrics = MetricCollection(
    [MulticlassAccuracy(4), MulticlassF1Score(4), MulticlassConfusionMatrix(4)]
).to(device)
unchecked = MulticlassAccuracy(4, validate_args=False).to(device)
auroc = BinaryAUROC().to(device)
error = MeanSquaredError().to(device)
mean = MeanMetric().to(device)
for _step in range(4):
    scores = torch.randn(16, 4, generator=generator).to(device)
    target = torch.randint(4, (16,), generator=generator).to(device)
    metrics.update(scores.argmax(-1), target)
    unchecked.update(scores, target)
    auroc.update(scores[:, 0].sigmoid(), target > 1)
    error.update(scores[:, 0], scores[:, 1])
    mean.update(scores.mean())
results = metrics.compute()
values = [results["MulticlassAccuracy"], results["MulticlassF1Score"], auroc.compute()]
values += [unchecked.compute(), error.compute(), mean.compute()]
print(f"device {values[0].device.type}")
print("final", [round(float(value), 5) for value in values])
