"""The verdict of an evaluation, from what it had reached when it ended and the ruling that ended it."""

import time
from dataclasses import replace
from typing import Final

from common.contract import Compilation, Dialect, HostRun, Phase, Profile, Receipt, Screening, Status, Timing, Verdict
from common.facts import facts_of, measures_of, measures_of_host_code
from common.reward import reward
from evaluator.errors import Ruling
from evaluator.pipeline.grading_job import GradingJob
from evaluator.pipeline.receipt import receipt, signed
from evaluator.pipeline.stage_values import (
    CompiledSource,
    Ending,
    JudgedHostCode,
    JudgedProgram,
    PlannedProgram,
    ScreenedSource,
    TimedProgram,
)
from evaluator.stages.compile.nvcc import Compiled
from evaluator.stages.lift.dialects import in_host_words
from evaluator.stages.profile.profile import counters, expected_time, profile

_NOT_COUNTED: Final = ("registers, occupancy and counts: host code ran, so which kernels it launches is not known",)
_WORTH_A_HINT: Final = 0.2
"""Share of the time that a pitfall must cost for the verdict of a right kernel to speak of it."""


def build_verdict(job: GradingJob, ending: Ending) -> Verdict:
    """The verdict, with everything that is known, signed where there is a key. Raises InfrastructureError."""
    known = _Known(ending)
    settings = job.submission.settings
    timing = known.timed.timing if known.timed else None
    correctness = known.judged.result.verified.correctness if known.judged else None
    compilation = known.compilation()
    found = _profile(job, known.judged, timing) if known.judged and correctness else None
    if known.host is not None:
        result = known.host.result
        timing, correctness = result.timing, result.verified.correctness
        found = Profile(coverage=result.coverage, not_measured=_NOT_COUNTED)
    ruling = ending.ruling
    if ruling is None:
        ruling = Ruling(Status.PASSED, known.last_phase(), known.praise(), known.next_step(found))
    hint = in_host_words(ruling.hint, known.dialect) if ruling.hint else None
    ruling = replace(ruling, message=in_host_words(ruling.message, known.dialect), hint=hint)
    job.stopwatch.lap(ruling.phase)
    measurable = measures_of(job.target.name, settings, ruling.status, found)
    if known.host is not None:
        measurable = measures_of_host_code(settings, ruling.status, timing, found)
    facts = facts_of(
        status=ruling.status,
        compilation=compilation,
        correctness=correctness,
        timing=timing,
        profile=found,
        settings=settings,
        measurable=measurable,
    )
    verdict = Verdict(
        status=ruling.status,
        phase=ruling.phase,
        message=ruling.message,
        hint=ruling.hint,
        backend=job.target.name,
        problem=job.problem.id,
        compile=compilation,
        correctness=correctness,
        timing=timing,
        profile=found,
        reward=reward(settings.reward, facts) if ruling.status.carries_reward else None,
        receipt=_receipt(job, known),
    )
    return signed(verdict, job.toolbox.signer)


class _Known:
    """The values of all stages up to the one that an evaluation had reached."""

    def __init__(self, ending: Ending) -> None:
        at = ending.reached
        self.host = at if isinstance(at, JudgedHostCode) else None
        at = at.screened if isinstance(at, JudgedHostCode) else at
        self.timed = at if isinstance(at, TimedProgram) else None
        at = self.timed.judged if self.timed else at
        self.judged = at if isinstance(at, JudgedProgram) else None
        at = self.judged.planned if self.judged else at
        self.planned = at if isinstance(at, PlannedProgram) else None
        at = self.planned.compiled_source if self.planned else at
        self.compiled: Compiled | None = at.compiled if isinstance(at, CompiledSource) else None
        at = at.screened if isinstance(at, CompiledSource) else at
        self.screening = at.screening if isinstance(at, ScreenedSource) else Screening()
        self.dialect: Dialect = at.dialect if isinstance(at, ScreenedSource) else "cuda"

    def compilation(self) -> Compilation:
        compiled = self.compiled
        if self.host is not None:
            result = self.host.result
            ran = HostRun(entry=result.entry, why=self.host.why, libraries=result.libraries)
            screening = self.screening
            return Compilation(succeeded=True, screening=screening, dialect=self.dialect, tier="host", host=ran)
        if compiled is None:
            return Compilation(succeeded=None, screening=self.screening, dialect=self.dialect)
        return Compilation(
            succeeded=compiled.program is not None,
            screening=self.screening,
            toolchain=compiled.toolchain,
            arch=compiled.arch,
            flags=compiled.flags,
            diagnostics=compiled.diagnostics,
            kernels=compiled.kernels,
            cached=compiled.cached,
            duration_s=round(compiled.duration_s, 4),
            dialect=self.dialect,
            lifting=self.planned.lifting if self.planned else None,
        )

    def last_phase(self) -> Phase:
        if self.host is not None:
            return Phase.TIME if self.host.result.timing else Phase.VERIFY
        counted = self.judged.result.counted if self.judged else None
        if counted is not None and counted.evidence is not None:
            return Phase.PROFILE
        return Phase.TIME if self.timed else Phase.VERIFY

    def praise(self) -> str:
        seen = self.host or self.judged
        correctness = seen.result.verified.correctness if seen else None
        trials = correctness.trials if correctness else ()
        judged = [trial for trial in trials if trial.compared != 0]
        sizes = len({tuple(trial.sizes.items()) for trial in judged})
        right = f"Right in all {len(judged)} trials, at {sizes} {'set' if sizes == 1 else 'sets'} of sizes."
        if correctness and correctness.left_out:
            right = f"{right} Not judged at {' and at '.join(said.split(':')[0] for said in correctness.left_out)}."
        speed = self.timed.timing if self.timed else self.host.result.timing if self.host else None
        if speed is None:
            return right
        return (
            f"{right} {speed.speedup:.3g} times as fast as {speed.compared_with} "
            f"({speed.confidence:.0%} interval {speed.speedup_low:.3g} to {speed.speedup_high:.3g})."
        )

    def next_step(self, found: Profile | None) -> str | None:
        """What a right kernel could save, where it is much."""
        costliest = found.pitfalls[0] if found and found.pitfalls else None
        if costliest is not None and costliest.weight >= _WORTH_A_HINT:
            line = f", line {costliest.line}" if costliest.line else ""
            return f"{costliest.kernel}{line}: {costliest.cost}. {costliest.remedy}"
        spilled = [k.kernel for k in (self.compiled.kernels if self.compiled else ()) if k.spill_store_bytes]
        if spilled:
            return f"{spilled[0]} spills registers to memory: shrink its tile, or its unrolling."
        return None


def _profile(job: GradingJob, judged: JudgedProgram, timing: Timing | None) -> Profile:
    """What the program needs and does; with what the GPU's profiler added, and the time to expect elsewhere."""
    compiled, checked_plan, result = judged.planned.compiled, judged.planned.checked_plan, judged.result
    settings, run = job.submission.settings, judged.result.verified
    added: dict[str, object] = {}
    if result.counted is not None:
        added |= counters(result.counted)
    elif settings.profile and job.target.name == "sim":
        added["not_measured"] = ("GPU counters: this was graded on the simulator",)
    if settings.estimate_for is not None and result.sampled is not None and timing is None:
        expected = expected_time(compiled, checked_plan, result.sampled, settings.estimate_for)
        added |= {"estimate": expected, "estimated_speedup": expected.speedup}
    found = profile(compiled, checked_plan, run.thread_instructions, run.facts, result.evidence)
    return found.model_copy(update=added)


def _receipt(job: GradingJob, known: _Known) -> Receipt:
    worked_s = job.preparation.worked_s
    judged = known.host or known.judged
    referee_s = judged.result.phases_s if judged else {}
    phases_s = {"prepare": round(worked_s, 5)} if worked_s else {}
    phases_s |= {**job.stopwatch.laps_s, **{f"referee.{name}": time_s for name, time_s in referee_s.items()}}
    # Nothing was run before the compiler; and asking for a sandbox that cannot be made would fail again.
    sandbox = job.toolbox.sandbox if known.compiled or known.host else None
    return receipt(
        problem=job.problem,
        settings=job.submission.settings,
        plan=known.planned.checked_plan.plan if known.planned else job.submission.plan,
        raw=job.raw,
        compiled=known.compiled,
        device=job.target.device,
        sandbox=sandbox.name if sandbox else "none",
        sandbox_image=sandbox.image_id if sandbox else None,
        seed=job.seed,
        duration_s=worked_s + time.monotonic() - job.started_s,
        phases_s=phases_s,
    )
