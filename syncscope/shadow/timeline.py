"""What the host calls and what the device does, on the simulated clock.

`Timeline` advances the calling thread's clock and appends the rows that a real GPU's
recording would have: runtime calls and device activity, as plain tuples in the order of
`RuntimeRow` and `ActivityRow`. It knows nothing of tensors.
"""

from __future__ import annotations

from typing import Any

from syncscope.context import CaptureContext
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


class Timeline:
    """Host threads, streams of all devices, and the rows they leave behind."""

    def __init__(self, context: CaptureContext, model: GpuModel, devices: int) -> None:
        self.context = context
        self.model = model
        self.roofline = Roofline(model)
        self.thread = HostThread()
        self.runtime: list[Any] = context.writer.rows("runtime")
        self.activity: list[Any] = context.writer.rows("activity")
        self.default = [StreamState(device, DEFAULT_STREAM) for device in range(devices)]
        self.streams: list[list[StreamState]] = [[stream] for stream in self.default]
        self.correlation = 0

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

    def call(self, name: str, kind: str, start_ns: int, end_ns: int) -> int:
        """Record a runtime call and move the host to its end; returns its correlation id."""
        self.correlation = number = self.correlation + 1
        self._record_call(name, kind, start_ns, end_ns, number)
        return number

    def launch(self, device: int, name: str, duration_ns: int) -> None:
        """A kernel on the current stream: the host goes on as soon as it is enqueued.

        This is the hot path: no calls, and plain tuples, which the garbage collector skips.
        """
        thread = self.thread
        start = thread.now + clock.BEFORE_LAUNCH_NS
        end = start + clock.LAUNCH_NS
        thread.now = end + clock.AFTER_LAUNCH_NS
        self.correlation = number = self.correlation + 1
        ident = thread.number
        if ident < 0:
            ident = self.thread_number()
        streams = thread.streams
        stream = (streams and streams.get(device)) or self.default[device]
        begin = end + clock.LAUNCH_LATENCY_NS
        if stream.free_ns > begin:
            begin = stream.free_ns
        stream.free_ns = done = begin + duration_ns
        stream.count += 1
        self.runtime.append((ident, start, end, "cudaLaunchKernel", "launch", number))
        self.activity.append(
            (device, stream.number, begin, done, "kernel", name, "", "", 0, number)
        )

    def launch_graph(self, device: int, kernels: list[tuple[str, int]]) -> None:
        """Kernels enqueued by one call."""
        start = self.thread.now
        number = self.call("cudaGraphLaunch", "launch", start, start + 2 * clock.LAUNCH_NS)
        for name, duration in kernels:
            self._enqueue(device, number, self.thread.now, duration, ("kernel", name, "", "", 0))

    def memset(self, device: int, size_bytes: int) -> None:
        """Fill device memory with zeros."""
        start = self.thread.now + clock.BEFORE_LAUNCH_NS
        end = start + clock.LAUNCH_NS
        number = self.call("cudaMemsetAsync", "memset", start, end)
        duration = self.roofline.kernel(size_bytes)
        what = ("memset", "Memset (Device)", "", "", size_bytes)
        self._enqueue(device, number, end, duration, what)
        self.thread.now = end + clock.AFTER_LAUNCH_NS

    def copy(
        self, device: int, direction: str, size_bytes: int, *, pinned: bool, waits: bool
    ) -> int:
        """A copy between host and device on the current stream; returns its number on it.

        Downloads to pageable memory wait inside cudaMemcpyAsync, as do uploads from it
        that are larger than the driver's staging buffer. `waits` adds the
        cudaStreamSynchronize of a blocking copy.
        """
        thread = self.thread
        start = thread.now
        duration = self.roofline.copy(size_bytes, pinned)
        end = start + clock.COPY_CALL_NS
        self.correlation = number = self.correlation + 1
        memory = "pinned" if pinned else "pageable"
        what = ("memcpy", COPY_NAMES[direction, pinned], direction, memory, size_bytes)
        stream, done = self._enqueue(device, number, start, duration, what)
        staged = direction == "h2d" and size_bytes <= clock.STAGED_BYTES
        if not pinned and not staged:
            end = max(end, done)
            if direction == "d2h":
                stream.host_waited()
        self._record_call("cudaMemcpyAsync", "memcpy", start, end, number)
        if waits:
            self.wait_stream(stream)
        return stream.count

    def device_copy(self, device: int, size_bytes: int) -> None:
        """A copy within a device (or between two)."""
        start = self.thread.now + clock.BEFORE_LAUNCH_NS
        end = start + clock.LAUNCH_NS
        number = self.call("cudaMemcpyAsync", "memcpy", start, end)
        what = ("memcpy", "Memcpy DtoD (Device -> Device)", "d2d", "", size_bytes)
        self._enqueue(device, number, end, self.roofline.kernel(2 * size_bytes), what)
        self.thread.now = end + clock.AFTER_LAUNCH_NS

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

    def _enqueue(
        self,
        device: int,
        correlation: int,
        ready_ns: int,
        duration_ns: int,
        what: tuple[str, str, str, str, int],
    ) -> tuple[StreamState, int]:
        stream = self.thread.streams.get(device) or self.default[device]
        begin = ready_ns + clock.LAUNCH_LATENCY_NS
        if stream.free_ns > begin:
            begin = stream.free_ns
        done = stream.free_ns = begin + duration_ns
        stream.count += 1
        self.activity.append((device, stream.number, begin, done, *what, correlation))
        return stream, done

    def _record_call(self, name: str, kind: str, start_ns: int, end_ns: int, number: int) -> None:
        thread = self.thread
        ident = thread.number if thread.number >= 0 else self.thread_number()
        self.runtime.append((ident, start_ns, end_ns, name, kind, number))
        thread.now = end_ns
