"""The runner's side of a device without a GPU: its memory is a file that referee and runner both map.

Its programs are JSON, `{symbol: deed}`, and a deed does to the arena what a kernel of that kind would do. Only what a
runner may see is imported here, because it runs in the runner's sandbox.
"""

import json
import math
import mmap
import os
import signal
import struct
import time

import numpy as np

from evaluator.backends.gpu.runner.runner import DeviceError, now_us


class StandIn:
    """A device (`runner.Device`) that computes on the host."""

    MAKING_S = 0

    def __init__(self, before_context=lambda: None):
        before_context()
        time.sleep(self.MAKING_S)
        self.facts = {"l2_bytes": 0, "context_ms": 0.0}
        self._arena = None
        self._program = {}
        self._launches = 0

    def map_flush(self, descriptor, size_bytes):
        os.close(descriptor)

    def map_arena(self, descriptor, size_bytes):
        self._arena = np.frombuffer(mmap.mmap(descriptor, size_bytes), np.uint8)
        os.close(descriptor)

    def load(self, image, attributes):
        if image == b"for another architecture":
            raise DeviceError("CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available")
        self._program, self._launches = json.loads(image), 0

    def prepare(self, steps):
        return [self._prepared(step) for step in steps]

    def go(self, launches, held=False):
        started_us = now_us()
        for launch in launches:
            launch()
        event_us = now_us() - started_us
        forged_us = self._program.get("event_us")
        return (forged_us if forged_us and event_us > 1000 else event_us), now_us() - started_us

    def check(self, offset, count, factor):
        right = (np.arange(count, dtype=np.uint64) * factor % (1 << 32)).astype(np.uint32)
        self._arena[offset : offset + 4 * count] = right.view(np.uint8)

    def unload(self):
        self._program = {}

    def _prepared(self, step):
        if step["step"] == "fill":
            target, pattern = self._bytes(step["offset"], step["bytes"]), bytes.fromhex(step["pattern"])
            return lambda: target.__setitem__(
                slice(None), np.frombuffer(pattern * (len(target) // len(pattern)), np.uint8)
            )
        if step["step"] == "copy":
            target, source = self._bytes(step["offset"], step["bytes"]), self._bytes(step["source"], step["bytes"])
            return lambda: target.__setitem__(slice(None), source)
        offsets = [offset for _, offset in step["pointers"]]
        (count,) = struct.unpack_from("<i", bytes.fromhex(step["arguments"]), step["offsets"][-1])
        return lambda: self._do(self._program[step["symbol"]], offsets, count)

    def _bytes(self, offset, size_bytes):
        return self._arena[offset : offset + size_bytes]

    def _do(self, deed, offsets, count):
        """Deeds of a kernel `(const float* x, float* y, int n)` that should compute relu."""
        self._launches += 1
        x, y = (self._bytes(offset, 4 * count).view(np.float32) for offset in offsets)
        kind, _, rest = deed.partition(" ")
        # Of all launches after one, of one alone (=), or of those of one size (n); all others are right.
        since = rest.lstrip("=n")
        now = {"=": self._launches == int(since or 0), "n": count == int(since or 0)} if since.isdigit() else {}
        late = since.isdigit() and now.get(rest[:1], self._launches > int(since))
        if kind in ("relu", "slow") or (since.isdigit() and not late):
            y[:] = np.maximum(x, 0)
            time.sleep(self._takes_s() if kind == "slow" else 0)
        elif kind == "noisy":
            y[:] = np.where(x > 0, x, np.float32(-0.0 if self._launches % 2 else 0.0))
        elif kind == "hang":
            time.sleep(3600)
        elif kind == "fault":
            raise DeviceError("CUDA_ERROR_ILLEGAL_ADDRESS", "cuEventSynchronize failed: an illegal memory access")
        elif kind == "broken":
            raise DeviceError("CUDA_ERROR_UNKNOWN", "unknown error")
        elif kind == "die":
            os._exit(3)
        elif kind == "signal":
            os.kill(os.getpid(), getattr(signal, rest))
        elif kind == "beyond":
            y[:] = np.maximum(x, 0)
            self._bytes(offsets[1] + 4 * count, 4).view(np.float32)[0] = 1
        elif kind == "neighbour":  # the output of the next run, where that is of the same size and launched together
            y[:] = np.maximum(x, 0)
            stride = -(-(4 * count + (1 << 20)) // 256) * 256
            self._bytes(offsets[1] + 2 * stride, 4).view(np.float32)[0] = 1
        elif kind == "before":
            y[:] = np.maximum(x, 0)
            self._bytes(offsets[0] - 4, 4).view(np.float32)[0] = 1
        elif kind == "input":
            y[:] = np.maximum(x, 0)
            x[0] = 1 - x[0]
        elif kind == "assert":
            os.write(2, b"k.cu:7: void k(): block: [1,0,0], thread: [3,0,0] Assertion `i < n` failed.\n")
            raise DeviceError("CUDA_ERROR_ASSERT", "device-side assert triggered")
        elif kind == "print":
            y[:] = np.maximum(x, 0)
            os.write(1, b"hello from the device\n")
        else:
            assert kind in ("nothing", "wrong"), kind
            y[:] = x if kind == "wrong" else y

    def _takes_s(self):
        """Of this launch of a slow kernel, which may become slow, and hang, only later."""
        if self._launches > self._program.get("hangs_after", math.inf):
            return 3600
        return self._program.get("takes_s", 0.002) if self._launches > self._program.get("slow_after", 0) else 0


class SlowStandIn(StandIn):
    """A device whose context takes long to be made."""

    MAKING_S = 0.5


class KilledStandIn(StandIn):
    """A device under which somebody kills the runner, while it makes its context."""

    def __init__(self, before_context):
        before_context()
        os.kill(os.getpid(), signal.SIGKILL)


class LoneStandIn(StandIn):
    """The device of a process that no referee shares memory with: addresses lie in one array of its own."""

    def __init__(self):
        super().__init__()
        self._arena = np.zeros(1 << 24, np.uint8)
        self._next = 1 << 20

    def allocate(self, size_bytes, content, poison):
        start = self._next
        self._next += -(-size_bytes // 256) * 256 + (1 << 17)
        if content is not None:
            self._bytes(start, size_bytes)[:] = np.frombuffer(content, np.uint8)
        elif poison is not None:
            self._bytes(start, size_bytes)[:] = poison
        return start

    def launch(self, steps):
        for launch in self.prepare(steps):
            launch()

    def close(self):
        pass
