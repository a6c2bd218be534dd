"""What the host calls and what the device does, on the simulated clock.

`Timeline` advances the calling thread's clock and records what a real GPU's recording would
have: runtime calls and device activity, as `PackedCalls`. It knows nothing of tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from torch._C import _current_graph_task_id as graph_task

from syncscope.context import CaptureContext
from syncscope.recording.packed import NO_ACTIVITY, NO_CALL, CallTexts, PackedCalls
from syncscope.shadow import clock
from syncscope.shadow.clock import HostThread, Roofline
from syncscope.shadow.gpus import GpuModel
from syncscope.shadow.streams import DEFAULT_STREAM, Snapshot, StreamState

COPY_NAMES = {
    ("h2d", False): "Memcpy HtoD (Pageable -> Device)",
    ("h2d", True): "Memcpy HtoD (Pinned -> Device)",
    ("d2h", False): "Memcpy DtoH (Device -> Pageable)",
    ("d2h", True): "Memcpy DtoH (Device -> Pinned)",
}
_GRAPH = CallTexts("cudaGraphLaunch", "launch")
_MEMSET = CallTexts("cudaMemsetAsync", "memset", "memset", "Memset (Device)")
_DEVICE_COPY = CallTexts(
    "cudaMemcpyAsync", "memcpy", "memcpy", "Memcpy DtoD (Device -> Device)", "d2d"
)


class Timeline:
    """Host threads, streams of all devices, and the rows they leave behind."""

    def __init__(self, context: CaptureContext, model: GpuModel, devices: int) -> None:
        self.context = context
        self.model = model
        self.roofline = Roofline(model)
        self.thread = HostThread()
        self.calls = PackedCalls()
        context.writer.sources.append(self.calls.take)
        self._kernels: dict[str, int] = {}
        self._record: Callable[[bytes], object] = self.calls.add
        self._pack = self.calls.pack
        self.default = [StreamState(device, DEFAULT_STREAM) for device in range(devices)]
        self.streams: list[list[StreamState]] = [[stream] for stream in self.default]

    def forget(self) -> None:
        """Record nothing from now on: for a forked child, which owns no recording."""
        self._record = _forget

    def now(self) -> int:
        """Simulated time of the calling thread."""
        return self.thread.now

    def stream(self, device: int) -> StreamState:
        """The calling thread's current stream of a device."""
        return self.thread.streams.get(device) or self.default[device]

    def new_stream(self, device: int) -> StreamState:
        """Another stream; numbers go up from that of the default stream."""
        state = StreamState(device, DEFAULT_STREAM + 6 * len(self.streams[device]))
        self.streams[device].append(state)
        return state

    def thread_number(self) -> int:
        """Number of the calling thread in the recording."""
        thread = self.thread
        if thread.number < 0:
            thread.number = self.context.threads.current()
        return thread.number

    def call(self, name: str, kind: str, start_ns: int, end_ns: int) -> None:
        """Record a runtime call that starts nothing, and move the host to its end."""
        code = self.calls.code(CallTexts(name, kind))
        ident = self.thread_number()
        self._record(self._pack(ident, start_ns, end_ns, NO_ACTIVITY, 0, 0, 0, 0, code))
        self.thread.now = end_ns

    def kernel_code(self, name: str) -> int:
        """What `launch` takes for a kernel of this name."""
        code = self._kernels.get(name)
        if code is None:
            texts = CallTexts("cudaLaunchKernel", "launch", "kernel", name)
            code = self._kernels[name] = self.calls.code(texts)
        return code

    def launch(self, device: int, name: str, duration_ns: int) -> None:
        """A kernel on the current stream: the host goes on as soon as it is enqueued."""
        self.launch_kernel(device, self.kernel_code(name), duration_ns)

    def launch_kernel(self, device: int, code: int, duration_ns: int) -> None:
        """The same for a code that is known. This is the hot path: it calls as little as it can."""
        thread = self.thread.__dict__  # the thread's own; cheaper than asking five times
        start = thread["now"] + clock.BEFORE_LAUNCH_NS
        task = graph_task()
        if task >= 0:
            start += clock.BACKWARD_OP_NS
            if task != thread["backward"]:
                thread["backward"] = task
                start += clock.BACKWARD_CALL_NS
        end = start + clock.LAUNCH_NS
        thread["now"] = end + clock.AFTER_LAUNCH_NS
        ident = thread["number"]
        if ident < 0:
            ident = self.thread_number()
        stream = thread["streams"].get(device) or self.default[device]
        begin = end + clock.LAUNCH_LATENCY_NS
        if stream.free_ns > begin:
            begin = stream.free_ns
        stream.free_ns = done = begin + duration_ns
        stream.count += 1
        self._record(self._pack(ident, start, end, device, stream.number, begin, done, 0, code))

    def launch_graph(self, device: int, kernels: list[tuple[str, int]]) -> None:
        """Kernels enqueued by one call."""
        start = self.thread.now
        end = start + 2 * clock.LAUNCH_NS
        ident, code = self.thread_number(), self.calls.code(_GRAPH)
        rows = [self._pack(ident, start, end, NO_ACTIVITY, 0, 0, 0, 0, code)]
        for name, duration in kernels:
            stream, begin, done = self._enqueue(device, end, duration)
            code = self.kernel_code(name)
            place = (device, stream.number, begin, done, 0, code)
            rows.append(self._pack(NO_CALL, 0, 0, *place))
        self._record(b"".join(rows))
        self.thread.now = end

    def memset(self, device: int, size_bytes: int) -> None:
        """Fill device memory with zeros."""
        self._asynchronous(device, _MEMSET, size_bytes, self.roofline.kernel(size_bytes))

    def device_copy(self, device: int, size_bytes: int) -> None:
        """A copy within a device (or between two)."""
        self._asynchronous(device, _DEVICE_COPY, size_bytes, self.roofline.kernel(2 * size_bytes))

    def copy(
        self, device: int, direction: str, size_bytes: int, *, pinned: bool, waits: bool
    ) -> int:
        """A copy between host and device on the current stream; returns its number on it.

        Downloads to pageable memory wait inside cudaMemcpyAsync, as do uploads from it
        that are larger than the driver's staging buffer. `waits` adds the
        cudaStreamSynchronize of a blocking copy.
        """
        start = self.thread.now
        end = start + clock.COPY_CALL_NS
        stream, begin, done = self._enqueue(device, start, self.roofline.copy(size_bytes, pinned))
        staged = direction == "h2d" and size_bytes <= clock.STAGED_BYTES
        if not pinned and not staged:
            end = max(end, done)
            if direction == "d2h":
                stream.host_waited()
        place = (device, stream.number, begin, done, size_bytes)
        code = self.calls.code(_copy_texts(direction, pinned))
        self._record(self._pack(self.thread_number(), start, end, *place, code))
        self.thread.now = end
        if waits:
            self.wait_stream(stream)
        return stream.count

    def wait_stream(self, stream: StreamState, name: str = "cudaStreamSynchronize") -> None:
        """The host waits until a stream is empty."""
        start = self.thread.now
        end = max(start + clock.SYNC_CALL_NS, stream.free_ns + clock.SYNC_CALL_NS)
        self.call(name, "sync", start, end)
        stream.host_waited()

    def wait_device(self, device: int, name: str = "cudaDeviceSynchronize") -> None:
        """The host waits for all streams of a device."""
        start = self.thread.now
        free = max(stream.free_ns for stream in self.streams[device])
        end = max(start, free) + clock.SYNC_CALL_NS
        self.call(name, "sync", start, end)
        self.all_known(device)

    def wait_snapshot(self, snapshot: Snapshot) -> None:
        """The host waits for an event."""
        start = self.thread.now
        end = max(start, snapshot.end_ns) + clock.SYNC_CALL_NS
        self.call("cudaEventSynchronize", "sync", start, end)
        snapshot.host_waited()

    def all_known(self, device: int) -> None:
        """The host has seen all work of a device complete."""
        for stream in self.streams[device]:
            stream.host_waited()

    def memory_call(self, device: int, freed: list[int], allocated: int) -> None:
        """cudaFree (which waits for the device) per freed segment, then cudaMalloc."""
        for _size in freed:
            start = self.thread.now
            free = max(stream.free_ns for stream in self.streams[device])
            self.call("cudaFree", "free", start, max(start, free) + clock.FREE_NS)
            self.all_known(device)
        if allocated:
            start = self.thread.now
            self.call("cudaMalloc", "malloc", start, start + clock.MALLOC_NS)

    def _asynchronous(
        self, device: int, texts: CallTexts, size_bytes: int, duration_ns: int
    ) -> None:
        start = self.thread.now + clock.BEFORE_LAUNCH_NS
        end = start + clock.LAUNCH_NS
        stream, begin, done = self._enqueue(device, end, duration_ns)
        place = (device, stream.number, begin, done, size_bytes)
        code = self.calls.code(texts)
        self._record(self._pack(self.thread_number(), start, end, *place, code))
        self.thread.now = end + clock.AFTER_LAUNCH_NS

    def _enqueue(
        self, device: int, ready_ns: int, duration_ns: int
    ) -> tuple[StreamState, int, int]:
        stream = self.stream(device)
        begin = max(ready_ns + clock.LAUNCH_LATENCY_NS, stream.free_ns)
        done = stream.free_ns = begin + duration_ns
        stream.count += 1
        return stream, begin, done


@cache
def _copy_texts(direction: str, pinned: bool) -> CallTexts:
    memory = "pinned" if pinned else "pageable"
    name = COPY_NAMES[direction, pinned]
    return CallTexts("cudaMemcpyAsync", "memcpy", "memcpy", name, direction, memory)


def _forget(row: bytes) -> None:
    """The row of a forked child."""
