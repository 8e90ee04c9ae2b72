"""What the timed launches of a GPU mean: statistics, and what clocks, answers and floor say about the submission."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from common.contract import Timing
from evaluator.backends.peaks import peaks_of
from evaluator.errors import Ruling
from evaluator.pipeline.referee import JudgeResult
from evaluator.problems.problem import Sizes
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.time.measurement import TimingRound
from evaluator.stages.time.roofline import Roofline, precision_of
from evaluator.stages.time.statistics import Measurement, Pooled, clocks_agree, summarise, too_fast
from evaluator.stages.verify.verified import Verified


@dataclass(frozen=True)
class Timed:
    """What the measurements mean."""

    verified: Verified
    timing: Timing | None
    ruling: Ruling | None


def timed(checked_plan: CheckedPlan, judged: JudgeResult, remember: Callable[[Measurement], Pooled]) -> Timed:
    """Statistics of the timed launches, and what their clocks, answers and floor say about the submission.

    `remember(measurement)` gives the samples of all evaluations of the same program and plan.
    """
    assert judged.look is not None
    for look in (judged.look, judged.second_look):
        if look is not None and look.ruling is not None:
            return Timed(_with_failure(judged.verified, look), None, look.ruling)
    look = judged.second_look or judged.look
    measurement, roofline = look.measurement, roofline_of(checked_plan, look)
    assert measurement is not None
    ruling = None if look.printed else clocks_agree(measurement.clocks)
    if ruling is None and judged.second_look and roofline:
        ruling = too_fast(measurement, roofline)
    pooled = None if ruling else remember(measurement)
    return Timed(judged.verified, summarise(measurement, roofline, pooled), ruling)


def _with_failure(verified: Verified, look: TimingRound) -> Verified:
    """The correctness as a failed timed launch leaves it."""
    correctness = verified.correctness
    assert correctness is not None
    failed = {"passed": False, "trials": (*correctness.trials, *look.trials), "fault": look.fault}
    return replace(verified, correctness=correctness.model_copy(update=failed))


def roofline_of(checked_plan: CheckedPlan, look: TimingRound) -> Roofline | None:
    """What bounds the measured time from below; None where the device is not known."""
    if look.measurement is None or not checked_plan.problem.work_is_least:
        return None
    peaks, problem = peaks_of(look.measurement.device), checked_plan.problem
    return Roofline(problem.work(look.measurement.sizes), precision_of(problem), peaks) if peaks else None


def larger(sizes: Sizes) -> dict[str, int]:
    """Twice the first size: twice the work, and no other shape than before. A problem that is known at its own shapes
    only has no sizes, and none that is larger.
    """
    return {**sizes, **{first: 2 * sizes[first] for first in [*sizes][:1]}}
