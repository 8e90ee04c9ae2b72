"""The real device of a runner, through PyCUDA (its owner) and, for what PyCUDA lacks, `driver`."""

import contextlib
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pycuda.driver as cuda

from evaluator.backends.gpu.runner import driver
from evaluator.backends.gpu.runner.runner import DeviceError, Launches, now_us
from evaluator.backends.gpu.runner.stream_gate import HEADER, HOLD, StreamGate

_OWN_KERNELS: Final = (
    HEADER
    + b"""
.extern .shared .align 16 .b8 shared_all[];

.visible .entry check(.param .u64 out, .param .u32 count, .param .u32 factor)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [count];
    ld.param.u32 %r2, [factor];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.u32 %r6, %r3, %r4, %r5;
    setp.ge.u32 %p, %r6, %r1;
    @%p bra done;
    mul.lo.u32 %r7, %r6, %r2;
    mul.wide.u32 %rd2, %r6, 4;
    add.u64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r7;
done:
    ret;
}

.visible .entry sweep(.param .u64 from, .param .u32 vectors, .param .u64 sink)
{
    .reg .pred %p<3>;
    .reg .b32 %r<16>;
    .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [from];
    ld.param.u32 %r1, [vectors];
    ld.param.u64 %rd2, [sink];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, %nctaid.x;
    mul.lo.u32 %r7, %r6, %r3;
    mov.u32 %r8, 0;
more:
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra done;
    mul.wide.u32 %rd3, %r5, 16;
    add.u64 %rd4, %rd1, %rd3;
    ld.global.v4.u32 {%r9, %r10, %r11, %r12}, [%rd4];
    or.b32 %r9, %r9, %r10;
    or.b32 %r11, %r11, %r12;
    or.b32 %r8, %r8, %r9;
    or.b32 %r8, %r8, %r11;
    add.u32 %r5, %r5, %r7;
    bra more;
done:
    setp.eq.u32 %p2, %r8, 305419896;
    @%p2 st.global.u32 [%rd2], %r8;
    ret;
}

.visible .entry scrub(.param .u32 words)
{
    .reg .pred %p;
    .reg .b32 %r<8>;
    ld.param.u32 %r1, [words];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, shared_all;
    mov.u32 %r5, 0;
again:
    setp.ge.u32 %p, %r2, %r1;
    @%p bra done;
    shl.b32 %r4, %r2, 2;
    add.u32 %r4, %r4, %r3;
    st.volatile.shared.u32 [%r4], %r5;
    add.u32 %r2, %r2, 1024;
    bra again;
done:
    ret;
}
"""
    + HOLD
)
"""Our own kernels, as PTX for the driver to compile: the canary; a reader of memory, which leaves the L2 full of it
and nothing to be written back; zeros over all shared memory of a block; and what holds the stream (`stream_gate`)."""


@contextlib.contextmanager
def _faults(what: str) -> Iterator[None]:
    try:
        yield
    except driver.DriverError as error:
        raise DeviceError(error.name, str(error)) from error
    except cuda.Error as error:
        state = driver.state_of_context()
        raise DeviceError(state if state != driver.NO_ERROR else "", f"{what}: {error}") from error


class CudaDevice:
    """The first visible GPU, in a context of this process's own."""

    def __init__(self, before_context: Callable[[], None] = lambda: None) -> None:
        """`before_context` is called when all is ready to make the context: it may wait. Raises DeviceError."""
        started_us = now_us()
        with _faults("making a context"):
            cuda.init()
            inited_us = now_us()
            before_context()
            begun_us = now_us()
            self._device = cuda.Device(0)
            self._context = self._device.make_context(cuda.ctx_flags.SCHED_SPIN)
            made_us = now_us()
            attributes = self._device.get_attributes()
            kind = cuda.device_attribute
            self._l2_bytes = attributes[kind.L2_CACHE_SIZE]
            self._multiprocessors = attributes[kind.MULTIPROCESSOR_COUNT]
            self._shared_bytes = attributes[kind.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN]
            self._persists = attributes.get(getattr(kind, "MAX_PERSISTING_L2_CACHE_SIZE", None), 1) > 0
            self._begin, self._end = cuda.Event(), cuda.Event()
            self._own = cuda.module_from_buffer(_OWN_KERNELS)
            self._check = self._own.get_function("check")
            self._scrub = self._own.get_function("scrub")
            self._sweep = self._own.get_function("sweep")
            hold = self._own.get_function("hold")
            self._word = driver.HostWord()
            self._gate = StreamGate(
                self._word, lambda packed: hold._launch_kernel((1, 1, 1), (1, 1, 1), packed, 0, None)
            )
            self._sweep_grid = (4 * self._multiprocessors, 1, 1)
            self._scrub.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, self._shared_bytes)
        self._arena: driver.SharedMemory | None = None
        self._flush: driver.SharedMemory | None = None
        self._module: Any = None
        self._functions: dict[str, Any] = {}
        self._dynamic_bytes: dict[str, int] = {}
        """Of shared memory, that launches of each kernel were allowed; its static memory counts beside it."""
        self.facts: dict[str, Any] = {
            "init_ms": (inited_us - started_us) / 1000,
            "context_ms": (made_us - begun_us) / 1000,
            "l2_bytes": self._l2_bytes,
            "multiprocessors": self._multiprocessors,
            "bus_id": self._device.pci_bus_id(),
        }

    def map_flush(self, descriptor: int, size_bytes: int) -> None:
        with _faults("mapping what flushes the L2"):
            # All runners share it, so no kernel may write there; one each would cost a tenth of its making.
            self._flush = driver.SharedMemory.imported(descriptor, size_bytes, writable=False)
        start = self._flush.pointer
        # The sweep writes to its sink only where it has read a number that is not there.
        self._sweep_arguments = np.frombuffer(struct.pack("<QI4xQ", start, size_bytes // 16, start), np.uint8)

    def map_arena(self, descriptor: int, size_bytes: int) -> None:
        with _faults("mapping the buffers"):
            if self._arena is not None:
                self._arena.close()
                self._arena = None
            self._arena = driver.SharedMemory.imported(descriptor, size_bytes)

    def load(self, image: bytes, attributes: bool) -> None:
        with _faults("loading the program"):
            self._functions.clear()
            self._dynamic_bytes.clear()
            self._module = driver.CudaModule(image) if attributes else cuda.module_from_buffer(image)

    def prepare(self, steps: list[dict[str, Any]]) -> Launches:
        with _faults("preparing the launches"):
            return [self._prepared(step) for step in steps]

    def _base(self) -> int:
        """The address that the steps' offsets count from."""
        assert self._arena is not None
        return self._arena.pointer

    def _prepared(self, step: dict[str, Any]) -> Callable[[], None]:
        base = self._base()
        match step["step"]:
            case "launch":
                return self._prepared_launch(step, base)
            case "fill":
                return _prepared_fill(self._target(step), step["bytes"], bytes.fromhex(step["pattern"]))
            case _:
                source, target, size = base + step["source"], self._target(step), step["bytes"]
                return lambda: cuda.memcpy_dtod_async(target, source, size)

    def _target(self, step: dict[str, Any]) -> int:
        """The address that a fill or a copy goes to: in the buffers, or in a variable of the program."""
        if step["variable"] is None:
            return int(self._base() + step["offset"])
        if isinstance(self._module, driver.CudaModule):
            start = self._module.variable(step["variable"])
        else:
            start, _ = self._module.get_global(step["variable"])
        return int(start) + int(step["offset"])

    def _prepared_launch(self, step: dict[str, Any], base: int) -> Callable[[], None]:
        arguments = bytearray.fromhex(step["arguments"])
        for place, offset in step["pointers"]:
            arguments[place : place + 8] = (base + offset).to_bytes(8, "little")
        symbol, grid, block = step["symbol"], tuple(step["grid"]), tuple(step["block"])
        shared_bytes, packed = step["shared_bytes"], bytes(arguments)
        if isinstance(self._module, driver.CudaModule):
            module, offsets, cooperative = self._module, step["offsets"], step["cooperative"]
            cluster = step["cluster"]
            return lambda: module.launch(symbol, grid, block, shared_bytes, packed, offsets, cooperative, cluster)
        if symbol not in self._functions:
            self._functions[symbol] = self._module.get_function(symbol)
        function = self._functions[symbol]
        # A launch is prepared before others run, which must keep what they were allowed.
        if shared_bytes > self._dynamic_bytes.get(symbol, 0):
            self._dynamic_bytes[symbol] = shared_bytes
            function.set_attribute(cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        return lambda: function._launch_kernel(grid, block, packed, shared_bytes, None)

    def go(self, launches: Launches, held: bool = False) -> tuple[float, float]:
        with _faults("running"):
            if self._persists:
                driver.reset_persisting_l2()
            if held:
                self._gate.close()
            started_us = now_us()
            # The flush runs while the host queues what follows, and where the stream is held only then: so the time
            # of queueing does not count. It reads: had it written, the kernel would pay for writing the flush's lines
            # back.
            self._sweep._launch_kernel(self._sweep_grid, (512, 1, 1), self._sweep_arguments, 0, None)
            self._begin.record()
            steps = (*launches, self._end.record)
            if held:
                started_us = self._gate.queue(steps)
            else:
                for step in steps:
                    step()
            self._end.synchronize()
            ended_us = now_us()
            return self._end.time_since(self._begin) * 1000, ended_us - started_us

    def check(self, offset: int, count: int, factor: int) -> None:
        assert self._arena is not None
        with _faults("the canary"):
            self._check(
                np.uint64(self._arena.pointer + offset),
                np.uint32(count),
                np.uint32(factor),
                grid=(-(-count // 256), 1),
                block=(256, 1, 1),
            )
            self._context.synchronize()

    def unload(self) -> None:
        with _faults("removing the program"):
            self._functions.clear()
            self._dynamic_bytes.clear()
            if isinstance(self._module, driver.CudaModule):
                self._module.unload()
            self._module = None
            words = self._shared_bytes // 4
            self._scrub(
                np.uint32(words), grid=(4 * self._multiprocessors, 1), block=(1024, 1, 1), shared=self._shared_bytes
            )
            if self._persists:
                driver.reset_persisting_l2()
            self._context.synchronize()
            self._word.clear()


class LoneCudaDevice(CudaDevice):
    """The GPU of a process that no referee shares memory with (`solo`).

    Each buffer is an allocation of its own, so that a tool can tell where it ends; offsets of steps are addresses.
    """

    def __init__(self) -> None:
        super().__init__()
        self._allocations: list[cuda.DeviceAllocation] = []

    def _base(self) -> int:
        return 0

    def allocate(self, size_bytes: int, content: bytes | memoryview | None, poison: int | None) -> int:
        """The address of a new buffer that holds `content`, or the byte `poison` all over; with neither, nothing yet.

        Buffers live as long as the device, so that no address has two meanings. Raises DeviceError.
        """
        with _faults("allocating a buffer"):
            allocation = cuda.mem_alloc(size_bytes)
            self._allocations.append(allocation)
            if content is not None:
                cuda.memcpy_htod(allocation, content)
            elif poison is not None:
                cuda.memset_d8(allocation, poison, size_bytes)
            return int(allocation)

    def launch(self, steps: list[dict[str, Any]]) -> None:
        """Do all steps and wait for their end. Raises DeviceError."""
        launches = self.prepare(steps)
        with _faults("running"):
            for launch in launches:
                launch()
            self._context.synchronize()

    def close(self) -> None:
        """End the context, so that a tool which watches it tells all that it has seen."""
        self._allocations.clear()
        self._context.pop()
        self._context.detach()


def _prepared_fill(address: int, size_bytes: int, pattern: bytes) -> Callable[[], None]:
    # A pattern of one byte over and over is what a memset sets, which needs no alignment then.
    pattern = pattern[:1] if len(set(pattern)) == 1 else pattern
    value = int.from_bytes(pattern, "little")
    if len(pattern) in (1, 2, 4, 8) and address % min(len(pattern), 4) == 0:
        match len(pattern):
            case 1:
                return lambda: cuda.memset_d8_async(address, value, size_bytes, None)
            case 2:
                return lambda: cuda.memset_d16_async(address, value, size_bytes // 2, None)
            case 4:
                return lambda: cuda.memset_d32_async(address, value, size_bytes // 4, None)
            case _:
                low, high = value & 0xFFFFFFFF, value >> 32

                def fill() -> None:
                    cuda.memset_d2d32_async(address, 8, low, 1, size_bytes // 8, None)
                    cuda.memset_d2d32_async(address + 4, 8, high, 1, size_bytes // 8, None)

                return fill
    # Bytes of the plan's own: they wait on the device, so that each run moves what is there already.
    held = cuda.to_device(np.frombuffer(pattern * (size_bytes // len(pattern)), np.uint8))
    return lambda: cuda.memcpy_dtod_async(address, held, size_bytes)
