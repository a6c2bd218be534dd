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
        "generate() asks after every token whether all rows have ended. Ask for a fixed number of "
        "tokens (min_new_tokens equal to max_new_tokens) where you can, and generate larger "
        "batches, so that one wait serves more rows.",
    ),
    (
        "transformers/modeling_attn_mask_utils.py",
        "The model looks whether the attention mask hides anything. Leave attention_mask out when "
        "no row is padded.",
    ),
    (
        "transformers/masking_utils.py",
        "The model looks whether the attention mask hides anything. Leave attention_mask out when "
        "no row is padded.",
    ),
    (
        "accelerate/",
        "Accelerate moves batches and gathers results. Pass pin_memory=True to your DataLoader and "
        "DataLoaderConfiguration(non_blocking=True) to Accelerator, and call gather() or "
        "gather_for_metrics() only when you log.",
    ),
    (
        "lightning/pytorch/callbacks/progress",
        "The progress bar shows values of the device and reads them. Pass prog_bar=False to "
        "self.log(), or give TQDMProgressBar a larger refresh_rate.",
    ),
    (
        "lightning/pytorch/trainer/connectors/logger_connector/",
        "Lightning reads the values that you log. Log them every N steps (log_every_n_steps of "
        "Trainer), keep prog_bar off, and give self.log() tensors, not numbers.",
    ),
    (
        "lightning/",
        "Lightning moves the batch or reads a value. Pass pin_memory=True to your DataLoader (the "
        "upload then does not wait), and raise log_every_n_steps of Trainer.",
    ),
    (
        "torchmetrics/",
        "The metric checks its inputs by value, or moves its state. Pass validate_args=False to "
        "it, leave compute_on_cpu off, and call compute() once per epoch, not in every step.",
    ),
    (
        "diffusers/schedulers/",
        "The scheduler looks its timestep up on the device. Call scheduler.set_begin_index(0) "
        "before the loop, so that it counts steps on the host, and iterate over "
        "scheduler.timesteps.tolist() if it only needs numbers.",
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
        "The scheduler reads a learning rate or a metric that is a tensor. Give it Python numbers.",
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
        "torch/utils/data/",
        "The loader hands over tensors of the device. Let workers return CPU tensors, and upload "
        "the pinned batch in your loop.",
    ),
    (
        "torch/distributed/",
        "The collective exchanges sizes through the host. Use one that takes tensors of a known "
        "size (all_gather_into_tensor, all_to_all_single with the splits).",
    ),
)
"""The first entry whose file is in the stack counts; longer names stand before shorter ones."""


def _is_in_library(finding: Finding) -> bool:
    return finding.owner != "user" and finding.place.frame.owner == "user"


def _text(finding: Finding) -> str:
    files = [frame.file for frame in finding.place.inner]
    for start, text in _BY_FILE:
        if any(file.startswith(start) for file in files):
            return text
    line = finding.place.library_line or finding.place.frame.file
    whose = "PyTorch" if finding.owner == "torch" else line.partition("/")[0]
    return (
        f"Your line calls {whose}, which waits at {line}. Look for an argument that gives it what "
        "it reads there, hand it tensors that are on the device already, or call it less often."
    )


RULES = (
    Rule(
        "library_readback",
        _is_in_library,
        "Keep the library from reading the device",
        _text,
        with_library_argument,
    ),
)
