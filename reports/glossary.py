"""The words that reports use, in the order in which a reader meets them."""

from __future__ import annotations

WORTH_FIXING = "more than 1 % of a step and three times the replay's error"
"""What a line must give back to be worth fixing, as `analysis.replay_forecast` has it."""

GLOSSARY = (
    ("bound by", "What sets the pace of a step: the GPU, waits, copies, the host's launches, or "
     "the input."),
    ("steady step", "A step after the warm-up. Figures a step are medians over these."),
    ("charged to a line", "The blocking calls of the CUDA runtime for which the recording tells "
     "the line. The others are counted, never guessed."),
    ("host blocked", "Time in which the host did nothing but wait in this call."),
    ("exposed idle", "Time in which the GPU ran nothing and that is charged to this line. It is a "
     "cost only where the step would end earlier without it."),
    ("gain", "What a line gives back: by how much a step gets shorter without its waits and "
     "copies, by replay where that is exact, else at most."),
    ("best case", "A step without the waits and copies of the lines to fix."),
    ("replay", "The recording played again with what is waited for and launched, but without the "
     "waits of some lines. Its error is by how much it misses the recording when nothing is "
     "left out."),
    ("fix", f"Rewriting the line gives back {WORTH_FIXING}."),
    ("harmless", "The line waits or copies, but rewriting it gives back no more than that."),
    ("allowed", "The program says that this wait is wanted: syncscope.allow()."),
    ("unsafe", "A wait is missing: the host touches memory that is still being copied."),
    ("pageable", "Memory of the host that the system may move: the driver copies it to a buffer "
     "of its own first, and the host waits."),
    ("pinned", "Memory of the host that stays where it is, so that the GPU copies from and to it "
     "while the host goes on."),
    ("allocator churn", "PyTorch's allocator gives memory back to the driver and asks for it "
     "again, which waits for the GPU."),
    ("shadow GPU", "A GPU that is not there: tensors are on the CPU, rules say what would have "
     "waited, and a model of a GPU says how long it would have taken."),
    ("CUPTI", "NVIDIA's interface for profilers, which times kernels, copies and calls."),
    ("NVML", "NVIDIA's interface for monitoring. Its GPU utilisation is the share of a period of "
     "up to a second in which any kernel ran, so it lags behind the other lanes."),
)  # fmt: skip
"""Word and meaning."""
