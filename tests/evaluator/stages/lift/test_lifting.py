"""Host code from its text to plans at any sizes, and those plans on their way to a referee in another process."""

import io
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from common.contract import Phase, Settings, Status, Submission
from common.launch_plan import LaunchPlan, RawArgument
from evaluator.errors import InfrastructureError, Ruling
from evaluator.pipeline.build import build, record_ahead
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.referee import JudgeRequest
from evaluator.pipeline.stage_values import Ending, PlannedProgram, SubmittedSource
from evaluator.problems.catalogue import find_problem
from evaluator.receipts.checks import CheckOutcome, Expectations, examine_verdict, verified
from evaluator.receipts.replay import replay
from evaluator.report.terminal import verdict_card
from evaluator.seed import Seed
from evaluator.stages.launch.checked_plan import SizedPlan
from evaluator.stages.lift import host_runs
from evaluator.stages.verify.trials import plan_trials

FILES = Path(__file__).parents[3] / "kernels" / "solve"
STRUCT = (FILES / "vector_add_struct.cu").read_text()
STREAMS = (FILES / "vector_add_two_streams.cu").read_text()
EXTENSION = (FILES.parent / "extension" / "vector_add_plain.cu").read_text()
SOLUTION = (FILES.parent / "kernelbench" / "vector_add_in_init.py").read_text()
ADD = find_problem("vector_add")


def built(source: str, toolbox, problem=ADD, dialect=None, plan=None):
    return build(SubmittedSource(problem, source.encode(), plan, Settings(), "sm_80", dialect), toolbox)


def refused(ending, status: Status, said: str):
    assert isinstance(ending, Ending)
    assert (ending.ruling.status, ending.ruling.phase) == (status, Phase.LIFT)
    assert said in ending.ruling.message
    assert ending.ruling.hint


def test_each_set_of_sizes_has_a_plan_of_its_own(toolbox):
    checked_plan = built(STRUCT, toolbox).checked_plan
    assert checked_plan.plan_source == "recorded"
    for n in (1, 1000, 4099):
        (launch,) = checked_plan.at({"n": n}).steps
        assert launch.grid == (-(-n // 128), 1, 1)
        (argument,) = launch.arguments
        assert argument.data[:4] == n.to_bytes(4, "little")
        assert [(at, to.buffer) for at, to in argument.addresses] == [(8, "a"), (16, "b"), (24, "c")]


def test_host_code_is_recorded_at_the_scalars_of_a_trial(toolbox):
    saxpy = find_problem("saxpy")
    checked_plan = built((FILES / "saxpy_functor.cu").read_text(), toolbox, saxpy).checked_plan
    published, other = (checked_plan.at({"n": 5}, scalars=one).steps[0].arguments for one in ({}, {"alpha": -0.5}))
    assert other[4] == bytes.fromhex("000000bf")
    assert published[4] != other[4]
    assert published[:4] == other[:4]


@pytest.mark.parametrize("source", [STRUCT, STREAMS], ids=["struct", "streams"])
def test_what_was_recorded_travels_and_nothing_else_can_be_asked_there(source, toolbox):
    planned = built(source, toolbox)
    secret = os.urandom(32)
    record_ahead(planned, toolbox, secret, timed_too=True)
    sent = JudgeRequest(planned.program, planned.checked_plan, Settings(), local_memory=False, secret=secret)
    arrived = JudgeRequest.from_json(sent.to_json()).checked_plan
    for trial in plan_trials(ADD, Settings(), Seed(secret).generator(), timed_too=True):
        there = arrived.at(trial.sizes, scalars=trial.scalars)
        assert isinstance(there, SizedPlan)
        assert there == planned.checked_plan.at(trial.sizes, scalars=trial.scalars)
        assert bool(there.orders) == (source is STREAMS and trial.sizes["n"] > 1)
    with pytest.raises(InfrastructureError, match="was not recorded at n = 77777"):
        arrived.at({"n": 77777})
    assert arrived.plan_at(ADD.timing_sizes) == planned.checked_plan.plan_at(ADD.timing_sizes)


def test_a_recorded_plan_can_be_submitted_as_one(toolbox):
    source = STREAMS
    checked_plan = built(source, toolbox).checked_plan
    there = checked_plan.recorded.at({"n": 1000}, {}).plan
    assert any(isinstance(argument, RawArgument) for step in there.steps for argument in step.args)
    submitted = built(source, toolbox, plan=LaunchPlan.model_validate_json(there.model_dump_json())).checked_plan
    assert submitted.plan_source == "json"
    assert submitted.at({"n": 1000}) == replace(checked_plan.at({"n": 1000}), orders=())


def test_the_same_text_is_compiled_once(toolbox):
    source = f"{STRUCT}// {os.urandom(8).hex()}\n"
    first, second = (built(source, toolbox).lifting for _ in range(2))
    assert first.duration_s > 0
    assert second.duration_s == 0
    assert (first.launches, first.fills, first.copies, first.temporaries) == (1, 0, 0, 0)


def test_a_dialect_that_is_named_counts(toolbox):
    plain = "__global__ void add(const float* a, const float* b, float* c, int n) {}\n"
    refused(built(plain, toolbox, dialect="solve"), Status.INVALID_SUBMISSION, "no function `solve` or `solution`")
    line = f"// assay: launch add grid=(1) block=(1) args=(a, b, c, n)\n{STRUCT}"
    refused(built(line, toolbox, dialect="solve"), Status.INVALID_SUBMISSION, "a launch plan, and host code")
    both = built(
        f'{plain}extern "C" void solve(float* a) {{ add<<<1, 1>>>(a, a, a, 1); }}\n', toolbox, dialect="cuda"
    )
    assert isinstance(both, PlannedProgram)
    assert both.checked_plan.plan_source == "inferred"
    assert both.lifting is None


def test_a_refusal_at_one_size_says_at_which(toolbox):
    source = STRUCT.replace("    Arguments arguments{", "    if (n == 5) __builtin_trap();\n    Arguments arguments{")
    checked_plan = built(source, toolbox).checked_plan
    ruling = checked_plan.at({"n": 5})
    assert isinstance(ruling, Ruling)
    assert (ruling.status, ruling.phase) == (Status.RUNTIME_ERROR, Phase.LIFT)
    assert "(at n = 5)" in ruling.message
    assert isinstance(checked_plan.at({"n": 6}), SizedPlan)


def test_what_comes_after_a_refused_size_is_recorded_too(toolbox):
    """A judge asks in an order of its own, and in another process none can be recorded."""
    returns = "int n)\n{\n    if (n == 7) return;"
    refused_there = STRUCT.replace("int n)\n{", returns)
    recorded = built(refused_there, toolbox).checked_plan.recorded
    recorded.record([({"n": n}, {}) for n in (6, 7, 8, 9)])
    kinds = [isinstance(recorded.at({"n": n}, {}), Ruling) for n in (6, 7, 8, 9)]
    assert kinds == [False, True, False, False]
    nowhere = built(STRUCT.replace("int n)\n{", returns.replace("n == 7", "n < 64")), toolbox)
    recorded = nowhere.checked_plan.recorded
    recorded.record([({"n": n}, {}) for n in range(1, 30)])
    assert {recorded.known[f"n = {n}"].status for n in range(1, 30)} == {Status.INVALID_SUBMISSION}


@pytest.mark.parametrize(
    ("source", "dialect", "entry", "said"),
    [
        (STRUCT, "solve", "solve", "solve(a, b, c, n) bound by name: 1 launch"),
        (EXTENSION, "torch-extension", "forward", "forward(a, b) bound by name: 1 launch"),
        (SOLUTION, "kernelbench", "ModelNew", "ModelNew.forward, which calls add_forward, bound as it passes them"),
    ],
    ids=["solve", "extension", "solution"],
)
def test_a_verdict_says_what_was_lifted_and_comes_out_again(source, dialect, entry, said, toolbox):
    settings = Settings(verification="quick", estimate_for=None)
    verdict = evaluate(Submission(problem="vector_add", source=source, settings=settings), toolbox)
    assert verdict.status is Status.PASSED
    assert (verdict.compile.dialect, verdict.compile.lifting.entry) == (dialect, entry)
    assert verdict.compile.lifting.text.startswith(said)
    console = Console(width=100, file=io.StringIO())
    console.print(verdict_card(verdict, source))
    assert re.search(rf"Lifted +{re.escape(said)}", console.file.getvalue())
    assert not {"host-launch", "host-runtime"} & {one.rule for one in verdict.compile.screening.findings}
    beside = Expectations(source.encode(), None, {toolbox.signer.public_key: "that of this test"})
    shown, checks = examine_verdict(verdict.model_dump_json().encode(), beside)
    assert verified(checks), checks
    assert {check.name: check for check in checks}["plan"].outcome is CheckOutcome.SKIPPED
    again = replay(shown, source.encode(), None, toolbox)
    assert verified(again), again


SLOW_TO_REFUSE = """\
#include <csignal>
#include <unistd.h>
__global__ void add(const float* a, const float* b, float* c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) c[i] = a[i] + b[i];
}
extern "C" void solve(const float* a, const float* b, float* c, int n) {
  if (n != %d) {
    usleep(700000);
    raise(SIGTERM);
  }
  add<<<(n + 255) / 256, 256>>>(a, b, c, n);
}
"""


def test_all_recordings_of_one_submission_have_one_budget_of_time(toolbox, monkeypatch):
    monkeypatch.setattr(host_runs, "RECORDINGS_S", 3.0)
    source = SLOW_TO_REFUSE % ADD.example_sizes[0]["n"]
    planned = built(source, toolbox)
    began_s = time.monotonic()
    record_ahead(planned, toolbox, os.urandom(32), timed_too=True)
    # Each of six refusals would be tried three times: more than twelve seconds.
    assert time.monotonic() - began_s < 8
    recorded = planned.checked_plan.recorded
    last = recorded.at({"n": 77777}, {})
    assert last.status is Status.TIMEOUT
    assert "took longer than 3 s for all sizes together" in last.message
    began_s = time.monotonic()
    assert recorded.at({"n": 77778}, {}) == last
    assert time.monotonic() - began_s < 0.1


def test_as_many_steps_as_a_plan_may_have_are_lifted_with_the_orders_that_are_left(toolbox):
    source, relu = (FILES / "relu_many_launches.cu").read_text(), find_problem("relu")
    began_s = time.process_time()
    planned = built(source.replace("launches = 300", "launches = 4096"), toolbox, relu)
    sized_plan = planned.checked_plan.at(relu.example_sizes[0])
    assert time.process_time() - began_s < 30
    assert len(sized_plan.steps) == 4096
    assert [len(order.steps) for order in sized_plan.orders] == [4096, 4096]
