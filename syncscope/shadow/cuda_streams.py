"""`torch.cuda.Stream`, `torch.cuda.Event` and `torch.cuda.stream` of the shadow GPU.

The classes are bound to a machine by `bound_to`, which makes a subclass for it.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

import torch

from syncscope.shadow import clock
from syncscope.shadow.devices import as_device
from syncscope.shadow.machine import Machine
from syncscope.shadow.standins import StandIn, stand_in
from syncscope.shadow.streams import DEFAULT_STREAM, Snapshot, StreamState


class ShadowStream:
    """A queue of work on a shadow GPU."""

    machine: ClassVar[Machine]
    device_type = 1

    def __init__(
        self,
        device: Any = None,
        priority: int = 0,
        *,
        _state: StreamState | None = None,
        stream_id: int | None = None,
        device_index: int = 0,
        **kwargs: Any,
    ) -> None:
        if _state is None and stream_id is not None:
            _state = find(self.machine, stream_id, device_index)
        if _state is None:
            _state = self.machine.timeline.new_stream(index_of(self.machine, device))
        self.state = _state
        self.priority = priority
        self._context: ShadowStreamContext

    @property
    def device(self) -> Any:
        return self.machine.devices[self.state.device]

    @property
    def device_index(self) -> int:
        return self.state.device

    @property
    def cuda_stream(self) -> int:
        return 0 if self.state.number == DEFAULT_STREAM else self.state.number

    @property
    def stream_id(self) -> int:
        return self.cuda_stream

    @property
    def native_handle(self) -> int:
        return self.cuda_stream

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Lowest and highest priority (c10/cuda/CUDAStream.h)."""
        return 0, -3

    def wait_stream(self, stream: ShadowStream) -> None:
        self.state.wait_for(stream.state.snapshot())
        self.machine.thread.now += 2 * clock.EVENT_NS

    def wait_event(self, event: ShadowEvent) -> None:
        event.wait(self)

    def record_event(self, event: ShadowEvent | None = None) -> ShadowEvent:
        if event is None:
            event = bound_to(self.machine, ShadowEvent)()
        event.record(self)
        return event

    def query(self) -> bool:
        self.machine.thread.now += clock.EVENT_NS
        done = self.state.free_ns <= self.machine.timeline.now()
        if done:
            self.state.host_waited()
        return done

    def is_capturing(self) -> bool:
        return self.machine.thread.capture is not None

    def synchronize(self) -> None:
        machine = self.machine
        if machine.thread.capture is not None:
            machine.forbid_in_capture("torch.cuda.Stream.synchronize")
        start = machine.timeline.now()
        machine.timeline.wait_stream(self.state)
        machine.add_blocking(start, "torch.cuda.Stream.synchronize", "explicit_wait", explicit=True)

    def __enter__(self) -> ShadowStream:
        self._context = bound_to(self.machine, ShadowStreamContext)(self)
        self._context.__enter__()
        return self

    def __exit__(self, *exc: Any) -> None:
        self._context.__exit__(*exc)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShadowStream) and other.state is self.state

    def __hash__(self) -> int:
        return hash((self.state.device, self.state.number))

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"


class ShadowExternalStream(ShadowStream):
    """A stream given by its handle; one that PyTorch did not make is a new one here."""

    def __init__(self, stream_ptr: int, device: Any = None, **kwargs: Any) -> None:
        index = index_of(self.machine, device)
        super().__init__(index, _state=find(self.machine, stream_ptr, index))


class ShadowEvent:
    """A moment in a stream."""

    machine: ClassVar[Machine]

    def __init__(
        self,
        enable_timing: bool = False,
        blocking: bool = False,
        interprocess: bool = False,
        **kwargs: Any,
    ) -> None:
        self.enable_timing = enable_timing
        self.snapshot: Snapshot | None = None

    def record(self, stream: ShadowStream | None = None) -> None:
        state = current(self.machine) if stream is None else stream.state
        timeline = self.machine.timeline
        start = timeline.now()
        timeline.call("cudaEventRecord", "event", start, start + clock.EVENT_NS)
        self.snapshot = state.snapshot()
        self.snapshot.end_ns = max(state.free_ns, timeline.now())

    def wait(self, stream: ShadowStream | None = None) -> None:
        state = current(self.machine) if stream is None else stream.state
        start = self.machine.timeline.now()
        self.machine.timeline.call("cudaStreamWaitEvent", "event", start, start + clock.EVENT_NS)
        if self.snapshot is not None:
            state.wait_for(self.snapshot)

    def query(self) -> bool:
        timeline = self.machine.timeline
        start = timeline.now()
        timeline.call("cudaEventQuery", "event", start, start + clock.EVENT_NS)
        if self.snapshot is None:
            return True
        done = self.snapshot.end_ns <= timeline.now()
        if done:
            self.snapshot.host_waited()
        return done

    def synchronize(self) -> None:
        machine = self.machine
        if machine.thread.capture is not None:
            machine.forbid_in_capture("torch.cuda.Event.synchronize")
        start = machine.timeline.now()
        machine.timeline.wait_snapshot(self.snapshot or Snapshot(0, {}))
        machine.add_blocking(start, "torch.cuda.Event.synchronize", "explicit_wait", explicit=True)

    def elapsed_time(self, end_event: ShadowEvent) -> float:
        if not (self.enable_timing and end_event.enable_timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self.snapshot is None or end_event.snapshot is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if end_event.snapshot.end_ns > self.machine.timeline.now():
            raise RuntimeError("CUDA error: device not ready")
        return (end_event.snapshot.end_ns - self.snapshot.end_ns) / 1e6

    @property
    def device(self) -> Any:
        return self.machine.devices[self.machine.thread.device]

    @property
    def cuda_event(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return "<torch.cuda.Event>" if self.snapshot else "<torch.cuda.Event uninitialized>"


class ShadowStreamContext:
    """Makes a stream the current one of this thread."""

    machine: ClassVar[Machine]

    def __init__(self, stream: ShadowStream | None) -> None:
        self.stream = stream
        self._before: tuple[int, Any] | None = None

    def __enter__(self) -> None:
        if self.stream is None:
            return
        thread = self.machine.thread
        device = self.stream.state.device
        self._before = (thread.device, thread.streams.get(device))
        thread.device = device
        thread.streams[device] = self.stream.state

    def __exit__(self, *exc: Any) -> None:
        if self.stream is None or self._before is None:
            return
        thread = self.machine.thread
        thread.device, state = self._before
        device = self.stream.state.device
        if state is None:
            thread.streams.pop(device, None)
        else:
            thread.streams[device] = state


_Bound = TypeVar("_Bound", ShadowStream, ShadowEvent, ShadowStreamContext, ShadowExternalStream)
_NAMES = {
    ShadowStream: "Stream",
    ShadowEvent: "Event",
    ShadowStreamContext: "StreamContext",
    ShadowExternalStream: "ExternalStream",
}
_bound: dict[tuple[int, type], Any] = {}


def bound_to(machine: Machine, base: type[_Bound]) -> type[_Bound]:
    """The class as the program sees it: `torch.cuda.Stream` of this machine."""
    key = (id(machine), base)
    known = _bound.get(key)
    if known is None or known.machine is not machine:
        body = {"machine": machine, "__module__": "torch.cuda.streams"}
        known = _bound[key] = type(_NAMES[base], (base,), body)
    found: type[_Bound] = known
    return found


def forget(machine: Machine) -> None:
    """Drop the classes of a machine."""
    for base in _NAMES:
        _bound.pop((id(machine), base), None)


def generic_stream(machine: Machine) -> StandIn:
    """`torch.Stream`, which makes those of the GPU unless told another device."""
    original = torch.Stream
    shadow = bound_to(machine, ShadowStream)

    def make(device: Any = None, **kwargs: Any) -> Any:
        wanted = as_device("cuda" if device is None else device)
        if wanted.type != "cuda":
            return original(wanted, **kwargs)
        return shadow(wanted, **kwargs)

    return stand_in(original, make, shadow)


def generic_event(machine: Machine) -> StandIn:
    """`torch.Event`, likewise."""
    original = torch.Event
    shadow = bound_to(machine, ShadowEvent)

    def make(device: Any = None, **kwargs: Any) -> Any:
        wanted = as_device("cuda" if device is None else device)
        return shadow(**kwargs) if wanted.type == "cuda" else original(wanted, **kwargs)

    return stand_in(original, make, shadow)


def index_of(machine: Machine, device: Any) -> int:
    """Index of a device given in any way, None for the current one."""
    index = None if device is None else as_device(device).index
    return machine.thread.device if index is None else index


def find(machine: Machine, handle: int, device: int) -> StreamState | None:
    """The stream of a device with this `cuda_stream`; None if there is none."""
    number = handle or DEFAULT_STREAM
    streams = machine.timeline.streams[device]
    return next((state for state in streams if state.number == number), None)


def current(machine: Machine) -> StreamState:
    """The calling thread's current stream on its current device."""
    return machine.timeline.stream(machine.thread.device)
