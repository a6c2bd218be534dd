"""Advice for waits inside a library, by the file of the library's line."""

from __future__ import annotations

from syncscope.analysis.advice.rule import Rule
from syncscope.analysis.findings import Finding
from syncscope.analysis.rewrites.calls import with_library_argument

_BY_FILE: tuple[tuple[str, str], ...] = (
    (
        "transformers/trainer.py",
        "Trainer looks at the loss in every step to leave NaN and inf out of its log. Pass "
        "logging_nan_inf_filter=False to TrainingArguments; it reads the loss anyway every "
        "logging_steps, so raise that as well.",
    ),
    (
        "transformers/generation/",
        "generate() asks after every token whether all rows have ended; no argument switches that "
        "off. Generate larger batches, so that one wait serves more rows.",
    ),
    (
        "transformers/masking_utils.py",
        "The model looks whether the attention mask hides anything. Leave attention_mask out when "
        "no row is padded.",
    ),
    (
        "transformers/modeling_attn_mask_utils.py",
        "The model looks whether the attention mask hides anything. Leave attention_mask out when "
        "no row is padded.",
    ),
    (
        "accelerate/",
        "Accelerate collects results on the host. Call gather() and gather_for_metrics() only when "
        "you log or evaluate, and evaluate less often.",
    ),
    (
        "lightning/",
        "Lightning reads the values that you log. Log them every N steps (log_every_n_steps of "
        "Trainer), keep prog_bar off or give the progress bar a larger refresh_rate, and give "
        "self.log() tensors of the device, not numbers.",
    ),
    (
        "torchmetrics/aggregation.py",
        "The metric looks for NaN in each update. Pass nan_strategy='disable' if there is none.",
    ),
    (
        "torchmetrics/",
        "The metric looks at values of its input. Pass validate_args=False to it, leave "
        "compute_on_cpu off, update it with several batches at once, and call compute() once per "
        "epoch, not in every step.",
    ),
    (
        "diffusers/schedulers/scheduling_dd",
        "The scheduler looks the timestep up in a table on the CPU. Iterate over "
        "scheduler.timesteps.tolist(): step() takes the numbers without asking the device.",
    ),
    (
        "diffusers/schedulers/",
        "The scheduler searches its timestep on the device. Call scheduler.set_begin_index(0) "
        "before the loop: it then counts the steps on the host.",
    ),
    (
        "tqdm/",
        "The progress bar formats a value of the device. Give it a number that you read every N "
        "steps, not the tensor.",
    ),
    (
        "wandb/",
        "The logger reads what you give it. Log every N steps, and hand it numbers that you read "
        "with one .tolist().",
    ),
    (
        "torch/utils/tensorboard/",
        "The writer reads what you give it. Write every N steps, several values together.",
    ),
    (
        "torch/autograd/",
        "Something waits while gradients are computed, on a thread of autograd that has no Python "
        "line. The backward pass of x[mask], of data-dependent sizes and of uploads waits again: "
        "look for these in the forward pass that leads here.",
    ),
    (
        "torch/nn/utils/clip_grad.py",
        "clip_grad_norm_ reads the norm because of error_if_nonfinite=True. Leave that off: a "
        "gradient that is not finite then raises no error here. Check the norm every N steps.",
    ),
    (
        "torch/amp/grad_scaler.py",
        "GradScaler reads its scale, or whether a gradient overflowed. Build the optimizer with "
        "fused=True: it looks at that on the device. Do not compare get_scale() before and after "
        "a step. With bfloat16 you need no GradScaler.",
    ),
    (
        "torch/optim/lr_scheduler.py",
        "The scheduler reads a learning rate or a metric that is a tensor. Make learning rates "
        "Python numbers, and give it a metric that you have read anyway, once per epoch.",
    ),
    (
        "torch/optim/lbfgs.py",
        "LBFGS looks at the loss and the gradient several times in a step, to search along a line "
        "and to know when to stop. No argument switches that off: lower max_iter, or use another "
        "optimizer.",
    ),
    (
        "torch/optim/swa_utils.py",
        "The averaged model keeps on the device how often it was updated, and the host looks at "
        "that in each update. Update it every N steps.",
    ),
    (
        "torch/optim/",
        "The optimizer reads its step count from the device, once per parameter, because that was "
        "moved there. Leave state['step'] on the CPU when you restore a state (load_state_dict() "
        "does), or build the optimizer with fused=True or capturable=True.",
    ),
    (
        "torch/nn/modules/transformer.py",
        "The encoder compares your mask with the causal one to see whether it is that. Tell it: "
        "pass is_causal=True or is_causal=False.",
    ),
    (
        "torch/nn/modules/activation.py",
        "The layer inspects its mask. Pass is_causal, and need_weights=False if you do not use the "
        "weights.",
    ),
    (
        "torch/nn/utils/rnn.py",
        "The lengths are needed on the host, and the order of the rows goes back to the device. "
        "Keep lengths on the CPU, sort the batch by length in the collate function, and leave "
        "enforce_sorted at True.",
    ),
    (
        "torch/distributed/",
        "The collective exchanges sizes through the host. Use one that takes tensors of a known "
        "size (all_gather_into_tensor, all_to_all_single with the splits).",
    ),
)
"""The first entry that the file of the library's line starts with counts."""

_UPLOADS_BY_FILE: tuple[tuple[str, str], ...] = (
    (
        "accelerate/",
        "Accelerate uploads the batch and waits. Pass pin_memory=True to your DataLoader and "
        "DataLoaderConfiguration(non_blocking=True) to Accelerator; for transformers' Trainer that "
        "is accelerator_config={'non_blocking': True} in TrainingArguments.",
    ),
    (
        "lightning/",
        "Lightning uploads the batch. Pass pin_memory=True to your DataLoader: it then does not "
        "wait. Numbers given to self.log() are uploaded as well: give it tensors of the device.",
    ),
    (
        "torchmetrics/",
        "The state of the metric is uploaded. Move the metric once, before the loop, or make it a "
        "child of your module, which moves it along.",
    ),
    (
        "diffusers/schedulers/",
        "The scheduler keeps its tables on the CPU and uploads them. Call set_timesteps() once, "
        "not in the loop.",
    ),
    (
        "torch/nn/utils/rnn.py",
        "The order of the rows goes to the device. Sort the batch by length in the collate "
        "function, keep the lengths on the CPU, and leave enforce_sorted at True.",
    ),
)


def _is_in_library(finding: Finding) -> bool:
    return finding.owner != "user" and finding.place.frame.owner == "user"


def _text(finding: Finding) -> str:
    line = finding.place.library_line or finding.place.frame.file
    for start, text in _UPLOADS_BY_FILE if finding.is_upload else _BY_FILE:
        if line.startswith(start):
            return text
    whose = "PyTorch" if finding.owner == "torch" else line.partition("/")[0]
    if finding.is_upload:
        return (
            f"Your line calls {whose}, which uploads data and waits at {line}. Hand it tensors "
            "that are on the device already, or pinned, or call it less often."
        )
    return (
        f"Your line calls {whose}, which waits at {line}. Look for an argument that gives it what "
        "it reads there, or call it less often."
    )


RULES = (
    Rule(
        "library_readback",
        lambda finding: _is_in_library(finding) and finding.is_upload,
        "Keep the library from uploading",
        _text,
    ),
    Rule(
        "library_readback",
        _is_in_library,
        "Keep the library from reading the device",
        _text,
        with_library_argument,
    ),
)
