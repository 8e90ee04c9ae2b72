"""A rehearsal on the GPU under compute-sanitizer, for programs that the simulator cannot run.

A GPU alone shows neither races nor bad reads. What the tools find for certain decides, in the simulator's words and
with its statuses; what an honest kernel may show as well becomes a warning; that they could not look is one too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from common.contract import Correctness, Settings
from evaluator.backends.gpu.tools.launch import ToolMissingError
from evaluator.backends.gpu.tools.sanitizer import Sanitizer, ToolFinding
from evaluator.backends.session import PlanRun, Program
from evaluator.errors import InfrastructureError, Ruling
from evaluator.problems.arrays import Rng
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.verify.examination import POISON
from evaluator.stages.verify.findings.fault_rulings import ruling_on
from evaluator.stages.verify.findings.race_checks import sentence
from evaluator.stages.verify.trials import PlannedTrial
from evaluator.stages.verify.verified import Verified

_RUN_S: Final = 10.0
_MAX_WARNINGS: Final = 4


@dataclass(frozen=True)
class Sanitized:
    """What the tools found."""

    verified: Verified | None
    """Where they decided the evaluation."""
    warnings: tuple[str, ...] = ()


def sanitize(
    checked_plan: CheckedPlan,
    program: Program,
    settings: Settings,
    rng: Rng,
    trials: Sequence[PlannedTrial],
    sanitizer: Sanitizer,
) -> Sanitized:
    """Run `trials` under the tools, which see all accesses and compare no answers."""
    runs = []
    for trial in trials:
        sized_plan = checked_plan.at(trial.sizes, settings.memory_bytes, trial.scalars)
        if isinstance(sized_plan, Ruling):
            return Sanitized(Verified(sized_plan, None))
        inputs = trial.distribution.draw(rng, trial.sizes)
        runs.append(PlanRun(sized_plan.buffers_with(inputs), sized_plan.steps, POISON, _RUN_S))
    if not runs:
        return Sanitized(None)
    try:
        checked = sanitizer.check(program, runs)
    except (ToolMissingError, InfrastructureError) as refused:
        return Sanitized(None, (f"the simulator cannot run this, and neither was it checked on the GPU: {refused}",))
    certain = next((finding for finding in checked.findings if finding.certain), None)
    if certain is None:
        unchecked = tuple(f"not checked on the GPU: {why}" for _, why in checked.unchecked)
        return Sanitized(None, (*_warnings(checked_plan, checked.findings), *unchecked))
    place = trials[certain.run].place if certain.run is not None else " or ".join(t.place for t in trials)
    ruling = ruling_on(certain.fault, place, checked_plan.source_lines, settings.run_timeout_s)
    ruling = replace(ruling, message=f"In the rehearsal under compute-sanitizer ({certain.tool}). {ruling.message}")
    correctness = Correctness(
        passed=False,
        trials=(),
        planned_trials=len(trials),
        plan_source=checked_plan.plan_source,
        binding=checked_plan.binding,
        fault=certain.fault,
    )
    return Sanitized(Verified(ruling, correctness))


def _warnings(checked_plan: CheckedPlan, findings: Sequence[ToolFinding]) -> tuple[str, ...]:
    """One for each tool, kind, kernel and line: a whole warp sees the same."""
    first = {(one.tool, one.fault.kind, one.fault.kernel, one.fault.line): one for one in reversed(findings)}
    said = [f"{f.tool}: {sentence(f.fault, checked_plan.source_lines)}" for f in reversed(first.values())]
    return tuple(said[:_MAX_WARNINGS])
