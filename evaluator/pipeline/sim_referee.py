"""Judging on the simulator, in this process: all of an evaluation, or a rehearsal before a GPU has it."""

from dataclasses import replace
from math import prod
from typing import Final, Literal

from common.contract import Status
from evaluator.backends.session import UnsupportedError
from evaluator.backends.sim.backend import Simulator
from evaluator.pipeline.progress import ProgressCallback, by_trials, unheard
from evaluator.pipeline.referee import JudgeRequest, JudgeResult, Referee
from evaluator.problems.arrays import NumpyRng
from evaluator.sandbox.retry import tried
from evaluator.seed import Seed
from evaluator.stages.profile.sampled_counters import sample, shortfall
from evaluator.stages.profile.sim_counters import tally
from evaluator.stages.verify.large.large_trials import SampledTrials
from evaluator.stages.verify.trials import plan_trials, rehearsal, too_large, work_at
from evaluator.stages.verify.verification import verify

_REHEARSAL_S: Final = 5.0
_MOST_WORK: Final = 1 << 29
"""Operations, and words of memory that move, of a trial that is run whole: some seconds on one core. Our own problems
publish far smaller sizes."""


class SimulatorReferee:
    """Judges on the simulator, which has no clocks, in this process."""

    name: Literal["gpu", "sim"] = "sim"

    def __init__(self, simulator: Simulator, rehearses: bool = False) -> None:
        """`rehearses`: only the few trials that take a moment, before a GPU does them all."""
        self._simulator = simulator
        self._rehearses = rehearses

    @property
    def device(self) -> str:
        return self._simulator.device

    @property
    def arch(self) -> str:
        return self._simulator.arch

    def judge(self, request: JudgeRequest, progress: ProgressCallback) -> JudgeResult:
        # All of it again, from the same seed: the kernel has done nothing that anyone could have kept.
        return tried(lambda: self._judge(request, progress))

    def _judge(self, request: JudgeRequest, progress: ProgressCallback) -> JudgeResult:
        generator = Seed(request.secret).generator()
        checked_plan = request.checked_plan
        work = work_at(checked_plan.problem, checked_plan.problem.example_sizes[0])
        if work > _MOST_WORK:
            raise UnsupportedError(
                f"a problem of these shapes in time: about {work:.2g} operations and words of memory, and at most "
                f"{_MOST_WORK:.2g} are run"
            )
        trials = plan_trials(checked_plan.problem, request.settings, generator)
        left_out = too_large(checked_plan.problem, request.settings, Seed(request.secret).generator())
        if self._rehearses:
            trials = rehearsal(checked_plan.problem, trials)

        with self._simulator.prepare(request.program, request.settings) as session:
            rng, seed = NumpyRng(generator), int(generator.integers(1, 1 << 62))
            beyond = SampledTrials(session)
            verified = verify(
                checked_plan, session, request.settings, rng, trials, by_trials(progress), seed, beyond, left_out
            )
            if verified.ruling:
                return JudgeResult(verified)
            evidence = tally(checked_plan, session, request.settings, rng)
            if evidence is None or self._rehearses or request.settings.estimate_for is None:
                return JudgeResult(verified, evidence=evidence)
            if any(one.counted_blocks != prod(one.grid) for one in evidence.launches):
                session.renew()  # a few blocks have left it in a state that no launch ends in
            sampled = sample(checked_plan, session, request.settings, rng)
            lacking = shortfall(sampled, evidence, checked_plan) if sampled else None
            if lacking:
                return JudgeResult(verified.warned((lacking,)), evidence=evidence, sampled=evidence)
            return JudgeResult(verified, evidence=evidence, sampled=sampled or evidence)


def rehearse(referee: Referee | None, request: JudgeRequest) -> JudgeResult | UnsupportedError | None:
    """What a rehearsal showed, where it matters: a fault, a race, or a wrong answer that a GPU may not show; of a
    right submission, what was counted; or what the simulator lacks.

    That a simulator cannot run a program, or not in time, says nothing about a GPU: then it is None. Raises
    InfrastructureError.
    """
    if referee is None or not request.settings.rehearse:
        return None
    limited = request.settings.model_copy(update={"run_timeout_s": min(request.settings.run_timeout_s, _REHEARSAL_S)})
    try:
        judged = referee.judge(replace(request, settings=limited), unheard)
    except UnsupportedError as missing:
        return missing
    ruling = judged.verified.ruling
    if ruling is None:
        return judged
    if ruling.status not in (Status.TIMEOUT, Status.OUT_OF_MEMORY):
        said = replace(ruling, message=f"In the rehearsal on the simulator. {ruling.message}")
        return replace(judged, verified=replace(judged.verified, ruling=said))
    return None


def also_rehearsed(judged: JudgeResult, rehearsed: JudgeResult | None) -> JudgeResult:
    """What a GPU showed, with what a rehearsal before it watched and warned of."""
    shown = judged.verified.correctness
    seen = rehearsed.verified.correctness if rehearsed else None
    if shown is None or seen is None:
        return judged
    warnings = tuple(dict.fromkeys((*shown.warnings, *seen.warnings)))
    hazards = tuple(dict.fromkeys((*shown.hazards, *seen.hazards)))
    both = shown.model_copy(update={"watched": seen.watched, "warnings": warnings, "hazards": hazards})
    return replace(judged, verified=replace(judged.verified, correctness=both))
