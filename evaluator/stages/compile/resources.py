"""What kernels need (from `ptxas -v`) and how many of their warps fit on a multiprocessor.

Counted as the occupancy calculator that comes with the toolkit counts (`cuda_occupancy.h`): registers are handed out
by the warp in units of 256, shared memory by the block in units with a share for the system, warps over partitions
each with its part of the registers. The limits themselves are `common.gpu_limits`.
"""

import re
from collections.abc import Iterator
from typing import Final, Literal

from common.contract import KernelResources, Occupancy
from common.gpu_limits import MAX_REGISTERS_PER_THREAD, REGISTERS, WARP_THREADS, GpuLimits, limits_of
from evaluator.stages.compile.kernel_entries import demangled

_REGISTER_UNIT: Final = 256
_PARTITIONS_OF_A_LAUNCH: Final = 4
"""What a launch is checked for, also where a multiprocessor has two (6.0)."""


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
    warps = max(1, -(-block_threads // WARP_THREADS))
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
    warps = max(1, -(-block_threads // WARP_THREADS))
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


def _blocks_by_registers(registers: int, warps: int, limits: GpuLimits) -> int:
    if registers == 0:
        return limits.max_blocks
    if registers > MAX_REGISTERS_PER_THREAD:
        return 0
    by_warp = -(-registers * WARP_THREADS // _REGISTER_UNIT) * _REGISTER_UNIT
    warps_by_partition = REGISTERS // limits.partitions // by_warp
    # A block's warps are spread over the partitions, so it needs room for a whole number of rows of them.
    if -(-warps // _PARTITIONS_OF_A_LAUNCH) * _PARTITIONS_OF_A_LAUNCH * by_warp > limits.registers_per_block:
        return 0
    return warps_by_partition * limits.partitions // warps


def _blocks_by_shared(shared_bytes: int, limits: GpuLimits) -> int:
    if shared_bytes > limits.shared_per_block_bytes:
        return 0
    unit = limits.shared_unit_bytes
    by_block = -(-(shared_bytes + limits.reserved_bytes) // unit) * unit
    return limits.shared_bytes // by_block if by_block else limits.max_blocks
