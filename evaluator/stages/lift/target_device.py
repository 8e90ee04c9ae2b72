"""The GPU that recorded host code believes it has: what it may ask about it, by architecture.

Multiprocessors, L2, clocks and bus widths are of a GPU of each architecture that is sold for computing; from NVIDIA's
architecture white papers (Turing 2018, A100 2020, GA102 2020, Ada 2022, H100 2022, Blackwell 2024).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from common.contract import KernelResources
from common.gpu_limits import REGISTERS, limits_of
from evaluator.backends.session import Entry
from evaluator.stages.compile.resources import fitting_blocks

_MIB: Final = 1 << 20
_GIB: Final = 1 << 30


@dataclass(frozen=True)
class TargetDevice:
    """What is told of a GPU beside the limits of its architecture."""

    name: str
    """Underscores stand for spaces."""
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    clock_khz: int
    memory_clock_khz: int
    bus_bits: int


_GPUS: Final = {
    75: TargetDevice("NVIDIA_T4", 40, 16 * _GIB, 4 * _MIB, 1_590_000, 5_001_000, 256),
    80: TargetDevice("NVIDIA_A100-SXM4-80GB", 108, 80 * _GIB, 40 * _MIB, 1_410_000, 1_593_000, 5120),
    86: TargetDevice("NVIDIA_A10", 72, 24 * _GIB, 6 * _MIB, 1_695_000, 6_251_000, 384),
    89: TargetDevice("NVIDIA_L40S", 142, 48 * _GIB, 96 * _MIB, 2_520_000, 9_001_000, 384),
    90: TargetDevice("NVIDIA_H100_80GB_HBM3", 132, 80 * _GIB, 50 * _MIB, 1_980_000, 2_619_000, 5120),
    100: TargetDevice("NVIDIA_B200", 148, 180 * _GIB, 126 * _MIB, 1_965_000, 3_996_000, 8192),
    120: TargetDevice("NVIDIA_GeForce_RTX_5090", 170, 32 * _GIB, 96 * _MIB, 2_407_000, 14_001_000, 512),
}
_WARPS: Final = 32


def target_device(arch: str) -> TargetDevice:
    """The device of an architecture. One that is not listed is taken for the nearest before it."""
    number = int(re.sub(r"\D", "", arch))
    return _GPUS[max((n for n in _GPUS if n <= number), default=75)]


def device_line(arch: str) -> str:
    """The device as `recorder/recording.cpp` reads it. Raises KeyError for an unknown architecture."""
    limits, number = limits_of(arch), int(re.sub(r"\D", "", arch))
    gpu = target_device(arch)
    fields = (gpu.name, number // 10, number % 10, gpu.multiprocessors, limits.max_warps, limits.max_blocks)
    shared = (limits.shared_bytes, limits.shared_per_block_bytes, limits.reserved_bytes, limits.shared_unit_bytes)
    clocks = (gpu.clock_khz, gpu.memory_clock_khz, gpu.bus_bits)
    rest = (gpu.memory_bytes, gpu.l2_bytes, REGISTERS, limits.registers_per_block, *clocks)
    return " ".join(map(str, (*fields, *shared, *rest)))


def device_for_python(arch: str) -> dict[str, Any]:
    """The device as recorded Python sees it, in the names of Triton's driver."""
    limits, device = limits_of(arch), target_device(arch)
    facts = {
        "max_shared_mem": limits.shared_per_block_bytes,
        "multiprocessor_count": device.multiprocessors,
        "max_num_regs": 65536,
        "warpSize": 32,
        "sm_clock_rate": device.clock_khz,
        "mem_clock_rate": device.memory_clock_khz,
        "mem_bus_width": device.bus_bits,
        "total_memory": device.memory_bytes,
        "l2_cache_size": device.l2_bytes,
        "max_threads": 32 * limits.max_warps,
    }
    capability = int(re.sub(r"\D", "", arch))
    return {"capability": capability, "device_name": device.name.replace("_", " "), "device": facts}


def kernel_lines(
    entries: Sequence[Entry], kernels: Sequence[KernelResources], bounds: dict[str, int], arch: str
) -> list[str]:
    """Each kernel with its parameters' sizes and what it needs. `bounds`: most threads of a block, by symbol."""
    needs = {kernel.kernel: kernel for kernel in kernels}
    lines = []
    for entry in entries:
        need = needs.get(entry.name)
        registers = need.registers if need else 0
        facts = (need.shared_bytes, need.stack_bytes, need.constant_bytes) if need else (0, 0, 0)
        most = bounds.get(entry.symbol) or 1024
        sizes = [parameter.size_bytes for parameter in entry.parameters]
        blocks = [fitting_blocks(registers, 0, 32 * warps, arch)["registers"] for warps in range(1, _WARPS + 1)]
        fields = (entry.symbol, registers, facts[0], most, facts[1], facts[2], len(sizes), *sizes, *blocks)
        lines.append(" ".join(map(str, fields)))
    return lines
