"""Samples of the same program and plan from all evaluations, on disk: asking again redraws no luck.

A caller that submits a kernel ten times to keep the best measurement gets the same answer ten times, each one surer.
"""

import hashlib
import heapq
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from evaluator.disk_cache import Cache, key_of
from evaluator.stages.time.statistics import Measurement, Pooled

MAX_SAMPLES = 400
"""Of each kind, for each key."""


class Sample(NamedTuple):
    """One time, and where it comes from."""

    lot: str
    """Hexadecimal."""
    evaluation: str
    """A hash of its name."""
    number: int
    """Which of its samples."""
    time_us: float


@dataclass(frozen=True)
class TimingKey:
    """What must be the same for two evaluations to have timed the same thing on the same machine."""

    canonical_ptx_sha256: str
    plan_sha256: str
    problem: str
    problem_version: str
    sizes: Mapping[str, int]
    device_uuid: str
    driver: str
    compared_with: str

    @property
    def hash(self) -> str:
        """The key of the cache."""
        sizes = json.dumps(dict(self.sizes), sort_keys=True)
        named = (self.canonical_ptx_sha256, self.plan_sha256, self.problem, self.problem_version, sizes)
        return key_of("timing in order", *named, self.device_uuid, self.driver, self.compared_with)


class TimingPool:
    """Remembered samples under `folder`; processes may share it. What is damaged there counts as forgotten.

    Of more than MAX_SAMPLES those with the smallest lots stay. A lot is a hash of the evaluation's name and the
    sample's number, so what stays is a fair draw from all evaluations, and the same in whatever order they came.
    Samples of one evaluation stay together, in the order in which they were measured: neighbours may be alike.
    """

    def __init__(self, folder: Path, capacity_bytes: int = 256 << 20) -> None:
        self._cache = Cache(folder, capacity_bytes)

    @property
    def warning(self) -> str | None:
        """Why samples are not being remembered, in words; None while all is well."""
        return self._cache.warning

    def add(self, key: TimingKey, evaluation: str, measurement: Measurement) -> Pooled:
        """Remember a measurement; all samples of its key, these included.

        `evaluation` names it for good: its seed commitment or id. The same one added again changes nothing.
        """
        event = _lots(evaluation, "event", measurement.event_us)
        baseline = _lots(evaluation, "baseline", measurement.baseline_us)

        def merge(entry: Mapping[str, bytes] | None) -> Mapping[str, bytes]:
            known = _read(entry)
            again = bool({*event, *baseline} & {*known.event, *known.baseline})
            merged = {
                "event": heapq.nsmallest(MAX_SAMPLES, {*known.event, *event}),
                "baseline": heapq.nsmallest(MAX_SAMPLES, {*known.baseline, *baseline}),
                "evaluations": known.evaluations + (not again),
            }
            return {"samples": json.dumps(merged).encode()}

        pool = _read(self._cache.update(key.hash, merge))
        return Pooled(_in_order(pool.event), _in_order(pool.baseline), pool.evaluations)


@dataclass(frozen=True)
class _Pool:
    event: tuple[Sample, ...] = ()
    baseline: tuple[Sample, ...] = ()
    evaluations: int = 0


def _read(entry: Mapping[str, bytes] | None) -> _Pool:
    if entry is None:
        return _Pool()
    kept = json.loads(entry["samples"])
    event, baseline = (tuple(Sample(*sample) for sample in kept[kind]) for kind in ("event", "baseline"))
    return _Pool(event, baseline, kept["evaluations"])


def _in_order(samples: Iterable[Sample]) -> tuple[float, ...]:
    return tuple(one.time_us for one in sorted(samples, key=lambda one: (one.evaluation, one.number)))


def _lots(evaluation: str, kind: str, times_us: Iterable[float]) -> list[Sample]:
    name = hashlib.sha256(evaluation.encode()).hexdigest()[:16]
    return [
        Sample(_lot(f"{evaluation}/{kind}/{number}"), name, number, float(time_us))
        for number, time_us in enumerate(times_us)
    ]


def _lot(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
