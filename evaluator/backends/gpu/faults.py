"""What a runner's fault means: a fact about the program, or a fault of ours."""

import re
from collections.abc import Callable
from typing import Final

from common.contract import Fault
from evaluator.backends.gpu.pool import RunnerError, gpu_fault


def fault_of(broken: RunnerError, kernel: str | None, free_bytes: Callable[[], int]) -> Fault:
    """The runner's fault as a fact; raises GpuError where it is not the program's.

    `kernel`: the only one that ran, if it was one alone. `free_bytes`: of the GPU's memory.
    """
    asserted = _ASSERTED.search(broken.printed)
    if asserted:
        line, *numbers = (int(asserted[i]) for i in range(1, 8))
        block, thread = tuple(numbers[:3]), tuple(numbers[3:])
        return Fault(
            kind="assert",
            message=f"stopped at an assertion: {asserted[8]}",
            kernel=kernel,
            line=line,
            block=(block[0], block[1], block[2]),
            thread=(thread[0], thread[1], thread[2]),
        )
    for name, (words, kind, message) in _KINDS.items():
        if broken.error == name or (not broken.error and words in str(broken)):
            if kind == "out_of_memory" and free_bytes() < 1 << 30:
                break
            return Fault(kind=kind, message=message, kernel=kernel)
    raise gpu_fault(f"The GPU broke ({broken.error or 'no name'})", broken)


_ASSERTED: Final = re.compile(
    r":(\d+): .*?: block: \[(\d+),(\d+),(\d+)\], thread: \[(\d+),(\d+),(\d+)\] Assertion (.*?) failed", re.DOTALL
)
_KINDS: Final = {
    # The driver's name; its words, where a call fails that leaves the context whole; what it means.
    "CUDA_ERROR_ILLEGAL_ADDRESS": (
        "illegal memory access",
        "out_of_bounds",
        "touched memory that belongs to no buffer",
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": (
        "misaligned address",
        "misaligned",
        "used an address that is no multiple of the access's size",
    ),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": (
        "not in the correct address space",
        "out_of_bounds",
        "used an address in the wrong kind of memory",
    ),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": ("hardware stack error", "stack_overflow", "overflowed its stack"),
    "CUDA_ERROR_INVALID_PC": ("invalid program counter", "trap", "jumped to where no code is"),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": ("illegal instruction", "trap", "ran an instruction that is none"),
    "CUDA_ERROR_ASSERT": ("device-side assert", "assert", "stopped at an assertion"),
    "CUDA_ERROR_LAUNCH_FAILED": (
        "unspecified launch failure",
        "trap",
        "stopped itself, or broke in a way that the GPU does not name",
    ),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "too many resources",
        "too_many_resources",
        "cannot start: its blocks need more registers than a multiprocessor has",
    ),
    "CUDA_ERROR_INVALID_VALUE": (
        "invalid argument",
        "too_many_resources",
        "cannot start: its blocks are larger than the kernel was compiled for (`__launch_bounds__`)",
    ),
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": (
        "too many blocks in cooperative launch",
        "too_many_resources",
        "cannot start: a cooperative launch needs all its blocks on the GPU at once, and they do not fit",
    ),
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": (
        "cluster",
        "too_many_resources",
        "cannot start: its clusters do not fit on the GPU",
    ),
    "CUDA_ERROR_LAUNCH_TIMEOUT": ("launch timed out", "watchdog", "was ended by the driver's own time limit"),
    "CUDA_ERROR_OUT_OF_MEMORY": ("out of memory", "out_of_memory", "needs more memory than the GPU has"),
}
