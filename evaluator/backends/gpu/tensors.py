"""Torch tensors: random contents drawn on the device, and the PyTorch baselines of problems."""

import functools
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import array_api_compat.torch as torch_namespace
import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from common.contract.timing import DeviceState
from evaluator.backends.gpu.runner import driver
from evaluator.backends.gpu.runner.stream_gate import HEADER, HOLD, HOLD_BYTES, StreamGate
from evaluator.errors import GpuError
from evaluator.problems.arrays import Array, NumpyRng, Shape
from evaluator.problems.problem import Problem, Sizes

_ALIGNED_BYTES = 16
"""Where each array begins in a piece of memory that holds several: the device code reads sixteen bytes at once."""


_PIECE_BYTES = 256
"""Where pieces of new memory begin: as what the driver gives."""


class TorchRng:
    """Dice that draw tensors on `device`, from a generator of their own there: no content crosses the bus."""

    def __init__(self, seed: int, device: str):
        self.device = torch.device(device)
        self._generator = torch.Generator(self.device)
        self._generator.manual_seed(seed)
        self._nearby = NumpyRng(np.random.default_rng(seed))
        self._kept: dict[object, tuple[Array, ...]] = {}

    @property
    def xp(self) -> Any:
        return torch_namespace

    def normal(self, shape: Shape) -> Array:
        # Fresh contents for each timed launch cost more than the launch: float64 would take four times as long.
        return torch.randn(shape, generator=self._generator, dtype=torch.float32, device=self.device)

    def uniform(self, low: float, high: float, shape: Shape) -> Array:
        values = torch.empty(shape, dtype=torch.float64, device=self.device)
        return values.uniform_(low, high, generator=self._generator)

    def integers(self, low: int, high: int, shape: Shape) -> Array:
        beyond = min(high + 1, (1 << 63) - 1)  # which int64 must hold too: the largest of 2^63 values is never drawn
        return torch.randint(low, beyond, shape, generator=self._generator, dtype=torch.int64, device=self.device)

    def signs(self, shape: Shape) -> Array:
        bits = torch.randint(0, 2, shape, generator=self._generator, dtype=torch.float64, device=self.device)
        return torch.rsub(bits, 1, alpha=2)

    def full(self, shape: Shape, value: float) -> Array:
        return torch.full(shape, value, dtype=torch.float64, device=self.device)

    def arange(self, stop: int) -> Array:
        return torch.arange(stop, dtype=torch.int64, device=self.device)

    def nearby(self) -> NumpyRng:
        return self._nearby

    def taken(self, *arrays: Array) -> tuple[Array, ...]:
        wholes = [np.ascontiguousarray(array).reshape(np.shape(array)) for array in arrays]
        starts = [0]
        for whole in wholes:
            starts.append(-(-(starts[-1] + whole.nbytes) // _ALIGNED_BYTES) * _ALIGNED_BYTES)
        # Torch gives an array without elements a stride that no other type can be seen through.
        piece = np.empty(max(_ALIGNED_BYTES, starts[-1]), np.uint8)
        for whole, start in zip(wholes, starts, strict=False):
            piece[start : start + whole.nbytes] = whole.reshape(-1).view(np.uint8)
        # Memory of the host that is not pinned is copied before the call returns, so that nothing waits.
        there = torch.from_numpy(piece).to(self.device, non_blocking=True)
        # bfloat16 is no type of numpy's own; torch knows it by the same name as `ml_dtypes`.
        typed = {dtype: there.view(getattr(torch, dtype.name)) for dtype in {whole.dtype for whole in wholes}}
        return tuple(
            # One call for each array, where a slice and two views took as long as to launch a kernel.
            typed[whole.dtype].as_strided(whole.shape, _strides(whole.shape), start // whole.itemsize)
            for whole, start in zip(wholes, starts, strict=False)
        )

    def kept(self, make: Callable[[int], tuple[Array, ...]], length: int) -> tuple[Array, ...]:
        key = make, length
        if key not in self._kept:
            self._kept[key] = self.taken(*make(length))
        return self._kept[key]


def _strides(shape: Shape) -> list[int]:
    """Of a contiguous array, in elements, as torch has them."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= max(1, extent)
    return strides


def eager(problem: Problem, inputs: Mapping[str, Array], sizes: Sizes) -> Callable[[], torch.Tensor]:
    """The problem's baseline on these tensors: each call computes its output anew with PyTorch's eager operators."""
    names = {"torch": torch, "F": functional, **inputs, **sizes, **{s.name: s.value for s in problem.scalars}}
    # The text is part of a problem, which is ours, and never comes from a submission.
    compute: Callable[[], torch.Tensor] = eval(f"lambda: {problem.baseline}", names)
    return compute


def on_device(array: NDArray[Any], like: torch.Tensor) -> torch.Tensor:
    """A copy of a numpy array on the device of `like`."""
    return torch.from_numpy(np.array(array)).to(like.device)


def synchronize(tensor: torch.Tensor) -> None:
    """Wait until all that was queued for the tensor's device is done, so that another process sees it."""
    if tensor.is_cuda:
        _stream().synchronize()


@functools.cache
def _stream() -> torch.cuda.Stream:
    """The one stream that the referee uses; asking torch for it each time costs as much as a launch."""
    return torch.cuda.current_stream()


def as_words(memory: torch.Tensor) -> torch.Tensor:
    """uint8 memory in words of 8 bytes, which are faster to fill and compare; start and size are multiples of 8."""
    return memory.view(torch.int64)


class ChecksDevice:
    """Launches the referee's own device code on the first visible GPU (`checks.ChecksLauncher`)."""

    def __init__(self, image: bytes, parameter_bytes: dict[str, int], threads: int, result_bytes: int) -> None:
        """`image`: the cubin. Raises GpuError where the driver does not take it."""
        torch.cuda.current_stream()  # makes the context current that the driver's calls go to
        try:
            self._kernels = driver.own_kernels(image, parameter_bytes)
        except driver.DriverError as error:
            raise GpuError(f"The referee's own device code was not taken ({error}).", "Please report it.") from error
        self._threads = threads
        self._results = torch.zeros(result_bytes, dtype=torch.uint8, device="cuda")
        self._pinned = torch.zeros(result_bytes, dtype=torch.uint8, pin_memory=True)
        self._read = self._pinned.numpy()

    def launch(
        self,
        kernel: str,
        grid: tuple[int, int],
        parameters: bytearray,
        pointers: Sequence[tuple[int, torch.Tensor]],
    ) -> None:
        for place, tensor in pointers:
            _ADDRESS.pack_into(parameters, place, tensor.data_ptr())
        try:
            self._kernels[kernel].launch(grid, self._threads, parameters, _stream().cuda_stream)
        except driver.DriverError as error:
            raise GpuError(f"The referee's own device code could not be launched ({error}).", "Try again.") from error

    def results(self) -> torch.Tensor:
        return self._results.zero_()

    def read(self) -> bytes:
        self._pinned.copy_(self._results, non_blocking=True)
        _stream().synchronize()
        return self._read.tobytes()


def empty_pieces(memory: torch.Tensor, sizes_bytes: Sequence[int]) -> list[torch.Tensor]:
    """New memory on the same device, so many bytes of it each, with anything in it: as one allocation."""
    starts = [0]
    for size_bytes in sizes_bytes:
        starts.append(starts[-1] + -(-size_bytes // _PIECE_BYTES) * _PIECE_BYTES)
    room = torch.empty(starts[-1], dtype=torch.uint8, device=memory.device)
    return [room[start : start + size] for start, size in zip(starts, sizes_bytes, strict=False)]


def memory_and_values() -> tuple[torch.Tensor, torch.Tensor]:
    """4 KiB and a thousand float64 values on the first visible GPU, to try device code on."""
    memory = torch.arange(4096, device="cuda").remainder(251).to(torch.uint8)
    return memory, torch.linspace(-3.0, 5.0, 1000, dtype=torch.float64, device="cuda")


def any_true(masks: Sequence[torch.Tensor]) -> list[bool]:
    """For each mask whether anything in it is true, asking the device once."""
    return [bool(flag) for flag in torch.stack([mask.any() for mask in masks]).tolist()]


class _Pointer:
    """Device memory that torch takes as it is: https://numba.readthedocs.io/en/stable/cuda/cuda_array_interface.html"""

    def __init__(self, pointer: int, size_bytes: int) -> None:
        self.__cuda_array_interface__ = {
            "shape": (size_bytes,),
            "typestr": "|u1",
            "data": (pointer, False),
            "strides": None,
            "version": 3,
        }


class DeviceMemory:
    """Memory on the first visible GPU that a runner can map (`arena.Memory`)."""

    def __init__(self, size_bytes: int) -> None:
        """Raises GpuError where there is not as much."""
        torch.cuda.current_stream()  # makes the context current that the driver's calls go to
        try:
            self._shared = driver.SharedMemory.create(size_bytes)
        except driver.DriverError as error:
            free, total = torch.cuda.mem_get_info()
            raise GpuError(
                f"{size_bytes >> 20} MiB of GPU memory could not be had ({error}); {free >> 20} of {total >> 20} MiB "
                "are free.",
                "Other processes hold the rest: see `nvidia-smi`.",
            ) from error
        self.size_bytes = self._shared.size_bytes
        self.content = torch.as_tensor(_Pointer(self._shared.pointer, self.size_bytes), device="cuda")

    def descriptor(self) -> int:
        return self._shared.descriptor()

    def close(self) -> None:
        torch.cuda.synchronize()
        del self.content
        self._shared.close()


class HostDeviceSide:
    """What a referee has of the first visible GPU for processes of host code (`host.session.HostSide`)."""

    device = "evaluator.backends.gpu.host.inside.cuda:HostCudaDevice"

    @functools.cached_property
    def _scratch(self) -> torch.Tensor:
        """Three times the cache, and never less than three times 16 MiB, as before each launch of a plan; made when
        there is host code to time.
        """
        l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size
        return torch.zeros(3 * max(l2_bytes, 16 << 20) // 4, dtype=torch.int32, device="cuda")

    def memory(self, size_bytes: int) -> DeviceMemory:
        return DeviceMemory(size_bytes)

    def synchronize(self) -> None:
        _stream().synchronize()

    def flush(self) -> None:
        try:
            driver.forbid_persisting_l2()
            driver.reset_persisting_l2()
        except driver.DriverError as error:
            if error.name not in _NOTHING_PERSISTS:
                message = f"Lines that persist in the L2 could not be taken away ({error})."
                raise GpuError(message, "Try again.") from error
        self._scratch.max()

    def clear(self) -> None:
        torch.cuda.empty_cache()
        held: list[torch.Tensor] = []
        size = free_bytes() - _KEPT_FREE_BYTES
        while size >= _LEAST_CLEARED_BYTES:
            try:
                held.append(torch.zeros(size, dtype=torch.uint8, device="cuda"))
            except torch.OutOfMemoryError:  # in pieces, or taken meanwhile
                size //= 2
            else:
                size = min(size, free_bytes() - _KEPT_FREE_BYTES)
        torch.cuda.synchronize()
        held.clear()
        torch.cuda.empty_cache()


_NOTHING_PERSISTS = ("CUDA_ERROR_UNSUPPORTED_LIMIT", "CUDA_ERROR_NOT_SUPPORTED")
"""What the driver says of a device whose L2 keeps no lines by request."""
_LEAST_CLEARED_BYTES = 64 << 20
"""Smaller pieces of free memory are not looked for: each costs a call that fails."""
_KEPT_FREE_BYTES = 1 << 30
"""What is not cleared of the device's free memory, so that contexts which are being made meanwhile find some."""


def free_bytes() -> int:
    """Free memory of the first visible GPU."""
    return int(torch.cuda.mem_get_info()[0])


_ADDRESS = struct.Struct("<Q")
_LATE_MOST = 3
"""So often in a row a baseline may take longer to queue than the stream is held: then it waits for the device itself,
as `bincount` does, or the host is busy, and it is held up only once in a while, to see whether that is so still."""
_HELD_AGAIN = 8
"""A baseline that was late is held every so many runs: not held, a busy host makes it slower."""


_PROBES = 9


class TorchBaseline:
    """PyTorch's eager operators on the referee's own device and in its own context (`measurement.Baseline`)."""

    is_given = False

    def __init__(self, device: str, state: Callable[[], DeviceState]) -> None:
        self.device = torch.device(device)
        self.state = state
        self._scratch = torch.empty(0)
        if self.device.type == "cuda":
            l2_bytes = torch.cuda.get_device_properties(self.device).L2_cache_size
            self._scratch = torch.zeros(3 * max(l2_bytes, 16 << 20) // 4, dtype=torch.int32, device=self.device)
            self._begin = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            self._end = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            self._gate = _stream_gate()
        self._gb_s = self._transfer_rates()

    def compared_with(self, problem: Problem) -> str:
        version = torch.__version__.partition("+")[0]
        return f"PyTorch {version} eager: {problem.baseline}"

    def timer(self, problem: Problem, inputs: Mapping[str, Array], sizes: Sizes) -> Callable[[], Callable[[], float]]:
        compute, late = eager(problem, inputs, sizes), 0

        def started() -> Callable[[], float]:
            nonlocal late
            reading, in_time = self._started(compute, late < _LATE_MOST or late % _HELD_AGAIN == 0)
            late = 0 if in_time else late + 1
            return reading

        return started

    def _started(self, compute: Callable[[], torch.Tensor], held: bool = True) -> tuple[Callable[[], float], bool]:
        """How to read its time, and whether all was queued before the device began; `held`: it waits for that."""
        if self.device.type != "cuda":
            started_ns = time.perf_counter_ns()
            compute()
            took_us = (time.perf_counter_ns() - started_ns) / 1000
            return (lambda: took_us), True
        # As a runner does it.
        if held:
            self._gate.close()
        self._scratch.max()
        self._begin.record(_stream())
        compute()
        self._end.record(_stream())
        if held:
            self._gate.open()
        return self._elapsed_us, held and not self._gate.was_late

    def _elapsed_us(self) -> float:
        self._end.synchronize()
        return float(self._begin.elapsed_time(self._end)) * 1000

    def given(self, problem: Problem) -> None:
        """None: it runs in turns with the submission."""

    def probe(self) -> dict[str, float]:
        """How long the device takes now to copy memory and to multiply matrices, µs: the median of a few times."""
        if self.device.type != "cuda":
            return {}
        memory = torch.empty(128 << 20, dtype=torch.uint8, device=self.device)
        square = torch.ones((2048, 2048), device=self.device)
        deeds = {"copy": memory.clone, "product": lambda: square @ square}
        return {name: self._median_us(deed) for name, deed in deeds.items()}

    def _median_us(self, deed: Callable[[], torch.Tensor]) -> float:
        return sorted(self._started(deed)[0]() for _ in range(_PROBES))[_PROBES // 2]

    def transfer_us(self, to_device_bytes: int, to_host_bytes: int) -> float | None:
        if self._gb_s is None:
            return None
        return to_device_bytes / (self._gb_s[0] * 1e3) + to_host_bytes / (self._gb_s[1] * 1e3)

    def _transfer_rates(self) -> tuple[float, float] | None:
        """10^9 bytes a second from pinned memory to the device and back, measured once."""
        if self.device.type != "cuda":
            return None
        host = torch.empty(64 << 20, dtype=torch.uint8, pin_memory=True)
        there = torch.empty_like(host, device=self.device)
        rates = []
        for target, source in ((there, host), (host, there)):
            times_us = []
            for _ in range(5):
                self._begin.record()
                target.copy_(source, non_blocking=True)
                self._end.record()
                self._end.synchronize()
                times_us.append(self._begin.elapsed_time(self._end) * 1000)
            rates.append(host.numel() / min(times_us) / 1e3)
        return rates[0], rates[1]


def _stream_gate() -> StreamGate:
    """Of the one stream that the referee uses. Raises GpuError."""
    torch.cuda.current_stream()  # makes the context current that the driver's calls go to
    try:
        hold = driver.own_kernels(HEADER + HOLD, {"hold": HOLD_BYTES})["hold"]
        return StreamGate(driver.HostWord(), lambda packed: hold.launch((1, 1), 1, packed, _stream().cuda_stream))
    except driver.DriverError as error:
        raise GpuError(f"What holds a stream was not taken ({error}).", "Please report it.") from error


def claim_device() -> None:
    """Make the referee's own context on the first visible GPU. Raises GpuError."""
    # TF32 in a float32 baseline would compare with another precision; it is off by default, and stays so.
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError as error:
        raise GpuError(f"PyTorch cannot use the GPU: {str(error).splitlines()[0]}", "Run `assay doctor`.") from error


def computes() -> bool:
    """Whether the context that `claim_device` made still computes: after some errors it never does again."""
    try:
        return torch.ones(1, device="cuda").item() == 1.0
    except RuntimeError:
        return False


def properties() -> dict[str, int | None]:
    """What torch knows of the first visible GPU and NVML does not say: fields of `DeviceState`."""
    known = torch.cuda.get_device_properties(0)
    return {
        "multiprocessors": known.multi_processor_count,
        "memory_bus_bits": getattr(known, "memory_bus_width", None),
    }
