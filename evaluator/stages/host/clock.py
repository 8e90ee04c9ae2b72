"""The host tier's clock: the referee's, from just before the inputs appear until the right answer is there.

To reveal inputs, tell a process to go and take an answer over costs about the same for every program of the same
shapes, and a device that turns to another process takes longer than all of that, so the grader's own null submission,
which does nothing else, is timed in turns with the submission and the baseline, and what it takes is subtracted from
both. How far two of its medians may differ for nothing is the clock's resolution: a time below it is none. A
submission shares a machine with the other two, so both are timed again when its process has ended: what it had slowed
down would have been to its own good, and the faster of both medians counts.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final, Protocol

import numpy as np

from common.contract import DeviceState, Fault, Phase, Settings, Timing, Trial
from evaluator.backends.session import Session, SubmissionCall
from evaluator.errors import Ruling
from evaluator.problems.arrays import Array, Rng
from evaluator.problems.problem import Sizes
from evaluator.stages.host.host_plan import HostPlan
from evaluator.stages.time.roofline import Roofline
from evaluator.stages.time.statistics import Measurement, summarise
from evaluator.stages.time.stopping import StoppingRule, ranks
from evaluator.stages.verify.examination import POISON, Examination
from evaluator.stages.verify.trials import PlannedTrial

_WARM_UPS: Final = 3
_TURNS_AFTER: Final = 15
"""Of the null submission and the baseline once the submission has ended: enough for a median."""
_MOST_TURNS_AFTER: Final = 100
"""As many as there were before, but no more: between two medians of 100 noise is a sixth of a single time's."""
_SHARE_AFTER: Final = 0.1
"""Of the run's time limit, what more than the least of them may take."""
_LEAST_US: Final = 0.001
"""Of a single time less the null's, which noise may make negative: medians alone count."""
_LOOK_EVERY: Final = 5
_SHARE: Final = 0.5
"""Of the run's time limit, what timing may take: a submission slower than its baseline must still get a time."""


class HostStand(Session, Protocol):
    """A session that can also time the null submission and the baseline."""

    def null_us(self, call: SubmissionCall, inputs: Mapping[str, Array]) -> float:
        """What the null submission takes, which gives its outputs back as the submission does. Raises
        InfrastructureError.
        """

    def baseline_null_us(self, call: SubmissionCall, inputs: Mapping[str, Array]) -> float | None:
        """What a null submission takes that gives outputs back as the baseline does; None where that is the same."""

    def baseline_us(self, call: SubmissionCall, inputs: Mapping[str, Array]) -> float:
        """What the baseline takes. Raises InfrastructureError."""

    def end_submission(self) -> None:
        """End the submission's process; the others can still be timed."""


@dataclass(frozen=True)
class HostTimes:
    """All times of one evaluation by the referee's clock, µs, in the order in which they were taken."""

    sizes: Mapping[str, int]
    submission_us: tuple[float, ...]
    null_us: tuple[float, ...]
    baseline_us: tuple[float, ...]
    null_after_us: tuple[float, ...]
    """When the submission's process had ended."""
    baseline_after_us: tuple[float, ...]
    compared_with: str
    device: DeviceState
    baseline_null_us: tuple[float, ...] = ()
    """Of a null submission that gives outputs back as the baseline does, where the submission does it otherwise."""
    baseline_null_after_us: tuple[float, ...] = ()

    @property
    def null_median_us(self) -> float:
        """The lower of both medians."""
        return min(median(self.null_us), median(self.null_after_us))

    @property
    def baseline_null_median_us(self) -> float:
        """What is subtracted from the baseline."""
        if not self.baseline_null_us:
            return self.null_median_us
        return min(median(self.baseline_null_us), median(self.baseline_null_after_us))

    @property
    def resolution_us(self) -> float:
        """By how much two medians of the null submission may differ for nothing: 95 % of their difference, and what
        its two medians do differ by.
        """
        apart = abs(median(self.null_us) - median(self.null_after_us))
        return round(max(apart, _resolution_us(self.null_us)), 4)


@dataclass(frozen=True)
class HostRound:
    """What one round of timed calls gave: times, or why there are none."""

    times: HostTimes | None = None
    ruling: Ruling | None = None
    trials: tuple[Trial, ...] = ()
    fault: Fault | None = None


def time_calls(
    plan: HostPlan,
    session: HostStand,
    sizes: Sizes,
    settings: Settings,
    rng: Rng,
    compared_with: str,
    state: Callable[[], DeviceState],
    progress: Callable[[int], None] = lambda calls: None,
) -> HostRound:
    """Call the submission, the null submission and the baseline in turns, each answer verified; the submission's
    process is ended then. Raises InfrastructureError.
    """
    sized_plan = plan.at(sizes, settings.memory_bytes)
    if isinstance(sized_plan, Ruling):
        return HostRound(ruling=replace(sized_plan, phase=Phase.LAUNCH))
    call = sized_plan.host_call
    assert call is not None
    problem = plan.problem
    examination = Examination(plan, session, settings, rng, 0)
    trial = PlannedTrial(
        sizes, problem.distributions[0], problem.tolerance, False, published=problem.published_scalars
    )
    rule = StoppingRule.of(settings)
    until_s = time.monotonic() + _SHARE * settings.run_timeout_s
    times: list[_Turn] = []
    inputs: Mapping[str, Array] = {}
    warm_ups = 0
    while True:
        inputs = trial.distribution.draw(rng, sizes)
        outcome = examination.execute(sized_plan, inputs, POISON, quiet=True)
        ruling = examination.intact(outcome, trial, inputs)
        if ruling is None:
            ruling = examination.judge(trial, inputs, sized_plan.tensors(outcome.contents))
        if ruling is not None:
            timed = replace(ruling, phase=Phase.TIME)
            return HostRound(ruling=timed, trials=tuple(examination.trials), fault=examination.fault)
        assert outcome.times_us is not None
        turn = _Turn(outcome.times_us[0], *_beside(session, call, inputs))
        if warm_ups < _WARM_UPS:
            warm_ups += 1
            continue
        times.append(turn)
        progress(len(times))
        spent = time.monotonic() > until_s or examination.left_s <= 0
        if spent or len(times) >= settings.max_launches or (not len(times) % _LOOK_EVERY and _known(times, rule)):
            break
    session.end_submission()
    until_s = time.monotonic() + _SHARE_AFTER * settings.run_timeout_s
    after: list[_Turn] = []
    while len(after) < _TURNS_AFTER or (
        len(after) < min(len(times), _MOST_TURNS_AFTER) and time.monotonic() < until_s
    ):
        after.append(_Turn(0.0, *_beside(session, call, inputs)))
    found = HostTimes(
        sizes=dict(sizes),
        submission_us=tuple(one.submission_us for one in times),
        null_us=tuple(one.null_us for one in times),
        baseline_us=tuple(one.baseline_us for one in times),
        null_after_us=tuple(one.null_us for one in after),
        baseline_after_us=tuple(one.baseline_us for one in after),
        compared_with=compared_with,
        device=state(),
        baseline_null_us=_given(one.baseline_null_us for one in times),
        baseline_null_after_us=_given(one.baseline_null_us for one in after),
    )
    return HostRound(found, trials=tuple(examination.trials))


@dataclass(frozen=True)
class _Turn:
    submission_us: float
    null_us: float
    baseline_us: float
    baseline_null_us: float | None


def _beside(
    session: HostStand, call: SubmissionCall, inputs: Mapping[str, Array]
) -> tuple[float, float, float | None]:
    return session.null_us(call, inputs), session.baseline_us(call, inputs), session.baseline_null_us(call, inputs)


def _given(times_us: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(one for one in times_us if one is not None)


def _known(times: Sequence[_Turn], rule: StoppingRule) -> bool:
    """Whether the speedup is. A time below the resolution is not: more turns make the resolution finer."""
    null_us = median(one.null_us for one in times)
    other_us = _given(one.baseline_null_us for one in times)
    submission_us = _less([one.submission_us for one in times], null_us)
    baseline_us = _less([one.baseline_us for one in times], median(other_us) if other_us else null_us)
    least_us = min(median(submission_us), median(baseline_us))
    if least_us <= _resolution_us([one.null_us for one in times]):
        return False
    return rule.met(submission_us, baseline_us)


def host_timing(times: HostTimes, roofline: Roofline | None = None) -> Timing | str:
    """What a verdict says about the speed, or why it says nothing. `roofline`: of the device, where it is known."""
    null_us, resolution_us = times.null_median_us, times.resolution_us
    calmer = median(times.baseline_after_us) < median(times.baseline_us)
    baseline_us = _less(times.baseline_after_us if calmer else times.baseline_us, times.baseline_null_median_us)
    submission_us, raw_us = _less(times.submission_us, null_us), median(times.submission_us)
    for name, samples in (("submission", submission_us), ("baseline", baseline_us)):
        if median(samples) <= resolution_us:
            return (
                f"nothing is said about the speed: the {name} takes {max(0.0, median(samples)):.3g} us more than the "
                f"null submission's {null_us:.4g} us, and this clock cannot tell {resolution_us:.3g} us from nothing"
            )
    latency_us = median(submission_us)
    if roofline is not None and latency_us + resolution_us < roofline.floor_us:
        return (
            f"nothing is said about the speed: the submission takes {latency_us:.4g} us more than the null "
            f"submission, which no right answer can: {roofline.reason}"
        )
    measurement = Measurement(
        sizes=times.sizes,
        event_us=submission_us,
        host_us=(raw_us,) * len(submission_us),
        referee_us=(raw_us,) * len(submission_us),
        baseline_us=baseline_us,
        gap_us=0.0,
        compared_with=times.compared_with,
        device=times.device,
        checked_launches=len(submission_us),  # each answer was compared in full
        notes=(_slowed(times),) if calmer and _slowed(times) else (),
    )
    return summarise(measurement, null_us=round(null_us, 4), resolution_us=resolution_us)


def _slowed(times: HostTimes) -> str:
    share = median(times.baseline_us) / median(times.baseline_after_us) - 1
    if share < 0.05:
        return ""
    return (
        f"Beside the submission's process the baseline took {share:.0%} longer than after its end; what it took then "
        "counts."
    )


def _less(samples_us: Sequence[float], null_us: float) -> tuple[float, ...]:
    return tuple(max(_LEAST_US, one - null_us) for one in samples_us)


def _resolution_us(null_us: Sequence[float]) -> float:
    """95 % of what two medians of such samples differ by."""
    return math.sqrt(2) * _half_width_us(null_us)


def _half_width_us(samples_us: Sequence[float]) -> float:
    ordered = np.sort(samples_us)
    low, high = ranks(len(ordered))
    return float(ordered[high] - ordered[low]) / 2
