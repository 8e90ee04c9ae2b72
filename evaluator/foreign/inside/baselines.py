"""The process that times a file of someone else as PyTorch computes it: eager, in a CUDA graph, compiled.

It is told what to time, and says of each in turn that it is ready, or why it cannot be; at the word to go it answers
with the times. A message is its length (8 bytes, little-endian) and a JSON text:

    {"form", "text", "sizes", "device", "baselines"}  ->  then for each: ready NAME | failed NAME, why
    {"go": NAME}                                      ->  times NAME, µs
"""

import json
import os
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

from evaluator.foreign.inside.kernelbench import Arguments, ReferenceFile
from evaluator.foreign.inside.server import FORMS

_WARM_UPS: Final = 5
_MOST_LAUNCHES: Final = 100
_LEAST_LAUNCHES: Final = 20
_TIMED_S: Final = 1.0
"""Then the least number of launches is enough."""
_QUEUEING_CYCLES: Final = 100_000
"""As the referee waits before its own baselines: about 50 us, so that the host can queue ahead."""
_CYCLES_PER_US: Final = 2000
_AHEAD: Final = 1.5
"""How much longer the device waits than the host took to queue the warm-ups: else it would wait between operators."""
_MOST_CYCLES: Final = 20_000 * _CYCLES_PER_US
_SEEDS: Final = (1, 2)
"""Of contents that take turns, so that nothing that was computed for the last ones is worth keeping."""
_WHY: Final = 300
_MODES: Final = {"compile": None, "compile_max_autotune": "max-autotune"}


class _Subject:
    """One file on its device, with inputs that are refilled before each launch."""

    def __init__(self, form: str, text: str, sizes: Mapping[str, int], device: str) -> None:
        self._device = torch.device(device)
        # What compares two precisions compares no speeds; a submission is held to float32.
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        with self._device:
            file: ReferenceFile = FORMS[form](text, sizes)
            self.model = file.model(_SEEDS[0]).to(self._device)
            sets = [file.arguments(self.model, seed) for seed in _SEEDS]
        self._arguments: Arguments = sets[0]
        self._contents = [{name: one.to(self._device) for name, one in each.tensors.items()} for each in sets]
        self._tensors = {name: one.clone() for name, one in self._contents[0].items()}
        # A device for all that is made costs each operator some microseconds: only where the file needs it.
        self._around: Callable[[], Any] = torch.no_grad
        try:
            self.called(self.model)
        except RuntimeError:
            self._around = lambda: self._device
            self.called(self.model)

    def called(self, compute: Callable[..., Any]) -> Any:
        """What `compute` returns for the inputs as they are."""
        args, kwargs = self._arguments.with_tensors(self._tensors)
        with torch.no_grad(), self._around():
            return compute(*args, **kwargs)

    def refill(self, turn: int) -> None:
        """The next contents, in the same memory."""
        for name, one in self._contents[turn % len(self._contents)].items():
            self._tensors[name].copy_(one)

    def built(self, baseline: str) -> Callable[[], Any]:
        """A call that computes the answer once. Raises whatever keeps it from being built."""
        if baseline == "eager":
            return lambda: self.called(self.model)
        if baseline == "cuda_graph":
            return self._captured()
        torch._dynamo.reset()
        compiled = torch.compile(self.model, mode=_MODES[baseline])
        return lambda: self.called(compiled)

    def _captured(self) -> Callable[[], Any]:
        if self._device.type != "cuda":
            raise RuntimeError("a CUDA graph needs a GPU")
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(_WARM_UPS):
                self.called(self.model)
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.called(self.model)
        return graph.replay


class _Clock:
    """Times launches as the referee does: fresh contents, the L2 flushed, events around what is timed."""

    def __init__(self, device: str) -> None:
        self._on_gpu = device == "cuda"
        if self._on_gpu:
            l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
            self._scratch = torch.zeros(3 * max(l2_bytes, 16 << 20) // 4, dtype=torch.int32, device=device)
            self._begin, self._end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def times_us(self, compute: Callable[[], Any], refill: Callable[[int], None]) -> list[float]:
        """Of launches after a few that warm up."""
        times_us: list[float] = []
        queued_us = sorted(_on_host(compute) for _ in range(_WARM_UPS))[_WARM_UPS // 2]
        self._cycles = min(_MOST_CYCLES, max(_QUEUEING_CYCLES, int(_AHEAD * queued_us * _CYCLES_PER_US)))
        until_s = time.monotonic() + _TIMED_S
        for turn in range(_WARM_UPS + _MOST_LAUNCHES):
            refill(turn)
            took_us = self._on_device(compute) if self._on_gpu else _on_host(compute)
            if turn >= _WARM_UPS:
                times_us.append(took_us)
            if len(times_us) >= _LEAST_LAUNCHES and time.monotonic() > until_s:
                break
        return times_us

    def _on_device(self, compute: Callable[[], Any]) -> float:
        torch.cuda._sleep(self._cycles)
        self._scratch.max()
        self._begin.record()
        compute()
        self._end.record()
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1000


def _on_host(compute: Callable[[], Any]) -> float:
    started_ns = time.perf_counter_ns()
    compute()
    return (time.perf_counter_ns() - started_ns) / 1000


def _why(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"[:_WHY]


def _serve(receive: Callable[[], Any], send: Callable[[Mapping[str, Any]], None]) -> None:
    asked = receive()
    names: Sequence[str] = asked["baselines"]
    try:
        subject = _Subject(asked["form"], asked["text"], asked["sizes"], asked["device"])
        clock = _Clock(asked["device"])
    except Exception as error:
        for name in names:
            send({"failed": name, "why": _why(error)})
        return
    for name in names:
        try:
            compute = subject.built(name)
            for turn in range(_WARM_UPS):
                subject.refill(turn)
                compute()
            if asked["device"] == "cuda":
                torch.cuda.synchronize()
        except Exception as error:
            send({"failed": name, "why": _why(error)})
            continue
        send({"ready": name})
        receive()
        try:
            send({"times": name, "us": clock.times_us(compute, subject.refill)})
        except Exception as error:
            send({"failed": name, "why": _why(error)})
        del compute


def main() -> None:
    """The process. What the file prints goes to stderr."""
    for name in ("TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"):
        os.environ[name] = os.path.abspath(name.lower())
    sink, source = os.fdopen(os.dup(1), "wb"), os.fdopen(os.dup(0), "rb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

    def send(message: Mapping[str, Any]) -> None:
        encoded = json.dumps(message).encode()
        sink.write(struct.pack("<Q", len(encoded)) + encoded)
        sink.flush()

    def receive() -> Any:
        (length,) = struct.unpack("<Q", source.read(8))
        return json.loads(source.read(length))

    _serve(receive, send)


if __name__ == "__main__":
    main()
