"""One evaluation: all that is known of it so far, and the verdict that this makes."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from common.contract import (
    Compilation,
    Phase,
    Profile,
    Receipt,
    Screening,
    Status,
    Submission,
    Timing,
    Verdict,
)
from common.contract.counters import Evidence
from common.facts import facts_of, measures_of
from common.reward import reward
from evaluator.errors import InfrastructureError, Ruling
from evaluator.pipeline.receipt import plan_sha256, receipt, signed
from evaluator.pipeline.referee import Stopwatch, Target
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.problem import Problem
from evaluator.seed import Seed
from evaluator.stages.compile.nvcc import Compiled
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.profile.gpu_counters import Counted
from evaluator.stages.profile.profile import counters, expected_time, profile
from evaluator.stages.time.sample_pool import TimingKey, TimingPool
from evaluator.stages.time.statistics import Measurement, Pooled
from evaluator.stages.verify.verification import Verified

_WORTH_A_HINT: Final = 0.2
"""Share of the time that a pitfall must cost for the verdict of a right kernel to speak of it."""


@dataclass(frozen=True)
class Case:
    """All that is known of one evaluation so far; every stage adds its result."""

    submission: Submission
    problem: Problem
    toolbox: Toolbox
    venue: Target
    raw: bytes
    seed: Seed = field(default_factory=Seed.fresh)
    replayed: bool = False
    """Whether this is a repeat of an evaluation with its seed: then its times are no new ones to remember."""
    started_s: float = field(default_factory=time.monotonic)
    worked_s: float = 0.0
    """How long another worker prepared it before, seconds."""
    source: str = ""
    """As cleaned."""
    screening: Screening = field(default_factory=Screening)
    compiled: Compiled | None = None
    checked_plan: CheckedPlan | None = None
    verified: Verified | None = None
    timing: Timing | None = None
    counted: Counted | None = None
    evidence: Evidence | None = None
    """What the simulator counted."""
    sampled: Evidence | None = None
    """What it counted for an estimate of time."""
    clock: Stopwatch = field(default_factory=Stopwatch)
    referee_s: Mapping[str, float] = field(default_factory=dict)
    """Where the time of the process that owns the GPU went."""

    def verdict(self, ruling: Ruling | None) -> Verdict:
        """The verdict, with everything that is known; no ruling means that all stages passed."""
        compilation = self._compilation()
        correctness = self.verified.correctness if self.verified else None
        found = None
        if self.compiled and self.checked_plan and self.verified and self.verified.correctness:
            run = self.verified
            found = profile(self.compiled, self.checked_plan, run.thread_instructions, run.facts, self.evidence)
            found = found.model_copy(update=self._counters() | self._estimate())
        ruling = ruling or Ruling(Status.PASSED, self._last_phase(), self._praise(), self._next_step(found))
        self.clock.lap(ruling.phase)
        settings = self.submission.settings
        facts = facts_of(
            status=ruling.status,
            compilation=compilation,
            correctness=correctness,
            timing=self.timing,
            profile=found,
            settings=settings,
            measurable=measures_of(self.venue.name, settings, ruling.status, found),
        )
        verdict = Verdict(
            status=ruling.status,
            phase=ruling.phase,
            message=ruling.message,
            hint=ruling.hint,
            backend=self.venue.name,
            problem=self.problem.id,
            compile=compilation,
            correctness=correctness,
            timing=self.timing,
            profile=found,
            reward=reward(settings.reward, facts) if ruling.status.carries_reward else None,
            receipt=self._receipt(),
        )
        return signed(verdict, self.toolbox.signer)

    def _last_phase(self) -> Phase:
        if self.counted is not None and self.counted.evidence is not None:
            return Phase.PROFILE
        return Phase.TIME if self.timing else Phase.VERIFY

    def _counters(self) -> dict[str, object]:
        """What the GPU's profiler adds to the profile, or why it adds nothing."""
        if self.counted is not None:
            return counters(self.counted)
        if self.submission.settings.profile and self.venue.name == "sim":
            return {"not_measured": ("GPU counters: this was graded on the simulator",)}
        return {}

    def _estimate(self) -> dict[str, object]:
        """The time to expect on the GPU that the caller names, where none has measured it."""
        gpu = self.submission.settings.estimate_for
        if gpu is None or self.sampled is None or self.timing is not None:
            return {}
        assert self.compiled is not None
        assert self.checked_plan is not None
        found = expected_time(self.compiled, self.checked_plan, self.sampled, gpu)
        return {"estimate": found, "estimated_speedup": found.speedup}

    def remembered(self, measurement: Measurement, pool: TimingPool) -> Pooled:
        """The samples of all evaluations of this program and plan, these ones among them; in a repeat these alone."""
        if self.replayed:
            return Pooled(measurement.event_us, measurement.baseline_us)
        assert self.compiled is not None
        assert self.checked_plan is not None
        key = TimingKey(
            canonical_ptx_sha256=self.compiled.canonical_ptx_sha256 or "",
            plan_sha256=plan_sha256(self.checked_plan.plan),
            problem=self.problem.id,
            problem_version=self.problem.version,
            sizes=measurement.sizes,
            device_uuid=measurement.device.uuid or "",
            driver=measurement.device.driver or "",
            compared_with=measurement.compared_with,
        )
        return pool.add(key, self.seed.commitment, measurement)

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
        right = f"Right in all {len(trials)} trials, at {sizes} sizes."
        if self.timing is None:
            return right
        speed = self.timing
        return (
            f"{right} {speed.speedup:.3g} times as fast as {speed.compared_with} "
            f"({speed.confidence:.0%} interval {speed.speedup_low:.3g} to {speed.speedup_high:.3g})."
        )

    def _next_step(self, found: Profile | None) -> str | None:
        """What a right kernel could save, where it is much."""
        costliest = found.pitfalls[0] if found and found.pitfalls else None
        if costliest is not None and costliest.weight >= _WORTH_A_HINT:
            line = f", line {costliest.line}" if costliest.line else ""
            return f"{costliest.kernel}{line}: {costliest.cost}. {costliest.remedy}"
        spilled = [k.kernel for k in (self.compiled.kernels if self.compiled else ()) if k.spill_store_bytes]
        if spilled:
            return f"{spilled[0]} spills registers to memory: shrink its tile, or its unrolling."
        return None

    def _receipt(self) -> Receipt:
        phases_s = {"prepare": round(self.worked_s, 5)} if self.worked_s else {}
        phases_s |= {**self.clock.laps_s, **{f"referee.{name}": time_s for name, time_s in self.referee_s.items()}}
        # Nothing was run before the compiler; and asking for a sandbox that cannot be made would fail again.
        sandbox = self.toolbox.sandbox if self.compiled else None
        return receipt(
            problem=self.problem,
            settings=self.submission.settings,
            plan=self.checked_plan.plan if self.checked_plan else self.submission.plan,
            raw=self.raw,
            compiled=self.compiled,
            device=self.venue.device,
            sandbox=sandbox.name if sandbox else "none",
            sandbox_image=sandbox.image_id if sandbox else None,
            seed=self.seed,
            duration_s=self.worked_s + time.monotonic() - self.started_s,
            phases_s=phases_s,
        )


def nothing_was_tried(problem: Problem, backend: str, fault: InfrastructureError) -> Verdict:
    """The verdict where this machine has no compiler, or no place to work: not even a receipt can be given."""
    return Verdict(
        status=Status.INTERNAL_ERROR,
        phase=Phase.SCREEN,
        message=str(fault),
        hint=fault.remedy,
        backend="gpu" if backend == "gpu" else "sim",
        problem=problem.id,
        compile=None,
        correctness=None,
        timing=None,
        profile=None,
        reward=None,
        receipt=None,
    )
