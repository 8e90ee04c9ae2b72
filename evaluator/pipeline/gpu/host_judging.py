"""Judging host code on a GPU, in the process that owns it: verified, profiled and timed by the referee's clock."""

import importlib.metadata
from collections.abc import Callable
from dataclasses import replace

from common.contract import Phase
from evaluator.backends.gpu.host.process import HostFaultError, RunnableText
from evaluator.backends.gpu.host.session import HostRuntime, HostSession
from evaluator.backends.peaks import peaks_of
from evaluator.pipeline.gpu.turns import GpuTurns
from evaluator.pipeline.progress import Progress, ProgressCallback, by_trials
from evaluator.pipeline.referee import HostRequest, HostResult, Stopwatch
from evaluator.problems.arrays import Rng
from evaluator.problems.problem import Problem
from evaluator.seed import Seed
from evaluator.stages.host.clock import HostRound, host_timing, time_calls
from evaluator.stages.host.coverage import Coverage, coverage_of, kernels_of_text, ruling_on_coverage
from evaluator.stages.host.faults import in_words_of_host_code
from evaluator.stages.host.host_plan import HostPlan, host_plan
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.triton.entry_points import bind_python, python_entry
from evaluator.stages.time.measurement import Baseline
from evaluator.stages.time.roofline import Roofline, precision_of
from evaluator.stages.verify.trials import asked_sizes, trials_and_left_out
from evaluator.stages.verify.verification import verify
from evaluator.stages.verify.verified import Verified

_UNPROFILED = Coverage(None, ())


def judge_host(
    request: HostRequest,
    runtime: HostRuntime,
    make_rng: Callable[[int], Rng],
    baseline: Baseline,
    progress: ProgressCallback,
    turns: GpuTurns | None = None,
) -> HostResult:
    """Verify, profile and time one submission. `turns`: with the other referees of this GPU.

    Raises UsageError, InfrastructureError.
    """
    settings, problem = request.settings, request.problem
    generator = Seed(request.secret).generator()
    trials, left_out = trials_and_left_out(problem, settings, generator, timed_too=settings.timing)
    rng = make_rng(int(generator.integers(1 << 62)))
    clock = Stopwatch()
    plan = host_plan(problem, request.arch, request.text.count("\n") + 1)
    compared = baseline_of(problem, plan.stated) if settings.timing else None
    program = RunnableText(request.form, request.text, request.libraries, request.call)
    with (
        (turns or GpuTurns(None)).job() as turn,
        runtime.open(program, compared, foreign=bool(problem.origin), given=_given_outputs(request)) as session,
    ):
        clock.lap("process")
        # Alone where a verdict or a reward goes by it; elsewhere all others would wait seconds for a profile.
        decides = settings.min_coverage is not None or settings.reward == "coverage"
        profiled_alone = settings.timing or decides
        coverage = _UNPROFILED
        try:
            verified = verify(plan, session, settings, rng, trials, by_trials(progress), left_out=left_out)
            verified = in_words_of_host_code(verified.warned_of_what_hardly_tells())
            clock.lap("verify")
            if verified.ruling is None and not profiled_alone:
                progress(Progress(Phase.PROFILE))
                coverage = _covered(session, request)
                clock.lap("profile")
        finally:
            # For timing, and for clearing what memory is free afterwards, the device must be nobody else's.
            turn.alone()
        clock.lap("turn")
        if verified.ruling is not None:
            return HostResult(verified, verified.ruling, session.entry, phases_s=clock.laps_s)
        if profiled_alone:
            progress(Progress(Phase.PROFILE))
            coverage = _covered(session, request)
            clock.lap("profile")
        ruling = ruling_on_coverage(coverage, settings.min_coverage)
        found = HostResult(verified, ruling, session.entry, coverage=coverage.share, libraries=coverage.libraries)
        if ruling is None and compared is None and settings.timing:
            why = "nothing was timed: the file that states the problem says no way to compute it with PyTorch"
            found = replace(found, verified=verified.warned((why,)))
        elif ruling is None and settings.timing:
            with turn.without_new_contexts():
                clock.lap("turn")
                found = _timed(found, plan, session, request, rng, baseline, progress)
                clock.lap("time")
    return replace(found, phases_s=clock.laps_s)


def _timed(
    found: HostResult,
    plan: HostPlan,
    session: HostSession,
    request: HostRequest,
    rng: Rng,
    baseline: Baseline,
    progress: ProgressCallback,
) -> HostResult:
    settings, problem = request.settings, request.problem
    sizes = asked_sizes(problem, settings.sizes) if settings.sizes else problem.timing_sizes
    compared_with = baseline.compared_with(problem)
    if problem.origin:
        version = importlib.metadata.version("torch").partition("+")[0]
        compared_with = f"PyTorch {version} eager: {problem.baseline}"

    def called(done: int) -> None:
        progress(Progress(Phase.TIME, str(done)))

    try:
        timed = time_calls(plan, session, sizes, settings, rng, compared_with, baseline.state, called)
    except HostFaultError as failed:
        why = f"nothing was timed: the problem's own file fails as a baseline ({failed})"
        return replace(found, verified=found.verified.warned((why,)))
    if timed.ruling is not None or timed.times is None:
        verified = in_words_of_host_code(replace(_failed(found.verified, timed), ruling=timed.ruling))
        return replace(found, verified=replace(verified, ruling=None), ruling=verified.ruling)
    peaks = peaks_of(timed.times.device) if problem.work_is_least else None
    roofline = Roofline(problem.work(sizes), precision_of(problem), peaks) if peaks else None
    timing = host_timing(timed.times, roofline)
    if isinstance(timing, str):
        return replace(found, verified=found.verified.warned((timing,)))
    return replace(found, timing=timing)


def _failed(verified: Verified, timed: HostRound) -> Verified:
    """The correctness as a failed timed call leaves it."""
    correctness = verified.correctness
    assert correctness is not None
    failed = {"passed": False, "trials": (*correctness.trials, *timed.trials), "fault": timed.fault}
    return replace(verified, correctness=correctness.model_copy(update=failed))


def _covered(session: HostSession, request: HostRequest) -> Coverage:
    """What a call's time is spent on; nothing where the process does not say it."""
    try:
        return coverage_of(session.spent(request.settings.run_timeout_s), kernels_of_text(request.text))
    except HostFaultError:
        return _UNPROFILED


def _given_outputs(request: HostRequest) -> frozenset[str]:
    """The outputs that a submission writes where it is given them: it returns the others, which are copied then.

    All, where its text does not say it: so nothing is subtracted that it may not have taken.
    """
    outputs = frozenset(one.name for one in request.problem.outputs)
    if request.form == "kernelbench":
        return frozenset()
    if request.call is not None:
        given = [*request.call.arguments, *(each[1:] for each in request.call.keywords)]
        return outputs & {what for _, what in given if isinstance(what, str)}
    entry = python_entry(request.text)
    try:
        binding = None if entry is None else bind_python(request.problem, entry)
    except LiftRefusedError:
        return outputs
    return outputs if binding is None else outputs & {*binding.names, *binding.keywords}


def baseline_of(problem: Problem, reference: str) -> RunnableText | None:
    """PyTorch's own way to solve a problem, as a program like a submission's; None where there is none.

    `reference`: the file that states the problem, where that says how a model is made.
    """
    if problem.origin:
        return RunnableText("kernelbench", "") if reference else None
    names = [*(one.name for one in problem.inputs), *problem.example_sizes[0], *(one.name for one in problem.scalars)]
    return RunnableText(
        "kernelbench",
        "import torch\n"
        "import torch.nn.functional as F\n"
        "class ModelNew(torch.nn.Module):\n"
        f"    def forward(self, {', '.join(names)}):\n"
        f"        return {problem.baseline}\n",
    )
