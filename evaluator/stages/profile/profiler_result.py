"""What a GPU's profiler gave, as a value that anyone can read who has no GPU."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from common.contract.counters import Evidence, LaunchCounts, Reading

_SHARES: Final = ("achieved_occupancy", "sm_share", "l1_share", "l2_share", "dram_share")


@dataclass(frozen=True)
class Counted:
    """What the profiler counted, or why it did not."""

    evidence: Evidence | None
    not_measured: tuple[str, ...] = ()


def mean_reading(launches: Iterable[LaunchCounts]) -> dict[str, float]:
    """Occupancy and shares of all launches together, weighted by their time."""
    readings = [(launch.reading, launch.reading.latency_us or 0.0) for launch in launches if launch.reading]
    return dict(_means(readings))


def _means(readings: list[tuple[Reading, float]]) -> Iterator[tuple[str, float]]:
    for name in _SHARES:
        known = [(value, time_us) for reading, time_us in readings if (value := getattr(reading, name)) is not None]
        time_us = sum(weight for _, weight in known)
        if time_us > 0:
            yield name, sum(value * weight for value, weight in known) / time_us
