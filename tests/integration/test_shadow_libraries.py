"""Programs of real libraries, unmodified, on the shadow GPU: they run, and their waits are found.

The programs in tests/data/programs use "cuda" where torch has one, so a plain run is the CPU's.
What each one must find was read in the library's source; versions are those in the comments.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from syncscope.recording.reader import Recording

Run = Callable[..., subprocess.CompletedProcess[str]]
# file, function and kind of the innermost line outside torch
Site = tuple[str, str, str]

PROGRAMS = Path(__file__).parents[1] / "data" / "programs"
# no model hub; and threads of OpenMP that do not spin while the other run of two has the core
ENVIRONMENT = {"HF_HUB_OFFLINE": "1", "GOMP_SPINCOUNT": "0", "OMP_NUM_THREADS": "2"}
GENERATION = "transformers/generation/utils.py"
TRAINER = "transformers/trainer.py"
DDIM = "diffusers/schedulers/scheduling_ddim.py"
EULER = "diffusers/schedulers/scheduling_euler_discrete.py"
CLASSIFICATION = "torchmetrics/functional/classification"


@dataclass(frozen=True)
class Program:
    """A program, the libraries that it needs, and how often each site is found."""

    name: str
    libraries: tuple[str, ...]
    sites: dict[Site, int]
    arguments: tuple[str, ...] = ()
    # modules that must not wait at all
    silent: tuple[str, ...] = ()
    # half precision rounds otherwise than the CPU's float32
    tolerance: float = 0.0

    def __str__(self) -> str:
        return " ".join((self.name, *self.arguments))


# transformers 5.24, accelerate 1.15: eight steps
TRAINER_STEPS: dict[Site, int] = {
    # _run_epoch: `logging_nan_inf_filter and (isnan(tr_loss_step) or isinf(tr_loss_step))`, the
    # default, is two truth values of GPU tensors in every step
    (TRAINER, "Trainer._run_epoch", "sync"): 16,
    # _finalize_training: `self._tr_loss.item()`
    (TRAINER, "Trainer._finalize_training", "sync"): 1,
    # the loss so far is made with torch.tensor(0.0, device=...), an upload
    (TRAINER, "Trainer._inner_training_loop", "h2d"): 1,
}
GPT2_STEPS: dict[Site, int] = TRAINER_STEPS | {
    # _maybe_log_save_evaluate: the loss and the norm of the gradients, .item() each, two logs
    (TRAINER, "Trainer._maybe_log_save_evaluate", "sync"): 4,
    # masking_utils.find_packed_sequence_indices: `(mask[:, -1] == 0).all()` in an `if`, once a
    # forward pass without attention mask and cache
    ("transformers/masking_utils.py", "find_packed_sequence_indices", "sync"): 8,
    # send_to_device: input_ids and labels; pinned (dataloader_pin_memory), but blocking, as
    # non_blocking is False by default
    ("accelerate/utils/operations.py", "send_to_device", "h2d"): 16,
}

PROGRAM_LIST = (
    Program(
        "transformers_trainer_gpt2",
        ("transformers", "accelerate"),
        GPT2_STEPS,
        # clip_grad_norm_ is called in every step and does not wait: error_if_nonfinite is False
        silent=("accelerate/accelerator.py", "accelerate/optimizer.py"),
    ),
    Program(
        "transformers_trainer_gpt2",
        ("transformers", "accelerate"),
        GPT2_STEPS,
        ("--fp16",),
        # GradScaler.step reads found_inf unless the optimizer takes it: the Trainer's default is
        # fused AdamW, which does (_step_supports_amp_scaling)
        silent=("accelerate/accelerator.py", "accelerate/optimizer.py"),
        tolerance=1e-3,
    ),
    Program(
        "transformers_trainer_bert",
        ("transformers", "accelerate"),
        TRAINER_STEPS
        | {
            # four logs of loss and norm
            (TRAINER, "Trainer._maybe_log_save_evaluate", "sync"): 8,
            # masking_utils._ignore_bidirectional_mask_sdpa: `padding_mask.all()`, 8 training
            # steps and one batch in each of 3 evaluations
            ("transformers/masking_utils.py", "_ignore_bidirectional_mask_sdpa", "sync"): 11,
            # pad_across_processes, also with one process: shape uploaded, gathered, read back
            (
                "accelerate/utils/operations.py",
                "pad_across_processes.<locals>._pad_across_processes",
                "h2d",
            ): 3,
            (
                "accelerate/utils/operations.py",
                "pad_across_processes.<locals>._pad_across_processes",
                "d2h",
            ): 3,
            # nested_numpify: loss, logits and labels of 3 evaluations
            ("transformers/trainer_pt_utils.py", "nested_numpify", "d2h"): 9,
            # 3 tensors of 8 + 3 batches
            ("accelerate/utils/operations.py", "send_to_device", "h2d"): 33,
        },
    ),
    Program(
        "transformers_generate",
        ("transformers",),
        {
            # StopCheck: `bool(unfinished_sequences.max() == 0)` for each of 12 tokens, twice
            (GENERATION, "StopCheck.__call__", "sync"): 24,
            # generate: `torch.any(attention_mask[:, -1] == 0).item()` (right padding?), and
            # `(attention_mask == 1).all()` to drop a mask of ones
            (GENERATION, "GenerationMixin.generate", "sync"): 4,
            # pad, eos and bos become tensors; `isin(eos, pad).any()` and `(eos < 0).any()`
            (
                GENERATION,
                "GenerationMixin._prepare_special_tokens.<locals>._tensor_or_none",
                "h2d",
            ): 6,
            (GENERATION, "GenerationMixin._prepare_special_tokens", "sync"): 4,
            # _get_logits_processor: `(encoder_input_ids < 0).any()`
            (GENERATION, "GenerationMixin._get_logits_processor", "sync"): 2,
            # warn_if_padding_and_no_attention_mask in each forward pass, as generate dropped the
            # mask: `pad_token_id in input_ids[:, [-1, 0]]` uploads the list and reads the answer
            (
                "transformers/modeling_utils.py",
                "PreTrainedModel.warn_if_padding_and_no_attention_mask",
                "h2d",
            ): 24,
            (
                "transformers/modeling_utils.py",
                "PreTrainedModel.warn_if_padding_and_no_attention_mask",
                "sync",
            ): 24,
        },
        # top-k, top-p and temperature are computed on the GPU
        silent=("transformers/generation/logits_process.py",),
    ),
    Program(
        "transformers_device_map",
        ("transformers", "accelerate"),
        {
            # 28 weights, loaded three times
            ("transformers/core_model_loading.py", "_materialize_copy", "h2d"): 84,
            # "auto" asks how much memory there is, after `torch.tensor([0], device=0)`
            ("accelerate/utils/modeling.py", "get_max_memory", "h2d"): 1,
        },
    ),
    Program(
        "accelerate_loop",
        ("accelerate",),
        {
            # prepare_model: `model.to(self.device)`, four parameters
            ("accelerate/accelerator.py", "Accelerator.prepare_model", "h2d"): 4,
            # inputs and labels of 16 batches from pageable memory
            ("accelerate/utils/operations.py", "send_to_device", "h2d"): 32,
            ("accelerate_loop.py", "<module>", "sync"): 1,
        },
        silent=("accelerate/optimizer.py",),
    ),
    Program(
        "accelerate_loop",
        ("accelerate",),
        {
            # scaler.step reads found_inf with .item(): AdamW is not fused here; 8 of the 16
            # batches complete an accumulation
            ("accelerate/optimizer.py", "AcceleratedOptimizer.step", "sync"): 8,
            ("accelerate/utils/operations.py", "send_to_device", "h2d"): 32,
        },
        ("fp16",),
        tolerance=1e-3,
    ),
    Program(
        "lightning_fit",
        ("lightning", "torchmetrics"),
        {
            # convert_tensors_to_scalars: `value.item()` of logged values, lightning 2.6: one in
            # each of 16 batches (callback and log metrics), and at the ends of epochs
            (
                "lightning/fabric/utilities/apply_func.py",
                "convert_tensors_to_scalars.<locals>.to_item",
                "sync",
            ): 24,
            # has_len_all_ranks: `if total_length == 0`, `if total_length > 0`, of a tensor made on
            # the GPU for a reduction over one rank; for training, validation and sanity check
            ("lightning/pytorch/utilities/data.py", "has_len_all_ranks", "sync"): 6,
            ("lightning/pytorch/utilities/data.py", "has_len_all_ranks", "h2d"): 3,
            # batch_to: 2 tensors of 16 training, 8 validation and 2 sanity batches, and the 4
            # counters of two logged metrics; back at the end the states of AdamW and metrics
            (
                "lightning/fabric/utilities/apply_func.py",
                "move_data_to_device.<locals>.batch_to",
                "h2d",
            ): 56,
            # teardown: the four parameters go back
            (
                "lightning/fabric/utilities/device_dtype_mixin.py",
                "_DeviceDtypeModuleMixin.cpu",
                "d2h",
            ): 4,
        },
        # gradient_clip_val clips by norm, which stays on the GPU
        silent=("lightning/pytorch/plugins/precision/precision.py",),
    ),
    Program(
        "lightning_fit",
        ("lightning", "torchmetrics"),
        {
            # MixedPrecision.optimizer_step: scaler.step reads found_inf once a step
            (
                "lightning/pytorch/plugins/precision/amp.py",
                "MixedPrecision.optimizer_step",
                "sync",
            ): 16,
        },
        ("--fp16",),
        tolerance=5e-3,
    ),
    Program(
        "diffusers_unet",
        ("diffusers",),
        {
            # DDIM, 0.42: alphas_cumprod stays on the CPU and is indexed by a timestep on the GPU,
            # which reads it; `prev_timestep >= 0` is another read, and the previous alpha one more
            # in all steps but the last; _get_variance does the same again
            (DDIM, "DDIMScheduler.step", "sync"): 14,
            (DDIM, "DDIMScheduler._get_variance", "sync"): 14,
            (DDIM, "DDIMScheduler.set_timesteps", "h2d"): 1,
            # Euler looks its first step up with nonzero() and .item(), and counts from there on
            (EULER, "EulerDiscreteScheduler.index_for_timestep", "sync"): 2,
            # set_timesteps uploads sigmas and timesteps, and takes the sigmas back at once
            (EULER, "EulerDiscreteScheduler.set_timesteps", "h2d"): 2,
            (EULER, "EulerDiscreteScheduler.set_timesteps", "d2h"): 1,
            # add_noise moves alphas_cumprod to the GPU
            ("diffusers/schedulers/scheduling_ddpm.py", "DDPMScheduler.add_noise", "h2d"): 1,
        },
        silent=("diffusers/models/unets/unet_2d.py", "diffusers/models/attention.py"),
    ),
    Program(
        "torchmetrics_update",
        ("torchmetrics",),
        {
            # torchmetrics 1.9. bincount reads its smallest and its largest value, twice as on an
            # H200: two compute groups of three metrics (three in the first step) and the
            # unchecked one, four steps
            ("torchmetrics/utilities/data.py", "_bincount", "sync"): 26,
            # validate_args=True, the default: `len(torch.unique(t))` of predictions and targets
            (
                f"{CLASSIFICATION}/stat_scores.py",
                "_multiclass_stat_scores_tensor_validation",
                "sync",
            ): 10,
            (
                f"{CLASSIFICATION}/confusion_matrix.py",
                "_multiclass_confusion_matrix_tensor_validation",
                "sync",
            ): 8,
            # MetricCollection compares tp, fp, tn and fn of two metrics to find its groups
            ("torchmetrics/utilities/data.py", "allclose", "sync"): 4,
            # MeanMetric: `nans.any() or nans_weight.any()`
            (
                "torchmetrics/aggregation.py",
                "BaseAggregator._cast_and_nan_check_input",
                "sync",
            ): 8,
            # AUROC: `torch.where(preds[1:] - preds[:-1])`, `fps[-1] <= 0`, `tps[-1] <= 0`
            (f"{CLASSIFICATION}/precision_recall_curve.py", "_binary_clf_curve", "sync"): 1,
            (f"{CLASSIFICATION}/roc.py", "_binary_roc_compute", "sync"): 2,
        },
        # normalize_logits_if_needed asks for the device, and on a GPU avoids the wait
        silent=("torchmetrics/utilities/compute.py",),
    ),
    Program(
        "peft_lora",
        ("peft", "transformers"),
        {
            # Linear.merge with safe_merge, peft 0.21: `torch.isfinite(orig_weight).all()`, 2 layers
            ("peft/tuners/lora/layer.py", "Linear.merge", "sync"): 2,
            # safetensors copies each of the four adapter weights to the host
            ("safetensors/torch.py", "_to_ndarray", "d2h"): 4,
            ("peft_lora.py", "<module>", "sync"): 1,
        },
        # with a cache, which is the default outside of the Trainer, masks are not looked at
        silent=("transformers/masking_utils.py",),
    ),
)


def sites_of(recording: Recording) -> Counter[Site]:
    """How often each innermost line outside torch waited or copied."""
    frames = recording.table("frames").set_index("frame_id")
    stacks = dict(recording.table("stacks").itertuples(index=False))
    found: Counter[Site] = Counter()

    def count(rows: pd.DataFrame, kinds: pd.Series) -> None:
        for stack_id, kind in zip(rows.stack_id, kinds, strict=True):
            outside = [f for f in stacks[stack_id] if not frames.file[f].startswith("torch/")]
            innermost = frames.loc[outside[0]]
            file = innermost.file
            if file.startswith(str(PROGRAMS)):
                file = Path(file).name
            found[file, innermost.function, kind] += 1

    blocking, transfers = recording.table("blocking"), recording.table("transfers")
    count(blocking, blocking.kind)
    count(transfers, transfers.direction)
    return found


def numbers(line: str) -> list[float]:
    return [float(text) for text in re.findall(r"-?\d+\.?\d*", line)]


def plain_result(path: Path, arguments: tuple[str, ...], folder: Path) -> str:
    """Last line of what the program prints without syncscope, on the CPU."""
    bare = subprocess.run(
        [sys.executable, path, *arguments],
        cwd=folder,
        env=os.environ | ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert bare.returncode == 0, bare.stderr[-3000:]
    return bare.stdout.splitlines()[-1]


@pytest.mark.parametrize("program", PROGRAM_LIST, ids=str)
def test_a_library_runs_and_its_waits_are_found(
    program: Program, tmp_path: Path, syncscope_command: Run
) -> None:
    for library in program.libraries:
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed (pip install 'syncscope[libraries]')")
    path = PROGRAMS / f"{program.name}.py"
    run = syncscope_command(
        "run", "--device", "shadow", "-o", "rec", path, *program.arguments,
        env=os.environ | ENVIRONMENT,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    *_, device, result = run.stdout.splitlines()
    assert device.split()[:2] == ["device", "cuda"]
    plain = plain_result(path, program.arguments, tmp_path)
    if program.tolerance:
        assert numbers(result)[-1] == pytest.approx(numbers(plain)[-1], rel=program.tolerance)
    else:
        assert result == plain
    recording = Recording(tmp_path / "rec")
    found = sites_of(recording)
    assert {site: found[site] for site in program.sites} == program.sites
    assert not [site for site in found if site[0] in program.silent and site[2] == "sync"]
    assert not (recording.table("blocking").kind == "race").any()
