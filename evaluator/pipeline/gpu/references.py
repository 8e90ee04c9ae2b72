"""Problems of others before a GPU's referee: their references, and the baselines that PyTorch gives for them."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from common.contract import BASELINE_WORDS, BaselineName, DeviceState, Settings
from evaluator.disk_cache import Cache
from evaluator.foreign.baselines import Baselines, BaselineStore
from evaluator.foreign.loading import restated, subject_of
from evaluator.problems.problem import Arrays, Problem, Sizes
from evaluator.sandbox.sandbox import Sandbox
from evaluator.stages.time.measurement import Baseline, GivenBaseline, Reading


class References:
    """What a referee needs for problems of others, beside what it has for ours."""

    def __init__(
        self,
        sandbox: Sandbox,
        cache: Cache,
        gpu: str,
        driver: str,
        probe: Callable[[], Mapping[str, float]],
    ) -> None:
        """`gpu`: the UUID of the referee's; empty times baselines on the processor. `probe`: how long it takes now
        for something known.
        """
        self._sandbox = sandbox
        self._baselines = BaselineStore(sandbox, cache, gpu, driver, probe)

    def close(self) -> None:
        """End what waits for the next file."""
        self._baselines.close()

    @contextmanager
    def stated(self, origin: bytes) -> Iterator[Problem]:
        """The problem that a grader states. Raises ReferenceRefusedError, InfrastructureError."""
        with restated(origin, self._sandbox) as problem:
            yield problem

    @contextmanager
    def baseline(self, origin: bytes, settings: Settings, own: Baseline, version: str) -> Iterator[Baseline]:
        """What the submission is compared with; it is being prepared meanwhile. `own`: the referee's for our own
        problems; `version`: PyTorch's.
        """
        if not settings.timing:
            yield own
            return
        wanted = dict.fromkeys((settings.baseline, "eager", *settings.baselines))
        with self._baselines.open(subject_of(origin), tuple(wanted)) as baselines:
            yield _ReferenceBaseline(own, baselines, settings.baseline, version)


class _ReferenceBaseline:
    """Baselines that a process of their own has timed (`measurement.Baseline`)."""

    is_given = True

    def __init__(self, own: Baseline, baselines: Baselines, chosen: BaselineName, version: str) -> None:
        self._own, self._baselines, self._chosen, self._version = own, baselines, chosen, version

    def compared_with(self, problem: Problem) -> str:
        return f"PyTorch {self._version} {BASELINE_WORDS[self._chosen]}: {problem.baseline}"

    def timer(self, problem: Problem, inputs: Arrays, sizes: Sizes) -> Callable[[], Reading]:
        raise AssertionError("these baselines are given")

    def given(self, problem: Problem) -> GivenBaseline:
        measured, now_s = self._baselines.measured(), time.time()
        told = tuple(one.as_told(now_s) for one in measured.values())
        notes = tuple(f"the baseline {one.words} could not be had: {one.why_not}" for one in told if one.why_not)
        ready = [name for name, one in measured.items() if one.samples_us]
        if not ready:
            return GivenBaseline((), "", told, notes)
        used = self._chosen if self._chosen in ready else "eager" if "eager" in ready else ready[0]
        if used != self._chosen:
            notes += (f"so it is compared with {BASELINE_WORDS[used]}",)
        self._chosen = used
        return GivenBaseline(measured[used].samples_us, self.compared_with(problem), told, notes)

    def transfer_us(self, to_device_bytes: int, to_host_bytes: int) -> float | None:
        return self._own.transfer_us(to_device_bytes, to_host_bytes)

    def state(self) -> DeviceState:
        return self._own.state()
