"""Judging on the simulator, in this process: all of an evaluation, or a rehearsal before a GPU has it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Literal

from common.contract import Generalisation, Status
from evaluator.backends.session import PieceSession, UnsupportedError
from evaluator.backends.sim.backend import Simulator
from evaluator.errors import Ruling, UsageError
from evaluator.pipeline.progress import ProgressCallback, by_trials, unheard
from evaluator.pipeline.referee import HostRequest, HostResult, JudgeRequest, JudgeResult, Referee
from evaluator.problems.arrays import NumpyRng, Rng
from evaluator.problems.problem import Problem, Sizes, sizes_in_words
from evaluator.sandbox.retry import tried
from evaluator.seed import Seed
from evaluator.stages.profile.sampled_counters import sample, shortfall
from evaluator.stages.profile.sim_counters import tally
from evaluator.stages.verify.large.large_trials import SampledTrials
from evaluator.stages.verify.trials import PlannedTrial, rehearsal, trials_and_left_out, work_at
from evaluator.stages.verify.verification import verify
from evaluator.stages.verify.verified import Verified

_REHEARSAL_S: Final = 5.0
_ELSEWHERE_S: Final = 10.0
"""Of all runs at sizes that a kernel need not serve, which are small."""
_SAYS_NOTHING: Final = (Status.UNSUPPORTED, Status.TIMEOUT, Status.OUT_OF_MEMORY)
"""What is no answer, wrong or right: what we lack, and limits that hold for the simulator alone."""
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

    def judge_host(self, request: HostRequest, progress: ProgressCallback) -> HostResult:
        raise UnsupportedError("host code: it runs kernels alone")

    def _judge(self, request: JudgeRequest, progress: ProgressCallback) -> JudgeResult:
        generator = Seed(request.secret).generator()
        checked_plan = request.checked_plan
        work = work_at(checked_plan.problem, checked_plan.problem.example_sizes[0])
        if work > _MOST_WORK and not self._rehearses:
            raise UnsupportedError(
                f"a problem of these shapes in time: about {work:.2g} operations and words of memory, and at most "
                f"{_MOST_WORK:.2g} are run"
            )
        trials, left_out = trials_and_left_out(checked_plan.problem, request.settings, generator)
        if self._rehearses:
            trials = rehearsal(checked_plan.problem, trials)

        with self._simulator.prepare(request.program, request.settings, self._rehearses) as session:
            rng, seed = NumpyRng(generator), int(generator.integers(1, 1 << 62))
            beyond = SampledTrials(session)
            verified = verify(
                checked_plan, session, request.settings, rng, trials, by_trials(progress), seed, beyond, left_out
            )
            if verified.ruling:
                _supported(checked_plan.problem, verified.ruling)
                return JudgeResult(verified)
            if not self._rehearses:
                verified = verified.warned_of_what_hardly_tells()
            if trials:
                judged = self._counted(request, verified, session, rng)
            else:
                judged = JudgeResult(verified.warned((_unrehearsed(work),)))
            varied = checked_plan.problem.varied_sizes
            if varied is None:
                return judged
            elsewhere = self._elsewhere(request, session, varied(generator), rng, seed)
            return replace(judged, verified=_generalised(judged.verified, elsewhere))

    def _elsewhere(
        self, request: JudgeRequest, session: PieceSession, sets: Sequence[Sizes], rng: Rng, seed: int
    ) -> "_Elsewhere":
        """What the program gives at `sets`, with the kernels that it needs there. The session is of no further use.

        Raises InfrastructureError.
        """
        recorded = request.checked_plan.recorded
        rebuild = recorded.rebuild if recorded is not None else None
        if rebuild is None or not sets:
            session.renew()
            return _generalisation(request, session, sets, rng, seed)
        # Only here, of a program that is right: each size may take seconds to compile for, and differs by the seed.
        built = rebuild([(sizes, {}) for sizes in sets])
        if isinstance(built, Ruling):
            return _Elsewhere(None, built.message)
        program, plans = built
        try:
            other = self._simulator.prepare(program, request.settings, self._rehearses)
        except UnsupportedError as missing:
            return _Elsewhere(None, f"The simulator cannot run {missing.feature}.")
        with other:
            checked_plan = replace(request.checked_plan, recorded=plans)
            asked = replace(request, program=program, checked_plan=checked_plan)
            return _generalisation(asked, other, sets, rng, seed)

    def _counted(self, request: JudgeRequest, verified: Verified, session: PieceSession, rng: Rng) -> JudgeResult:
        """What the simulator counts of a program that it found right."""
        checked_plan, settings = request.checked_plan, request.settings
        evidence = tally(checked_plan, session, settings, rng)
        if evidence is None or self._rehearses or settings.estimate_for is None:
            return JudgeResult(verified, evidence=evidence)
        if any(one.counted_blocks != prod(one.grid) for one in evidence.launches):
            session.renew()  # a few blocks have left it in a state that no launch ends in
        sampled = sample(checked_plan, session, settings, rng)
        lacking = shortfall(sampled, evidence, checked_plan) if sampled else None
        if lacking:
            return JudgeResult(verified.warned((lacking,)), evidence=evidence, sampled=evidence)
        return JudgeResult(verified, evidence=evidence, sampled=sampled or evidence)


def _unrehearsed(work: float) -> str:
    return (
        "it was not rehearsed on the simulator, which alone sees races and reads out of bounds: at the sizes that "
        f"the problem states ({work:.2g} operations and words of memory) that would take too long"
    )


def _supported(problem: Problem, ruling: Ruling) -> None:
    """Raise UnsupportedError where a failure says nothing: at smaller sizes than those that a kernel is meant for."""
    if problem.too_large:
        raise UnsupportedError(
            f"this problem at its own sizes ({problem.too_large}), and the kernel fails at the smaller ones that "
            f"were tried, which it need not serve: {ruling.message.removesuffix('.')}",
            remedy="Add --other-sizes required (settings.other_sizes), with which a kernel must be right at other "
            "sizes too and is incorrect where it is not, or grade on a GPU (--backend gpu), at the problem's own "
            "sizes.",
        )


@dataclass(frozen=True)
class _Elsewhere:
    """What a kernel that is right at its problem's sizes gives at others."""

    found: Generalisation | None
    """None where it was judged at none."""
    unjudged: str | None = None
    """Why it was not judged at one of them, where it was not."""


def _generalisation(
    request: JudgeRequest, session: PieceSession, sets: Sequence[Sizes], rng: Rng, seed: int
) -> _Elsewhere:
    """What the kernel gives at `sets`, as far as it can be judged there. Raises InfrastructureError."""
    checked_plan, settings, problem = request.checked_plan, request.settings, request.checked_plan.problem
    runnable: list[Sizes] = []
    unjudged: str | None = None
    for sizes in sets:
        sized_plan = checked_plan.at(sizes, settings.memory_bytes)
        if not isinstance(sized_plan, Ruling):
            runnable.append(sizes)
        elif sized_plan.status in _SAYS_NOTHING:
            unjudged = unjudged or _placed(sizes, sized_plan)
        else:
            return _Elsewhere(Generalisation(passed=False, sizes=(dict(sizes),), message=sized_plan.message))
    if not runnable:
        return _Elsewhere(None, unjudged)
    typical = problem.distributions[0]
    trials = [
        PlannedTrial(sizes, typical, problem.tolerance, True, published=problem.published_scalars)
        for sizes in runnable
    ]
    limited = settings.model_copy(update={"run_timeout_s": min(settings.run_timeout_s, _ELSEWHERE_S)})
    try:
        verified = verify(checked_plan, session, limited, rng, trials, seed=seed)
    except (UnsupportedError, UsageError):
        # Neither what the simulator lacks nor what the problem's file cannot do is the kernel's fault.
        return _Elsewhere(None, unjudged)
    ran = verified.correctness.trials if verified.correctness is not None else ()
    ruling = verified.ruling
    if ruling is not None and ruling.status in _SAYS_NOTHING:
        right = tuple(dict(trial.sizes) for trial in ran if trial.passed)
        failed = ran[-1].sizes if ran else runnable[0]
        return _Elsewhere(Generalisation(passed=True, sizes=right) if right else None, _placed(failed, ruling))
    tried = [dict(trial.sizes) for trial in ran] or [dict(runnable[0])]
    message = ruling.message if ruling is not None else None
    return _Elsewhere(Generalisation(passed=message is None, sizes=tuple(tried), message=message), unjudged)


def _placed(sizes: Sizes, ruling: Ruling) -> str:
    """The message, with where it holds."""
    place = sizes_in_words(sizes)
    return ruling.message if place in ruling.message else f"At {place}: {ruling.message}"


def _generalised(verified: Verified, elsewhere: _Elsewhere) -> Verified:
    """The same with this fact, and a warning where it is a bad one or not all of it is known."""
    if verified.correctness is None:
        return verified
    found, unjudged = elsewhere.found, elsewhere.unjudged
    if found is None:
        why = f" ({unjudged.removesuffix('.')})" if unjudged else ""
        return verified.warned(
            (f"nothing is said about other sizes: the simulator could run none of those drawn{why}",)
        )
    told = replace(verified, correctness=verified.correctness.model_copy(update={"generalisation": found}))
    if found.passed:
        return told.warned((f"not all of the other sizes drawn could be judged: {unjudged}",) if unjudged else ())
    warning = (
        f"the kernel is right at the problem's own sizes, as it must be, and not at others, such as "
        f"{sizes_in_words(found.sizes[-1])}: {found.message}"
    )
    return told.warned((warning,))


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
    both = shown.model_copy(
        update={
            "watched": seen.watched if seen.trials else shown.watched,
            "warnings": warnings,
            "hazards": hazards,
            "generalisation": seen.generalisation,
        }
    )
    return replace(judged, verified=replace(judged.verified, correctness=both))
