"""The GPUs that time is estimated for: `gpu_models.toml`, and what follows from it."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from common.contract import DeviceState
from evaluator.backends.peaks import DevicePeaks, peaks_of

_FILE = Path(__file__).with_name("gpu_models.toml")


@dataclass(frozen=True)
class Machine:
    """One GPU, as far as time is estimated from counts. A clock is one of the multiprocessors'."""

    name: str
    device: str
    """As the driver names it."""
    arch: str
    """For example `sm_90`: what limits of a multiprocessor go by."""
    multiprocessors: int
    clock_mhz: int
    l1_bytes: int
    """L1 cache and shared memory of one multiprocessor together."""
    l2_bytes: int
    l2_bytes_per_clock: int
    """What all multiprocessors together get from the L2 cache."""
    lanes_per_clock: Mapping[str, int]
    """Results of one multiprocessor: `fp32`, `fp64`, `fp16`, `integer`, `special`, `conversion`, `lsu`."""
    latency_clocks: Mapping[str, int]
    """Until a dependent instruction can go on: `alu`, `shared`, `l1`, `l2`, `dram`."""
    peaks: DevicePeaks

    def us(self, clocks: float) -> float:
        """Microseconds of so many clocks."""
        return clocks / self.clock_mhz

    @property
    def dram_bytes_per_clock(self) -> float:
        """What memory gives at most, the whole device."""
        return self.peaks.memory_gb_s * 1e3 / self.clock_mhz

    def tensor_flops_per_clock(self) -> float:
        """Of one multiprocessor: float16 with sums in float32."""
        return self.peaks.fp16_tflops * 1e6 / self.clock_mhz / self.multiprocessors


@cache
def machines() -> Mapping[str, Machine]:
    """All machines by name, for example `H100`."""
    return {name: _machine(name, fields) for name, fields in tomllib.loads(_FILE.read_text()).items()}


def _machine(name: str, fields: dict[str, Any]) -> Machine:
    peaks = peaks_of(DeviceState(name=fields["device"]))
    if peaks is None:
        raise ValueError(f"{_FILE.name} has {name}, whose device {fields['device']!r} has no data sheet in peaks.py")
    return Machine(name=name, peaks=peaks, **fields)
