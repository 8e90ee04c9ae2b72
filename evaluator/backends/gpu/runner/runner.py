"""The runner: the process that owns the CUDA context in which a submission's kernels run.

Nothing in here decides anything. It maps the referee's memory, loads a program, launches on request, and says
what two clocks read. A kernel may read and write all of this process's device memory, so no seed, no answer, no input
before its time and no verdict is ever in it.

    referee                                 runner
    flush {bytes} + descriptor      ->      maps it, to be read only        -> done
    arena {bytes} + descriptor      ->      maps it                         -> done
    load {prints, attributes} + image ->    loads the program               -> done
    plan {id, steps}                ->      packs the arguments             -> done
    go {id, held}                   ->      flush, events, steps, wait      -> done {event_us, host_us, printed}
    check {offset, count, factor}   ->      the canary's own kernel         -> done
    unload                          ->      forgets the program             -> done
    (end of the stream)             ->      ends

Each answer is `{"done": …}` or `{"fault": {"error", "message", "printed"}}`; after a fault the runner is good for
nothing more.
"""

import ctypes
import mmap
import os
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

from evaluator.backends.gpu.runner.channel import Channel, ChannelClosedError
from evaluator.backends.gpu.runner.context_lock import ContextLock

PRINTED_BYTES: Final = 1 << 16


Launches: TypeAlias = Sequence[Callable[[], None]]
"""The steps of a plan, each of which is queued without waiting."""


class DeviceError(Exception):
    """The device refused or broke: `error` is the driver's name for it."""

    def __init__(self, error: str, message: str) -> None:
        super().__init__(message)
        self.error = error


class Device(Protocol):
    """What a runner needs of a device. `cuda_device.CudaDevice` is the real one."""

    facts: dict[str, Any]
    """What the referee may know about the context: times of its making, size of the L2."""

    def map_flush(self, descriptor: int, size_bytes: int) -> None:
        """Map memory, to be read only, that is several times as large as the L2: reading it flushes that."""

    def map_arena(self, descriptor: int, size_bytes: int) -> None:
        """Map the referee's memory; what was mapped before is unmapped."""

    def load(self, image: bytes, attributes: bool) -> None:
        """Load a program. `attributes`: its launches are cooperative or in clusters."""

    def prepare(self, steps: list[dict[str, Any]]) -> Launches:
        """Steps with offsets into the arena, ready to be launched."""

    def go(self, launches: Launches, held: bool = False) -> tuple[float, float]:
        """Flush the L2, launch, wait. Event time and host time, µs. `held`: the device begins when all is queued, and
        the host's clock with it: for a launch that is timed.
        """

    def check(self, offset: int, count: int, factor: int) -> None:
        """Write `index * factor` (uint32) to `count` elements of the arena from byte `offset`, with a kernel."""

    def unload(self) -> None:
        """Remove the program and all that it could have left on the device."""


MakeDevice: TypeAlias = Callable[[Callable[[], None]], Device]
"""Makes the device; calls what it is given just before it makes a context. Raises DeviceError."""


def converse(channel: Channel, make_device: MakeDevice, lock: ContextLock) -> None:
    """A runner's whole life. Raises ChannelClosedError when the referee is done with it.

    `lock`: held while the context is made.
    """
    output = _Output()
    try:
        device = make_device(lock.enter)
    except DeviceError as fault:
        channel.send({"fault": {"error": fault.error, "message": str(fault), "printed": output.take()}})
        return
    finally:
        lock.leave()
    channel.send({"done": device.facts})
    plans: dict[int, Launches] = {}
    while True:
        order = channel.receive()
        try:
            answer = _obey(order, channel, device, plans)
            if order.get("prints"):
                answer["printed"] = output.take()
        except DeviceError as fault:
            channel.send({"fault": {"error": fault.error, "message": str(fault), "printed": output.take()}})
            return
        except Exception:
            said = traceback.format_exc(limit=-3)
            channel.send({"fault": {"error": "RUNNER", "message": said, "printed": output.take()}})
            return
        channel.send({"done": answer})


def _obey(order: dict[str, Any], channel: Channel, device: Device, plans: dict[int, Launches]) -> dict[str, Any]:
    match order["order"]:
        case "go":
            event_us, host_us = device.go(plans[order["id"]], order.get("held", False))
            return {"event_us": event_us, "host_us": host_us}
        case "plan":
            plans[order["id"]] = device.prepare(order["steps"])
        case "load":
            descriptor = channel.take_descriptor()
            try:
                with mmap.mmap(descriptor, 0, prot=mmap.PROT_READ) as image:
                    device.load(image[:], order["attributes"])
            finally:
                os.close(descriptor)
        case "flush":
            device.map_flush(channel.take_descriptor(), order["bytes"])
        case "arena":
            plans.clear()
            device.map_arena(channel.take_descriptor(), order["bytes"])
        case "check":
            device.check(order["offset"], order["count"], order["factor"])
        case "unload":
            plans.clear()
            device.unload()
        case other:
            raise ChannelClosedError(f"an unknown order: {other}")
    return {}


class _Output:
    """What this process prints (device printf and assert come through it), kept in memory and bounded."""

    def __init__(self) -> None:
        self._file = os.memfd_create("printed")
        for stream in (1, 2):
            os.dup2(self._file, stream)
        self._libc = ctypes.CDLL(None)

    def take(self) -> str:
        """What was printed since the last time, its beginning."""
        self._libc.fflush(None)
        text = os.pread(self._file, PRINTED_BYTES, 0)
        os.ftruncate(self._file, 0)
        os.lseek(self._file, 0, os.SEEK_SET)
        return text.decode(errors="replace")


def now_us() -> float:
    """The host's clock, µs."""
    return time.perf_counter_ns() / 1000
