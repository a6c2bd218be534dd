"""Where random numbers of a shadow GPU come from.

At first all GPUs draw from the CPU's generator: values are then those of the same program on
the CPU. A program that seeds or restores a GPU's generator by itself (`torch.cuda.manual_seed`,
`torch.cuda.set_rng_state`) gives that GPU a stream of its own, as on CUDA repeatable and apart
from the CPU's, but not of CUDA's values. `torch.manual_seed` seeds both, and joins them again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from syncscope.shadow.marks import gpu_of

if TYPE_CHECKING:
    from syncscope.shadow.machine import Machine

Handler = Callable[[tuple[Any, ...], dict[str, Any]], Any]
_Generator: Any = torch._C.Generator
_CUDA_STATE_BYTES = 16
"""A state that was saved on a real GPU: seed and offset."""


class RandomState:
    """The generators of all GPUs."""

    def __init__(self) -> None:
        self.streams: Sequence[Any] = ()
        """Their default generators. Used through PyTorch's own methods: programs see others."""
        self.default: frozenset[int] = frozenset()
        """Addresses of these."""
        self.devices: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        """All generators that say they are on a GPU, by address."""
        self.apart: set[int] = set()
        """GPUs with a stream of their own."""

    def use(self, streams: Sequence[Any]) -> None:
        """Take these as the default generators, one per GPU."""
        self.streams = streams
        self.default = frozenset(stream._cdata for stream in streams)

    def join(self) -> None:
        """All GPUs draw from the CPU's generator."""
        self.apart.clear()

    def seed(self, gpu: int, seed: int) -> None:
        """Start a stream of its own."""
        _Generator.manual_seed(self.streams[gpu], seed)
        self.apart.add(gpu)

    def initial_seed(self, gpu: int) -> int:
        """What the generator that a GPU draws from was seeded with."""
        return int(_Generator.initial_seed(self._source(gpu)))

    def save(self, gpu: int) -> torch.Tensor:
        """State of the generator that a GPU draws from."""
        state: torch.Tensor = _Generator.get_state(self._source(gpu))
        return state

    def _source(self, gpu: int) -> torch.Generator:
        return self.streams[gpu] if gpu in self.apart else torch.default_generator

    def restore(self, gpu: int, state: torch.Tensor) -> None:
        """Go on from a state that `save(gpu)` or a real GPU gave."""
        if state.numel() == _CUDA_STATE_BYTES:
            self.seed(gpu, int.from_bytes(bytes(state.tolist()[:8]), "little", signed=True))
            return
        with torch._C._DisableTorchDispatch():
            joined = torch.equal(state, torch.default_generator.get_state())
        if joined:
            self.apart.discard(gpu)
        else:
            _Generator.set_state(self.streams[gpu], state)
            self.apart.add(gpu)

    def check(self, generator: Any, gpu: int) -> None:
        """Raise CUDA's error for a generator of another kind of device."""
        found = "cuda" if generator._cdata in self.devices else "cpu"
        wanted = "cuda" if gpu >= 0 else "cpu"
        if found != wanted:
            raise RuntimeError(
                f"Expected a '{wanted}' device type for generator but found '{found}'"
            )

    @contextmanager
    def drawing_from(self, gpu: int) -> Iterator[None]:
        """The CPU's kernels draw from a GPU's stream."""
        cpu, stream = torch.default_generator, self.streams[gpu]
        before = cpu.get_state()
        cpu.set_state(_Generator.get_state(stream))
        try:
            yield
        finally:
            _Generator.set_state(stream, cpu.get_state())
            cpu.set_state(before)


def drawing(machine: Machine, handler: Handler) -> Handler:
    """The handler of an operator that draws random numbers."""
    state = machine.random

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        generator = kwargs.get("generator")
        if generator is None and not state.apart:
            return handler(args, kwargs)
        gpu = _gpu_of_call(machine, args, kwargs)
        if generator is not None:
            state.check(generator, gpu)
            if generator._cdata not in state.default:
                return handler(args, kwargs)
            kwargs = {**kwargs, "generator": None}
        if gpu not in state.apart:
            return handler(args, kwargs)
        with state.drawing_from(gpu):
            return handler(args, kwargs)

    return run


def _gpu_of_call(machine: Machine, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """The GPU that a call draws on: its device, else that of its first tensor; -1: the CPU."""
    device = kwargs.get("device")
    if device is not None:
        if device.type != "cuda":
            return -1
        return machine.thread.device if device.index is None else int(device.index)
    for value in args:
        if isinstance(value, torch.Tensor):
            return gpu_of(value)
    return -1
