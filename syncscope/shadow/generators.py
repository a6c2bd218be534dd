"""`torch.Generator` and `torch.cuda.random`: generators that say they are on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from syncscope.shadow.cuda_api import CudaApi
from syncscope.shadow.devices import as_device
from syncscope.shadow.patching import FunctionPatches
from syncscope.shadow.random_state import RandomState

_TRUE_GENERATOR: Any = torch._C.Generator
_new_generator: Any = torch._C.Generator.__new__


class _AnyGenerator(type(_TRUE_GENERATOR)):  # type: ignore[misc]
    """Generators made before the shadow GPU started are instances as well."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _TRUE_GENERATOR)


class ShadowGenerator(_TRUE_GENERATOR, metaclass=_AnyGenerator):  # type: ignore[misc]
    """`torch.Generator`: a CPU generator that remembers the device it was asked for."""

    api: CudaApi

    def __new__(cls, device: Any = "cpu") -> Any:
        wanted = as_device(device)
        if wanted.type != "cuda":
            return _TRUE_GENERATOR(wanted)
        made = _new_generator(cls, "cpu")
        made._shadow_device = torch.device("cuda", cls.api.index(wanted))
        cls.api.machine.random.devices[made._cdata] = made
        return made

    def __init__(self, device: Any = "cpu") -> None:
        """Nothing is left to do."""

    @property
    def device(self) -> torch.device:
        wanted: torch.device = self._shadow_device
        return wanted


class DefaultGenerator(ShadowGenerator):
    """An entry of `torch.cuda.default_generators`."""

    @property
    def _random(self) -> RandomState:
        return self.api.machine.random

    def manual_seed(self, seed: int) -> DefaultGenerator:
        self._random.seed(self.device.index, int(seed))
        return self

    def seed(self) -> int:
        seed: int = _TRUE_GENERATOR().seed()
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        return self._random.initial_seed(self.device.index)

    def get_state(self) -> torch.Tensor:
        return self._random.save(self.device.index)

    def set_state(self, new_state: torch.Tensor) -> DefaultGenerator:
        self._random.restore(self.device.index, new_state)
        return self


class CudaRandom:
    """Functions of `torch.cuda.random`."""

    def __init__(self, api: CudaApi, generators: tuple[DefaultGenerator, ...]) -> None:
        self._api = api
        self._generators = generators

    def _of(self, device: Any) -> DefaultGenerator:
        return self._generators[self._api.index(device)]

    def manual_seed(self, seed: int) -> None:
        self._of(None).manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        for generator in self._generators:
            generator.manual_seed(seed)

    def seed(self) -> None:
        self._of(None).seed()

    def seed_all(self) -> None:
        self.manual_seed_all(self._generators[0].seed())

    def initial_seed(self) -> int:
        return self._of(None).initial_seed()

    def get_rng_state(self, device: Any = "cuda") -> torch.Tensor:
        return self._of(device).get_state()

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [generator.get_state() for generator in self._generators]

    def set_rng_state(self, new_state: torch.Tensor, device: Any = "cuda") -> None:
        self._of(device).set_state(new_state)

    def set_rng_state_all(self, new_states: Iterable[torch.Tensor]) -> None:
        for generator, new_state in zip(self._generators, new_states, strict=False):
            generator.set_state(new_state)


_FUNCTIONS = (
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "initial_seed",
    "get_rng_state",
    "get_rng_state_all",
    "set_rng_state",
    "set_rng_state_all",
)


def install(api: CudaApi, patches: FunctionPatches) -> None:
    """Replace `torch.Generator`, and what seeds and asks the GPU's default generators."""
    state = api.machine.random
    body = {"api": api, "__module__": "torch"}
    default = type("Generator", (DefaultGenerator,), body)
    generators = tuple(default(device) for device in api.machine.devices)
    state.use(generators)
    functions = CudaRandom(api, generators)
    for name in _FUNCTIONS:
        patches.put_function(torch.cuda, name, getattr(functions, name))
    patches.put(torch.cuda, "default_generators", generators)
    patches.put_function(torch, "Generator", type("Generator", (ShadowGenerator,), body))
    for name in ("manual_seed", "seed"):
        patches.wrap(torch, name, lambda original: _joining(state, original))


def _joining(state: RandomState, original: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.manual_seed` and `torch.seed`, which seed the CPU and all GPUs alike."""

    def seed(*args: Any) -> Any:
        result = original(*args)
        state.join()
        return result

    return seed
