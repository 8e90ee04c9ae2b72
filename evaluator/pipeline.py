"""The straight line: one submission in, one verdict out.

screen -> compile -> launch -> verify -> profile -> verdict
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from common.contract import (
    Compilation,
    Phase,
    Receipt,
    Screening,
    Status,
    Submission,
    Verdict,
)
from common.facts import facts_of
from common.reward import reward
from evaluator.backends.backend import Backend, Unsupported
from evaluator.errors import InfrastructureFault, OwnMistake, Ruling, UsageError
from evaluator.problems.arrays import NumpyDice
from evaluator.problems.catalogue import find
from evaluator.problems.problem import Problem
from evaluator.stages.cleaning import clean
from evaluator.stages.compilation import Compiled, compile_source
from evaluator.stages.launchable import Launchable
from evaluator.stages.launching import plan_launches
from evaluator.stages.profiling import profile
from evaluator.stages.receipt import Seed, receipt
from evaluator.stages.screening import screen
from evaluator.stages.verification import Verified, plan_trials, verify
from evaluator.workshop import Workshop

Progress = Callable[[str], None]


def evaluate(
    submission: Submission,
    workshop: Workshop,
    raw: bytes | None = None,
    progress: Progress = lambda text: None,
) -> Verdict:
    """Grade one submission.

    `raw` is the source's own bytes where the caller has a file (else `submission.source` counts), so that what is not
    text is a verdict too. Raises UsageError for a problem, backend or size that does not exist; whatever is wrong
    with the submission is a verdict, and so are our own failures (`internal_error`, without a reward).
    """
    problem = find(submission.problem)
    try:
        backend = workshop.backend(submission)
    except InfrastructureFault as fault:
        return _nothing_was_tried(problem, fault)
    content = raw if raw is not None else submission.source.encode(errors="surrogatepass")
    case = Case(submission, problem, workshop, backend, content)
    phase = Phase.SCREEN

    def note(text: str) -> None:
        nonlocal phase
        phase = Phase(text.split()[0])
        progress(text)

    try:
        return _grade(case, note)
    except InfrastructureFault as fault:
        return case.verdict(Ruling(Status.INTERNAL_ERROR, phase, str(fault), fault.remedy))
    except UsageError:
        raise
    except Exception as error:
        return _nothing_was_tried(problem, OwnMistake(error))


def _grade(case: "Case", progress: Progress) -> Verdict:
    settings, backend, workshop = case.submission.settings, case.backend, case.workshop

    progress("screen")
    cleaned = clean(case.raw)
    if cleaned.ruling:
        return case.verdict(cleaned.ruling)
    screened = screen(cleaned.source, cleaned.changes)
    case = replace(case, screening=screened.screening)
    if screened.ruling:
        return case.verdict(screened.ruling)

    progress("compile")
    arch = settings.arch or backend.arch
    compiled = compile_source(cleaned.source, settings, arch, workshop.toolchain, workshop.sandbox, workshop.cache)
    case = replace(case, compiled=compiled)
    if compiled.ruling or compiled.program is None:
        return case.verdict(compiled.ruling)

    progress("launch")
    shared = {kernel.kernel: kernel.shared_bytes for kernel in compiled.kernels}
    planned = plan_launches(case.problem, compiled.program, case.submission.plan, cleaned.source, shared)
    if planned.ruling or planned.launchable is None:
        return case.verdict(planned.ruling)
    case = replace(case, launchable=planned.launchable)

    progress("verify")
    generator = case.seed.generator()
    try:
        with backend.prepare(compiled.program, settings) as session:
            verified = verify(
                planned.launchable,
                session,
                settings,
                NumpyDice(generator),
                plan_trials(case.problem, settings, generator),
                lambda done, of: progress(f"verify {done}/{of}"),
            )
    except Unsupported as missing:
        return case.verdict(_unsupported(missing))
    case = replace(case, verified=verified)
    return case.verdict(verified.ruling)


def _nothing_was_tried(problem: Problem, fault: InfrastructureFault) -> Verdict:
    """The verdict where this machine has no compiler, or no place to work: not even a receipt can be given."""
    return Verdict(
        status=Status.INTERNAL_ERROR,
        phase=Phase.SCREEN,
        message=str(fault),
        hint=fault.remedy,
        backend="sim",
        problem=problem.id,
        compile=None,
        correctness=None,
        timing=None,
        profile=None,
        reward=None,
        receipt=None,
    )


def _unsupported(missing: Unsupported) -> Ruling:
    line = f" (line {missing.line})" if missing.line else ""
    return Ruling(
        Status.UNSUPPORTED,
        Phase.LAUNCH,
        f"The simulator cannot run {missing.feature}{line}.",
        "Grade this kernel on a GPU (--backend gpu), or write it without that instruction. It was not judged, so "
        "there is no reward.",
    )


@dataclass(frozen=True)
class Case:
    """All that is known of one evaluation so far; every stage adds its result."""

    submission: Submission
    problem: Problem
    workshop: Workshop
    backend: Backend
    raw: bytes
    seed: Seed = field(default_factory=Seed.fresh)
    started_s: float = field(default_factory=time.monotonic)
    screening: Screening = field(default_factory=Screening)
    compiled: Compiled | None = None
    launchable: Launchable | None = None
    verified: Verified | None = None

    def verdict(self, ruling: Ruling | None) -> Verdict:
        """The verdict, with everything that is known; no ruling means that all stages passed."""
        compilation = self._compilation()
        correctness = self.verified.correctness if self.verified else None
        found = None
        if self.compiled and self.launchable and self.verified and self.verified.correctness:
            found = profile(self.compiled, self.launchable, self.verified.thread_instructions, self.verified.facts)
        ruling = ruling or Ruling(Status.PASSED, Phase.VERIFY, self._praise(), self._next_step())
        settings = self.submission.settings
        facts = facts_of(
            status=ruling.status,
            compilation=compilation,
            correctness=correctness,
            timing=None,
            profile=found,
            settings=settings,
        )
        return Verdict(
            status=ruling.status,
            phase=ruling.phase,
            message=ruling.message,
            hint=ruling.hint,
            backend=self.backend.name,
            problem=self.problem.id,
            compile=compilation,
            correctness=correctness,
            timing=None,
            profile=found,
            reward=reward(settings.reward, facts) if ruling.status.carries_reward else None,
            receipt=self._receipt(),
        )

    def _compilation(self) -> Compilation:
        if self.compiled is None:
            return Compilation(succeeded=None, screening=self.screening)
        compiled = self.compiled
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
        )

    def _praise(self) -> str:
        trials = self.verified.correctness.trials if self.verified and self.verified.correctness else ()
        sizes = len({tuple(trial.sizes.items()) for trial in trials})
        return f"Right in all {len(trials)} trials, at {sizes} sizes."

    def _next_step(self) -> str | None:
        spilled = [k.kernel for k in (self.compiled.kernels if self.compiled else ()) if k.spill_store_bytes]
        if spilled:
            return f"{spilled[0]} spills registers to memory: shrink its tile, or its unrolling."
        return None

    def _receipt(self) -> Receipt:
        # Nothing was run before the compiler; and asking for a sandbox that cannot be made would fail again.
        sandbox = self.workshop.sandbox.name if self.compiled else "none"
        return receipt(
            problem=self.problem,
            settings=self.submission.settings,
            plan=self.launchable.plan if self.launchable else self.submission.plan,
            raw=self.raw,
            compiled=self.compiled,
            device=self.backend.device,
            sandbox=sandbox,
            seed=self.seed,
            duration_s=time.monotonic() - self.started_s,
        )
