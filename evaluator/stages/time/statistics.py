"""From the times that a referee took to what a verdict says about speed: pure functions of numbers.

Three clocks time each launch of a plan: events on the GPU, the launching host's synchronised clock, and the referee's
own. The verdict's latency is the events' median; the other two witness that nothing ran outside the events.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from common.contract import BaselineTime, DeviceState, Phase, Status, Timing
from evaluator.errors import Ruling
from evaluator.stages.time.dependence import interval
from evaluator.stages.time.roofline import Roofline
from evaluator.stages.time.stopping import MIN_LAUNCHES, ranks

CONFIDENCE = 0.95
EVENT_RESOLUTION_US = 0.5
"""Of CUDA events, `cuEventElapsedTime` in the CUDA Driver API; some devices tick faster, which their samples show."""

_SLACK_US = 25.0
_SLACK_SHARE = 0.1
_WAKING_US = 1000.0
_UNDISTURBED = 0.1
"""Share of the launches that even a busy machine leaves in peace."""
_CLOCK_US = 2.0
"""By how much two clocks may differ that measure the same: their granularity, and the reading of them."""
_DRIFT = 0.01
_NOISY = 0.02


@dataclass(frozen=True)
class Clocks:
    """What three clocks showed for the same launches, microseconds, and how they differ where nothing is launched."""

    event_us: Sequence[float]
    host_us: Sequence[float]
    referee_us: Sequence[float]
    gap_us: float
    referee_gap_us: float | None


@dataclass(frozen=True)
class Measurement:
    """What the referee measured in one evaluation. Times in microseconds, in the order in which they were taken."""

    sizes: Mapping[str, int]
    event_us: tuple[float, ...]
    """By CUDA events around the plan's launches."""
    host_us: tuple[float, ...]
    """The same launches, by the clock of the process that launches, until the GPU is idle."""
    referee_us: tuple[float, ...]
    """The same launches, by the referee's clock, from the word to go to the answer."""
    baseline_us: tuple[float, ...]
    """The baseline, by CUDA events, in turns with the launches."""
    gap_us: float
    """Host's clock minus events' for a plan that does nothing, on this machine between the launches."""
    compared_with: str
    device: DeviceState
    checked_launches: int = 0
    """Timed launches whose output was verified in secret."""
    transfer_us: float | None = None
    referee_gap_us: float | None = None
    """Referee's clock minus host's for a plan that does nothing; None where it was not calibrated."""
    notes: tuple[str, ...] = ()
    baselines: tuple[BaselineTime, ...] = ()
    """Those that were timed by themselves; then `baseline_us` is of one of them."""

    def __post_init__(self) -> None:
        if not len(self.event_us) == len(self.host_us) == len(self.referee_us):
            raise ValueError("every launch has three times: by events, by the host and by the referee")
        if not self.event_us or not self.baseline_us:
            raise ValueError("a measurement needs at least one launch of the submission and one of the baseline")

    @property
    def clocks(self) -> Clocks:
        return Clocks(self.event_us, self.host_us, self.referee_us, self.gap_us, self.referee_gap_us)


@dataclass(frozen=True)
class Pooled:
    """Event times of one program and plan from all evaluations that are remembered, this one included."""

    event_us: tuple[float, ...]
    baseline_us: tuple[float, ...]
    evaluations: int = 1


def clocks_agree(clocks: Clocks) -> Ruling | None:
    """None where the three clocks tell one story; else a rejection with the evidence.

    Judged by the launches at and below the median, and of these by the tenth that was disturbed least, so that a busy
    machine is nobody's fault: there a host may not wait longer for the GPU than the events say plus what an empty
    plan costs, by more than 25 us and 10 % of the time.
    """
    event, host, referee = (np.array(clock) for clock in (clocks.event_us, clocks.host_us, clocks.referee_us))
    launches = f"in the median of {len(event)} launches"
    times = np.concatenate([event, host, referee])
    no_times = times[~(np.isfinite(times) & (times > 0))]
    if no_times.size:
        return _forged(f"A clock showed {no_times[0]:g} us, which is no time that a launch can take.")
    latency = float(np.median(event))
    slack = max(_SLACK_US, _SLACK_SHARE * latency)
    # The launches that make the median what it is. A busy machine delays some of them; a forger must lie in all.
    counted = event <= latency
    unseen = float(np.quantile((host - event)[counted], _UNDISTURBED, method="lower")) - clocks.gap_us
    if unseen > slack:
        return _forged(
            f"The events say {latency:.4g} us {launches}, but the host waited {unseen:.4g} us longer for the GPU "
            f"than after an empty plan ({slack:.4g} us would be allowed): something ran that the events did not see."
        )
    for early, late, names in ((event, host, ("events", "host")), (host, referee, ("host", "referee"))):
        ahead = float(np.median(early - late))
        if ahead > max(_CLOCK_US, 0.01 * float(np.median(late))):
            return _forged(
                f"The clock of the {names[0]} showed {ahead:.4g} us more than the {names[1]}'s {launches}, though it "
                "starts later and stops earlier."
            )
    if clocks.referee_gap_us is not None:
        hidden = float(np.quantile((referee - host)[counted], _UNDISTURBED, method="lower")) - clocks.referee_gap_us
        if hidden > max(_WAKING_US, _SLACK_SHARE * latency):
            return _forged(
                f"The launching process says {float(np.median(host)):.4g} us {launches}, but its answer came "
                f"{hidden:.4g} us later than after an empty plan: its clock is not to be believed."
            )
    return None


def below_floor(measurement: Measurement, roofline: Roofline) -> bool:
    """Whether the median is less than any right answer can take: then measure again, at a larger size.

    A larger size, because there the clock's resolution and whatever stayed in a cache matter less.
    """
    return float(np.median(measurement.event_us)) + _resolution_us(measurement.event_us) < roofline.floor_us


def too_fast(measurement: Measurement, roofline: Roofline) -> Ruling | None:
    """The ruling on a second look, taken because the first was below the floor; None where this one is not."""
    if not below_floor(measurement, roofline):
        return None
    latency = float(np.median(measurement.event_us))
    sizes = ", ".join(f"{name} = {size:,}" for name, size in measurement.sizes.items()) or "its own shapes"
    before = "at another size" if measurement.sizes else "at the same"
    return Ruling(
        Status.REJECTED,
        Phase.TIME,
        f"The kernels took {latency:.4g} us in the median of {len(measurement.event_us)} launches (at {sizes}), "
        f"which no right answer can: {roofline.reason}. A first look, {before}, was below its floor as well.",
        "Read every input and compute every output again in each launch: nothing may be kept from one launch to the "
        "next, and nothing of the work left out.",
    )


def summarise(
    measurement: Measurement,
    roofline: Roofline | None = None,
    pooled: Pooled | None = None,
    confidence: float = CONFIDENCE,
    null_us: float | None = None,
    resolution_us: float | None = None,
) -> Timing:
    """What a verdict says about the speed. `roofline` None: the device's peaks or the problem's work are not known.
    `null_us`: of times by the referee's clock, what was subtracted; then `resolution_us` is the step of that clock.

    The interval is the percentile bootstrap of the ratio of medians, both sets resampled independently, neighbours
    together (`dependence`), and wider by half a step of the clock at each median. Its seed is made from the samples,
    so the same samples in the same order give the same verdict. No sample is left out.
    """
    pooled = pooled or Pooled(measurement.event_us, measurement.baseline_us)
    # Rounded first, so that a reader of the verdict can compute the same from the samples in it.
    pooled = Pooled(_rounded(pooled.event_us), _rounded(pooled.baseline_us), pooled.evaluations)
    event, baseline = np.array(pooled.event_us), np.array(pooled.baseline_us)
    latency, reference = float(np.median(event)), float(np.median(baseline))
    speedup = reference / latency
    found = interval(event, baseline, confidence)
    step_us = [
        _resolution_us(each) if resolution_us is None else resolution_us
        for each in (pooled.event_us, pooled.baseline_us)
    ]
    steps = step_us[0] / latency, step_us[1] / reference
    widening = 1 + sum(steps) / 2
    sol_us = roofline.sol_us if roofline else None
    return Timing(
        latency_us=latency,
        baseline_us=reference,
        speedup=speedup,
        speedup_low=min(found.low, speedup) / widening,
        speedup_high=max(found.high, speedup) * widening,
        confidence=confidence,
        # A value rounded to steps is off by step / sqrt(12) in the mean square.
        speedup_stderr=math.hypot(found.stderr, *(speedup * step / math.sqrt(12) for step in steps)),
        compared_with=measurement.compared_with,
        baselines=measurement.baselines,
        sizes=dict(measurement.sizes),
        launches=len(measurement.event_us),
        pooled_evaluations=pooled.evaluations,
        samples_us=_rounded(measurement.event_us),
        baseline_samples_us=_rounded(measurement.baseline_us),
        pooled_samples_us=pooled.event_us if pooled.evaluations > 1 else (),
        pooled_baseline_samples_us=pooled.baseline_us if pooled.evaluations > 1 else (),
        host_us=float(np.median(measurement.host_us)),
        referee_us=float(np.median(measurement.referee_us)),
        checked_launches=measurement.checked_launches,
        floor_us=roofline.floor_us if roofline else None,
        sol_us=sol_us,
        sol_share=min(sol_us / latency, 1.0) if sol_us is not None else None,
        sol_score=sol_score(latency, reference, sol_us) if sol_us is not None else None,
        bandwidth_share=roofline.bandwidth_share(latency) if roofline else None,
        transfer_us=measurement.transfer_us,
        clock="device" if null_us is None else "referee",
        null_us=null_us,
        resolution_us=resolution_us,
        device=measurement.device,
        notes=(*measurement.notes, *_notes(measurement, speedup, (found.low, found.high), max(steps), sol_us)),
    )


def recomputed(timing: Timing, roofline: Roofline | None = None) -> Timing:
    """What `summarise` makes of the samples in a verdict: the same again, but for notes that the referee added.

    Raises ValueError where it has no samples.
    """
    count = len(timing.samples_us)
    measurement = Measurement(
        sizes=timing.sizes,
        event_us=timing.samples_us,
        host_us=(timing.host_us,) * count,
        referee_us=(timing.referee_us,) * count,
        baseline_us=timing.baseline_samples_us,
        gap_us=0.0,
        compared_with=timing.compared_with,
        device=timing.device,
        checked_launches=timing.checked_launches,
        transfer_us=timing.transfer_us,
        baselines=timing.baselines,
    )
    event_us = timing.pooled_samples_us or timing.samples_us
    baseline_us = timing.pooled_baseline_samples_us or timing.baseline_samples_us
    pooled = Pooled(event_us, baseline_us, timing.pooled_evaluations)
    return summarise(measurement, roofline, pooled, null_us=timing.null_us, resolution_us=timing.resolution_us)


def _rounded(samples_us: Sequence[float]) -> tuple[float, ...]:
    """To a tenth of a nanosecond, far below what any clock here tells apart."""
    return tuple(round(sample, 4) for sample in samples_us)


def sol_score(latency_us: float, baseline_us: float, sol_us: float) -> float | None:
    """1 / (1 + (t - t_sol) / (t_baseline - t_sol)) of SOL-ExecBench (NVIDIA, 2026): 0.5 as fast as the baseline.

    1 at the speed of light and beyond it (what is written may stay in the cache, and then no time is spent on it).
    None where the baseline itself is at or beyond it: then the scale has no length.
    """
    if baseline_us <= sol_us:
        return None
    if latency_us <= sol_us:
        return 1.0
    return 1 / (1 + (latency_us - sol_us) / (baseline_us - sol_us))


def _forged(evidence: str) -> Ruling:
    return Ruling(
        Status.REJECTED,
        Phase.TIME,
        f"The clocks of the timed launches do not agree. {evidence}",
        "Do all work in the launches of the plan, so that it has ended when they have.",
    )


def _resolution_us(samples: Sequence[float]) -> float:
    """The step of the clock, as the samples show it: their smallest difference, at most what CUDA promises.

    Rounded to nanoseconds first, because events come as milliseconds in float32.
    """
    steps = np.diff(np.unique(np.round(samples, 3)))
    return min(float(steps.min()), EVENT_RESOLUTION_US) if steps.size else EVENT_RESOLUTION_US


def _notes(
    measurement: Measurement, speedup: float, interval: tuple[float, float], step: float, sol_us: float | None
) -> list[str]:
    found = []
    least = min(len(measurement.event_us), len(measurement.baseline_us))
    if least < MIN_LAUNCHES:
        found.append(
            f"Only {least} launches were made, because they take long, the time was up, or the speedup or the reward "
            "is known well enough: the interval is at least the whole range of the samples."
        )
    for name, samples in (("submission", measurement.event_us), ("baseline", measurement.baseline_us)):
        if drift := _drift(samples):
            found.append(
                f"From the first third of its launches to the last the {name} became {abs(drift):.1%} "
                f"{'slower' if drift > 0 else 'faster'} (warming up, or changing clocks). All launches count."
            )
    if measurement.device.throttle_reasons:
        found.append(
            "The clocks were held down while the launches were timed "
            f"({', '.join(measurement.device.throttle_reasons)})."
        )
    width = (interval[1] - interval[0]) / 2 / speedup
    if width > _NOISY:
        found.append(f"The times are noisy: the speedup is known to {width:.1%} only.")
    if step > _NOISY / 2:
        found.append(f"The clock's steps are {step:.1%} of the time: a larger size would tell more.")
    if sol_us is not None and float(np.median(measurement.event_us)) < sol_us:
        found.append("Faster than all bytes through memory: part of the output was still in the L2 cache at the end.")
    return found


def _drift(samples: Sequence[float]) -> float:
    """Change of the median from the first third to the last, as a share; 0 where it may be chance, or is small."""
    third = len(samples) // 3
    if third < MIN_LAUNCHES:
        return 0.0
    first, last = np.sort(samples[:third]), np.sort(samples[-third:])
    low, high = ranks(third)
    change = float(np.median(last) / np.median(first)) - 1
    apart = first[high] < last[low] or last[high] < first[low]
    return change if apart and abs(change) > _DRIFT else 0.0
