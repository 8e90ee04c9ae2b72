"""The stages before a device, the value in which each of them ends, and what they hand on."""

import pytest

from common.contract import Phase, Status, Submission
from evaluator.pipeline.build import build
from evaluator.pipeline.grading_job import Preparation
from evaluator.pipeline.pipeline import evaluate, prepare
from evaluator.pipeline.progress import Progress
from evaluator.pipeline.referee import RemoteTarget
from evaluator.pipeline.stage_values import CompiledSource, Ending, PlannedProgram, ScreenedSource, SubmittedSource
from evaluator.problems.catalogue import find_problem
from evaluator.stages.launch import planning

RELU = find_problem("relu")
KERNEL = (
    "__global__ void relu(const float* x, float* y, int n) "
    "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = %s; }\n"
)
RIGHT = KERNEL % "fmaxf(x[i], 0.0f)"
OTHER_KERNEL = f"// assay: launch other grid=(1) block=(1) args=(x)\n{RIGHT}"


def submitted(source: str | bytes) -> SubmittedSource:
    raw = source if isinstance(source, bytes) else source.encode()
    return SubmittedSource(RELU, raw, None, Submission(problem="relu", source="").settings, "sm_80")


@pytest.mark.parametrize(
    ("source", "reached", "status", "phase"),
    [
        (b"\x00\x01\x02\xff", SubmittedSource, Status.INVALID_SUBMISSION, Phase.SCREEN),
        (f'{RIGHT}#include "/etc/passwd"\n', ScreenedSource, Status.REJECTED, Phase.SCREEN),
        (KERNEL % "no_such_name", CompiledSource, Status.COMPILE_ERROR, Phase.COMPILE),
        (OTHER_KERNEL, CompiledSource, Status.INVALID_SUBMISSION, Phase.LAUNCH),
    ],
    ids=["no text", "refused", "no C++", "no plan"],
)
def test_what_ends_a_build_says_how_far_it_came(source, reached, status, phase, toolbox):
    told = []
    ending = build(submitted(source), toolbox, told.append)
    assert isinstance(ending, Ending)
    assert type(ending.reached) is reached
    assert (ending.ruling.status, ending.ruling.phase) == (status, phase)
    assert told[-1].phase is phase


def test_a_right_source_becomes_a_program_with_its_plan(toolbox):
    told = []
    built = build(submitted(f"```cuda\n{RIGHT}```\n"), toolbox, told.append)
    assert isinstance(built, PlannedProgram)
    assert told == [Progress(Phase.SCREEN), Progress(Phase.COMPILE), Progress(Phase.LAUNCH)]
    assert built.program is built.compiled.program
    assert built.checked_plan.plan_source == "inferred"
    assert built.compiled_source.screened.source.startswith("\n__global__")
    assert built.compiled_source.screened.submitted.problem is RELU


def test_an_evaluation_plans_once_and_tells_how_far_it_is(toolbox, monkeypatch):
    plans, told = [], []
    plan = planning._plan
    monkeypatch.setattr(planning, "_plan", lambda *given: plans.append(given) or plan(*given))
    submission = Submission(problem="relu", source=RIGHT, backend="sim")
    verdict = evaluate(submission, toolbox, progress=lambda event: told.append(str(event)))
    assert verdict.status is Status.PASSED
    assert len(plans) == 1
    trials = len(verdict.correctness.trials)
    counted = [f"verify {done}/{trials}" for done in range(trials + 1)]
    assert told == ["screen", "compile", "launch", "verify", *counted]


def test_what_was_prepared_elsewhere_counts_in_the_verdict(toolbox):
    submission = Submission(problem="relu", source=f"{RIGHT}// prepared\n", backend="sim")
    target = RemoteTarget("sim", "another machine", toolbox.simulator.arch)
    prepared = prepare(submission, RELU, toolbox, target)
    assert isinstance(prepared, Preparation)
    assert prepared.worked_s > 0
    verdict = evaluate(submission, toolbox, preparation=Preparation(1.25, 2.5))
    assert (verdict.compile.cached, verdict.compile.duration_s) == (False, 1.25)
    assert verdict.receipt.phases_s["prepare"] == 2.5
    assert verdict.receipt.duration_s > 2.5
    again = evaluate(submission, toolbox)
    assert again.compile.cached
    assert "prepare" not in again.receipt.phases_s


def test_what_ends_the_first_half_is_a_verdict(toolbox):
    submission = Submission(problem="relu", source=KERNEL % "no_such_name", backend="sim")
    verdict = prepare(submission, RELU, toolbox, RemoteTarget("gpu", "another machine", "sm_80"))
    assert (verdict.status, verdict.backend) == (Status.COMPILE_ERROR, "gpu")
    assert verdict.receipt.device == "another machine"
