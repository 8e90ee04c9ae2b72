"""A driver for Triton that has no GPU: what Triton would launch is compiled by Triton itself, and written down.

All else is Triton's own: how arguments specialise a kernel, its compiler, heuristics, the keys of autotuning.
"""

import hashlib
import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final

from evaluator.stages.lift.triton.inside.dtypes import bfloat16
from evaluator.stages.lift.triton.inside.memory import NotRecordedError, RecordedMemory

_INTEGERS: Final = {
    "i1": (1, True), "i8": (1, True), "i16": (2, True), "i32": (4, True), "i64": (8, True),
    "u1": (1, False), "u8": (1, False), "u16": (2, False), "u32": (4, False), "u64": (8, False),
}  # fmt: skip
"""Bytes, and whether they are signed; by Triton's names."""
_FLOATS: Final = {"fp16": "<e", "fp32": "<f", "f32": "<f", "fp64": "<d"}
_COPIES: Final = "evaluator.stages.lift.triton.inside.copies"
_MAX_BLOCK_THREADS: Final = 1024
_WARP: Final = 32
_REGISTERS: Final = 32
"""Of a thread, until ptxas has said it, which comes later: a persistent grid divides by it, as in Triton's tutorials.
With so many the warps of a multiprocessor are limited by nothing else."""


class Kernels:
    """What was compiled, by what it is."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def add(self, kernel: dict[str, Any]) -> str:
        """Its id."""
        digest = hashlib.sha256(repr(sorted(kernel.items())).encode()).hexdigest()
        self.found[digest] = kernel
        return digest


class _Device:
    def __init__(self, facts: dict[str, int], compiling: Callable[[bool], None]) -> None:
        self._facts, self._compiling = facts, compiling

    def load_binary(self, name: str, binary: bytes, shared_bytes: int, device: int) -> tuple[int, str, int, int, int]:
        """Module, function, registers, spills and most threads of a kernel; the function is its PTX."""
        self._compiling(False)
        return 1, binary.decode(), _REGISTERS, 0, _MAX_BLOCK_THREADS

    def unload_module(self, module: int) -> None:
        """Nothing was loaded."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """What Triton asks about the device."""
        return dict(self._facts)


class RecordingDriver:
    """As Triton's `DriverBase`: set active, it makes each launch a line in `memory`."""

    def __init__(
        self,
        memory: RecordedMemory,
        kernels: Kernels,
        capability: int,
        facts: dict[str, int],
        compiling: Callable[[bool], None],
    ) -> None:
        """`facts`: what Triton asks about the device (`max_shared_mem`, `multiprocessor_count`, …).

        `compiling` is told when a kernel begins and ends to be compiled.
        """
        from triton.backends.compiler import GPUTarget

        self.utils = _Device(facts, compiling)
        self.memory, self.compiling, self._kernels = memory, compiling, kernels
        self._target = GPUTarget("cuda", capability, 32)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> Any:
        return self._target

    def get_current_device(self) -> int:
        return 0

    def set_current_device(self, device: int) -> None:
        if device != 0:
            raise ValueError(f"there is no device {device}")

    def get_current_stream(self, device: int) -> int:
        return self.memory.stream

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(int(self._target.arch), 10)

    def get_active_torch_device(self) -> Any:
        return sys.modules["torch"].device("cuda", 0)

    def get_device_interface(self) -> Any:
        return sys.modules["torch.cuda"]

    def get_benchmarker(self) -> Callable[..., Any]:
        raise NotRecordedError("a measurement of time")

    def launcher_cls(self, source: Any, metadata: Any) -> Callable[..., None]:
        """What Triton calls for each launch of one compiled kernel."""
        many = len(source.signature)

        def launched(x: int, y: int, z: int, stream: int, function: str, *rest: Any, **_: Any) -> None:
            self._launch(source, metadata, function, [int(x), int(y), int(z)], rest[len(rest) - many :])

        return launched

    def _launch(self, source: Any, metadata: Any, ptx: str, grid: list[int], values: Sequence[Any]) -> None:
        if self.memory.is_paused:
            return
        plain = list(_plain(list(source.signature.values()), values, source.fn.arg_names))
        arguments = [_packed(name, kind, value).hex() for name, kind, value in plain]
        # A kernel of ours stands in no line of the submission.
        line = 1 if source.fn.fn.__module__ == _COPIES else source.fn.starting_line_number
        kernel = {"name": metadata.name, "line": line, "ptx": ptx}
        digest = self._kernels.add({**kernel, "parameters": [[name, kind] for name, kind, _ in plain]})
        blocks = prod(grid) * metadata.num_ctas
        if not blocks:
            return  # a launch of no blocks does nothing, as with Triton's own driver
        # Newer versions of Triton pass memory of their own behind a kernel's parameters.
        for size in (getattr(metadata, f"{each}_scratch_size", None) for each in ("global", "profile")):
            if size is not None:
                address = self.memory.allocate(size * blocks) if size else 0
                arguments.append(address.to_bytes(8, "little").hex())
        clusters = [metadata.num_ctas, 1, 1] if metadata.num_ctas > 1 else None
        self.memory.launch(
            kernel=digest,
            grid=[grid[0] * metadata.num_ctas, *grid[1:]],
            block=[_WARP * metadata.num_warps, 1, 1],
            shared_bytes=metadata.shared,
            cooperative=bool(getattr(metadata, "launch_cooperative_grid", False)),
            cluster=clusters,
            arguments=arguments,
        )


def _plain(signature: Sequence[Any], values: Sequence[Any], names: Sequence[str]) -> Iterator[tuple[str, str, Any]]:
    """Name, type and value of each parameter that the compiled kernel has; those of tuples one by one."""
    for kind, value, name in zip(signature, values, names, strict=False):
        if isinstance(kind, tuple | list):
            yield from _plain(kind, value, [f"{name}_{number}" for number in range(len(kind))])
        elif kind != "constexpr":
            yield name, kind, value


def _packed(name: str, kind: str, value: Any) -> bytes:
    """A value as Triton's own driver passes it."""
    if kind.startswith("*"):
        if value is None:
            return bytes(8)
        address = value.data_ptr() if hasattr(value, "data_ptr") else value
        return int(address).to_bytes(8, "little")
    if kind in _INTEGERS:
        size, signed = _INTEGERS[kind]
        return int(value).to_bytes(size, "little", signed=signed and int(value) < 0)
    if kind in _FLOATS:
        return struct.pack(_FLOATS[kind], float(value))
    if kind == "bf16":
        return bfloat16(float(value))
    raise NotRecordedError(f"an argument of the type {kind} ({name})")


def activate(driver: RecordingDriver) -> None:
    """Have Triton launch by `driver`."""
    import triton

    triton.runtime.driver.set_active(driver)


def stop_at_ptx() -> None:
    """Have Triton compile to PTX and measure nothing when it autotunes, for whichever driver is active."""
    import triton
    from triton.backends import Backend, backends
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.runtime.autotuner import Autotuner

    class ToPtx(CUDABackend):  # type: ignore[misc]
        """Stops at PTX, which stands for the machine code."""

        def parse_options(self, options: Any) -> Any:
            triton.runtime.driver.active.compiling(True)
            return super().parse_options(options)

        def make_cubin(self, source: str, *_: Any) -> bytes:
            return source.encode()

    nvidia = backends["nvidia"]
    backends.clear()
    backends["nvidia"] = Backend(compiler=ToPtx, driver=nvidia.driver)
    tuned = Autotuner.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._do_bench = _first_that_compiles()
        self.__dict__.pop("do_bench", None)
        if len(self.configs) > 1:
            with triton.runtime.driver.active.memory.paused():
                tuned(self, *args, **kwargs)
        return tuned(self, *args, **kwargs)

    Autotuner.run = run


def assume_no_multiples() -> None:
    """Have Triton compile in this process without assuming that 16 divides a number; of addresses it still knows."""
    import triton.runtime.jit

    specialised = getattr(triton.runtime.jit, "native_specialize_impl", None)
    if specialised is not None:

        def specialise(backend: Any, value: Any, is_const: bool, specialises: bool, aligns: bool) -> Any:
            return specialised(backend, value, is_const, specialises, aligns and not isinstance(value, int))

        triton.runtime.jit.native_specialize_impl = specialise


def spare_the_key() -> None:
    """Triton names what it caches after all of its own files, 700 MB to read; here the cache lasts for one job."""
    import triton.compiler.compiler
    import triton.runtime.autotuner
    import triton.runtime.cache

    for module in (triton.runtime.cache, triton.compiler.compiler, triton.runtime.autotuner):
        if hasattr(module, "triton_key"):
            module.triton_key = lambda: triton.__version__


def _first_that_compiles() -> Callable[..., list[float]]:
    found = False

    def bench(call: Callable[[], Any], quantiles: Sequence[float] = (0.5, 0.2, 0.8), **_: Any) -> list[float]:
        nonlocal found
        if not found:
            call()  # raises what Triton takes for a configuration that does not fit
            found = True
            return [0.0] * len(quantiles)
        return [1.0] * len(quantiles)

    return bench
