"""What kernels need (from `ptxas -v`) and how many of their warps fit on a multiprocessor.

Limits per compute capability: CUDA C++ Programming Guide, tables "Technical Specifications per Compute Capability",
and the way of counting: the occupancy calculator that comes with the toolkit (`cuda_occupancy.h`): registers are
handed out by the warp in units of 256, shared memory by the block in units of 128 bytes (256 up to 7.x) with 1 KB a
block for the system from 8.0 on, warps over four partitions each with a quarter of the registers.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from common.contract import KernelResources, Occupancy
from evaluator.stages.compile.kernel_entries import demangled

WARP: Final = 32
_REGISTERS: Final = 65536
_REGISTER_UNIT: Final = 256
_PARTITIONS: Final = 4
_MAX_REGISTERS_PER_THREAD: Final = 255


@dataclass(frozen=True)
class ArchLimits:
    """Limits of one multiprocessor."""

    max_warps: int
    max_blocks: int
    shared_bytes: int
    """Shared memory of the multiprocessor, the system's share included."""
    shared_per_block_bytes: int
    """Most shared memory that one block may ask for, opted in."""
    reserved_bytes: int = 1024
    """Shared memory that the system takes of each block's."""
    shared_unit_bytes: int = 128


_KB: Final = 1024
LIMITS: Final[dict[int, ArchLimits]] = {
    75: ArchLimits(32, 16, 64 * _KB, 64 * _KB, reserved_bytes=0, shared_unit_bytes=256),
    80: ArchLimits(64, 32, 164 * _KB, 163 * _KB),
    86: ArchLimits(48, 16, 100 * _KB, 99 * _KB),
    87: ArchLimits(48, 16, 164 * _KB, 163 * _KB),
    88: ArchLimits(48, 16, 100 * _KB, 99 * _KB),
    89: ArchLimits(48, 24, 100 * _KB, 99 * _KB),
    90: ArchLimits(64, 32, 228 * _KB, 227 * _KB),
    100: ArchLimits(64, 32, 228 * _KB, 227 * _KB),
    103: ArchLimits(64, 32, 228 * _KB, 227 * _KB),
    110: ArchLimits(48, 24, 228 * _KB, 227 * _KB),
    120: ArchLimits(48, 24, 100 * _KB, 99 * _KB),
    121: ArchLimits(48, 24, 100 * _KB, 99 * _KB),
}


def limits_of(arch: str) -> ArchLimits:
    """The limits of `arch` (`sm_90a` counts as `sm_90`). Raises KeyError for one that is not in the table."""
    return LIMITS[int(re.sub(r"\D", "", arch))]


def parse_resources(ptxas_output: str) -> tuple[KernelResources, ...]:
    """What `ptxas -v` says about each kernel, in the order in which it says it."""
    return tuple(_reports(ptxas_output))


def _reports(text: str) -> Iterator[KernelResources]:
    starts = list(re.finditer(r"Compiling entry function '([^']+)' for '(\w+)'", text))
    for index, start in enumerate(starts):
        report = text[start.end() : starts[index + 1].start() if index + 1 < len(starts) else len(text)]
        # Properties of functions that are called, not inlined, follow in the same report under their own names.
        own = re.search(rf"Function properties for {re.escape(start[1])}\n(.*)", report)
        properties = own[1] if own else ""
        yield KernelResources(
            kernel=demangled(start[1]),
            registers=_number(r"Used (\d+) registers", report),
            spill_store_bytes=_number(r"(\d+) bytes spill stores", properties),
            spill_load_bytes=_number(r"(\d+) bytes spill loads", properties),
            stack_bytes=max(
                _number(r"(\d+) bytes stack frame", properties), _number(r"(\d+) bytes cumulative stack size", report)
            ),
            shared_bytes=_number(r"(\d+)(?:\+\d+)? bytes smem", report),
            constant_bytes=sum(int(size) for size in re.findall(r"(\d+) bytes cmem\[\d+\]", report)),
            barriers=_number(r"used (\d+) barriers", report),
        )


def _number(pattern: str, text: str) -> int:
    match = re.search(pattern, text)
    return int(match[1]) if match else 0


Resource = Literal["registers", "shared memory", "threads", "blocks"]


def fitting_blocks(registers: int, shared_bytes: int, block_threads: int, arch: str) -> dict[Resource, int]:
    """Blocks for which each resource of a multiprocessor has room; the least of them is how many there can be.

    `registers` are those of a thread, `shared_bytes` the static and dynamic ones of a block. Raises KeyError for an
    unknown `arch`.
    """
    limits = limits_of(arch)
    warps = max(1, -(-block_threads // WARP))
    return {
        "threads": limits.max_warps // warps,
        "blocks": limits.max_blocks,
        "registers": _blocks_by_registers(registers, warps, limits),
        "shared memory": _blocks_by_shared(shared_bytes, limits),
    }


def occupancy(resources: KernelResources, block_threads: int, dynamic_shared_bytes: int, arch: str) -> Occupancy:
    """Theoretical occupancy of a launch with blocks of `block_threads`. Raises KeyError for an unknown `arch`.

    0 active warps means that not one block fits: such a launch fails.
    """
    limits = limits_of(arch)
    warps = max(1, -(-block_threads // WARP))
    shared = resources.shared_bytes + dynamic_shared_bytes
    fitting = fitting_blocks(resources.registers, shared, block_threads, arch)
    limiter = min(fitting, key=lambda name: fitting[name])
    active = fitting[limiter] * warps
    return Occupancy(
        kernel=resources.kernel,
        block_threads=block_threads,
        registers=resources.registers,
        shared_bytes=shared,
        active_warps=active,
        max_warps=limits.max_warps,
        occupancy=active / limits.max_warps,
        limited_by=limiter,
    )


def _blocks_by_registers(registers: int, warps: int, limits: ArchLimits) -> int:
    if registers == 0:
        return limits.max_blocks
    if registers > _MAX_REGISTERS_PER_THREAD:
        return 0
    by_warp = -(-registers * WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    warps_by_partition = _REGISTERS // _PARTITIONS // by_warp
    # A block's warps are spread over the partitions, so it needs room for a whole number of rows of them.
    if -(-warps // _PARTITIONS) * _PARTITIONS * by_warp > _REGISTERS:
        return 0
    return warps_by_partition * _PARTITIONS // warps


def _blocks_by_shared(shared_bytes: int, limits: ArchLimits) -> int:
    if shared_bytes > limits.shared_per_block_bytes:
        return 0
    unit = limits.shared_unit_bytes
    by_block = -(-(shared_bytes + limits.reserved_bytes) // unit) * unit
    return limits.shared_bytes // by_block if by_block else limits.max_blocks
