"""GPUs that can be played, with figures from their vendor's datasheets.

Peaks are dense (no sparsity). `pinned_copy_rate` is what one direction of the card's PCIe
link reaches in practice (about 85 % of its raw rate), `pageable_copy_rate` is bound by the
host's copy into the driver's staging buffer: 256 MB took 40 ms a step on an H200 host.
"""

from __future__ import annotations

from dataclasses import dataclass

from syncscope.errors import UsageError

_GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class GpuModel:
    """One kind of GPU. Rates are bytes/s and FLOP/s."""

    name: str
    memory_bytes: int
    memory_rate: float
    float64_rate: float
    float32_rate: float
    tf32_rate: float
    half_rate: float
    pinned_copy_rate: float
    pageable_copy_rate: float
    multiprocessors: int
    capability: tuple[int, int]
    source: str


GPUS: dict[str, GpuModel] = {
    "H200": GpuModel(
        name="NVIDIA H200",
        memory_bytes=int(139.8 * _GIB),
        memory_rate=4.8e12,
        float64_rate=34e12,
        float32_rate=67e12,
        tf32_rate=494e12,
        half_rate=989e12,
        pinned_copy_rate=54e9,
        pageable_copy_rate=8e9,
        multiprocessors=132,
        capability=(9, 0),
        source="NVIDIA H200 Tensor Core GPU datasheet (SXM5, PCIe 5.0 x16)",
    ),
    "H100": GpuModel(
        name="NVIDIA H100 80GB HBM3",
        memory_bytes=int(79.1 * _GIB),
        memory_rate=3.35e12,
        float64_rate=34e12,
        float32_rate=67e12,
        tf32_rate=494e12,
        half_rate=989e12,
        pinned_copy_rate=54e9,
        pageable_copy_rate=8e9,
        multiprocessors=132,
        capability=(9, 0),
        source="NVIDIA H100 Tensor Core GPU datasheet (SXM5, PCIe 5.0 x16)",
    ),
    "A100": GpuModel(
        name="NVIDIA A100-SXM4-80GB",
        memory_bytes=int(79.1 * _GIB),
        memory_rate=2.039e12,
        float64_rate=9.7e12,
        float32_rate=19.5e12,
        tf32_rate=156e12,
        half_rate=312e12,
        pinned_copy_rate=25e9,
        pageable_copy_rate=6e9,
        multiprocessors=108,
        capability=(8, 0),
        source="NVIDIA A100 Tensor Core GPU datasheet (SXM 80 GB, PCIe 4.0 x16)",
    ),
    "L4": GpuModel(
        name="NVIDIA L4",
        memory_bytes=int(22.0 * _GIB),
        memory_rate=300e9,
        float64_rate=0.49e12,
        float32_rate=30.3e12,
        tf32_rate=60e12,
        half_rate=121e12,
        pinned_copy_rate=25e9,
        pageable_copy_rate=6e9,
        multiprocessors=58,
        capability=(8, 9),
        source="NVIDIA L4 Tensor Core GPU datasheet (PCIe 4.0 x16; its peaks with sparsity halved)",
    ),
    "RTX 4090": GpuModel(
        name="NVIDIA GeForce RTX 4090",
        memory_bytes=int(23.5 * _GIB),
        memory_rate=1008e9,
        float64_rate=1.29e12,
        float32_rate=82.6e12,
        tf32_rate=82.6e12,
        half_rate=165.2e12,
        pinned_copy_rate=25e9,
        pageable_copy_rate=8e9,
        multiprocessors=128,
        capability=(8, 9),
        source="NVIDIA Ada GPU Architecture whitepaper, appendix A (PCIe 4.0 x16)",
    ),
    "T4": GpuModel(
        name="Tesla T4",
        memory_bytes=int(14.6 * _GIB),
        memory_rate=320e9,
        float64_rate=0.25e12,
        float32_rate=8.1e12,
        tf32_rate=8.1e12,
        half_rate=65e12,
        pinned_copy_rate=12e9,
        pageable_copy_rate=5e9,
        multiprocessors=40,
        capability=(7, 5),
        source="NVIDIA T4 Tensor Core GPU datasheet (PCIe 3.0 x16)",
    ),
}


def find_gpu(name: str) -> GpuModel:
    """The model of that name, whatever its case and spacing. Raises UsageError."""
    wanted = name.lower().replace(" ", "").replace("-", "").replace("_", "")
    for key, model in GPUS.items():
        if wanted == key.lower().replace(" ", ""):
            return model
    raise UsageError(f"no shadow GPU is called {name!r}; known are {', '.join(GPUS)}")
