"""The limits of GPUs by compute capability: of a multiprocessor, of a block, of a launch.

Source: CUDA C++ Programming Guide 13, "Technical Specifications per Compute Capability"; of capabilities that CUDA 13
has dropped (before 7.5), and of 10.1, which it calls 11.0, the same table of release 12.9. What shared memory and
registers are handed out in is from the occupancy calculator that comes with the toolkit (`cuda_occupancy.h`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

WARP_THREADS: Final = 32
REGISTERS: Final = 65536
"""Registers of one multiprocessor, of 32 bits."""
MAX_REGISTERS_PER_THREAD: Final = 255
MAX_GRID: Final = ((1 << 31) - 1, 65535, 65535)
MAX_BLOCK: Final = (1024, 1024, 64)
MAX_BLOCK_THREADS: Final = 1024
MAX_CLUSTER_BLOCKS: Final = 16
_KB: Final = 1024


@dataclass(frozen=True)
class GpuLimits:
    """What one multiprocessor holds, and what one block may ask for."""

    max_warps: int
    max_blocks: int
    shared_bytes: int
    """Shared memory of the multiprocessor, the system's share included."""
    shared_per_block_bytes: int
    """Most shared memory that one block may ask for, opted in."""
    reserved_bytes: int = 1024
    """Shared memory that the system takes of each block's."""
    shared_unit_bytes: int = 128
    """Shared memory is handed out to blocks in multiples of it."""
    registers_per_block: int = REGISTERS
    partitions: int = 4
    """Parts of a multiprocessor, each with its share of the warps and of the registers."""


def _before_ampere(
    max_warps: int,
    max_blocks: int,
    shared_kb: int,
    shared_per_block_kb: int,
    registers_per_block: int = REGISTERS,
    partitions: int = 4,
) -> GpuLimits:
    return GpuLimits(
        max_warps,
        max_blocks,
        shared_kb * _KB,
        shared_per_block_kb * _KB,
        reserved_bytes=0,
        shared_unit_bytes=256,
        registers_per_block=registers_per_block,
        partitions=partitions,
    )


GPU_LIMITS: Final[Mapping[int, GpuLimits]] = MappingProxyType(
    {
        50: _before_ampere(64, 32, 64, 48),
        52: _before_ampere(64, 32, 96, 48),
        53: _before_ampere(64, 32, 64, 48, registers_per_block=32768),
        60: _before_ampere(64, 32, 64, 48, partitions=2),
        61: _before_ampere(64, 32, 96, 48),
        62: _before_ampere(64, 32, 64, 48, registers_per_block=32768),
        70: _before_ampere(64, 32, 96, 96),
        72: _before_ampere(64, 32, 96, 96),
        75: _before_ampere(32, 16, 64, 64),
        80: GpuLimits(64, 32, 164 * _KB, 163 * _KB),
        86: GpuLimits(48, 16, 100 * _KB, 99 * _KB),
        87: GpuLimits(48, 16, 164 * _KB, 163 * _KB),
        88: GpuLimits(48, 16, 100 * _KB, 99 * _KB),
        89: GpuLimits(48, 24, 100 * _KB, 99 * _KB),
        90: GpuLimits(64, 32, 228 * _KB, 227 * _KB),
        100: GpuLimits(64, 32, 228 * _KB, 227 * _KB),
        101: GpuLimits(48, 24, 228 * _KB, 227 * _KB),
        103: GpuLimits(64, 32, 228 * _KB, 227 * _KB),
        110: GpuLimits(48, 24, 228 * _KB, 227 * _KB),
        120: GpuLimits(48, 24, 100 * _KB, 99 * _KB),
        121: GpuLimits(48, 24, 100 * _KB, 99 * _KB),
    }
)
"""By compute capability: 86 is 8.6. Every one that an nvcc of CUDA 12.4 to 13.x compiles for."""


def limits_of(arch: str) -> GpuLimits:
    """The limits of `arch` (`sm_90a` counts as `sm_90`). Raises KeyError for one that is not in the table."""
    return GPU_LIMITS[int(re.sub(r"\D", "", arch) or 0)]
