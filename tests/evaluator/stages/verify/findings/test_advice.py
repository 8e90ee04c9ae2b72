"""What the hint of a wrong answer says of its cause: the size, the precision, or a constant."""

import pytest

from common.contract import Mismatch, Settings, Status, Submission
from common.launch_plan import Fill, LaunchPlan
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import find_problem
from evaluator.seed import Seed
from evaluator.stages.launch.checked_plan import CheckedPlan
from evaluator.stages.verify.comparison import Comparison
from evaluator.stages.verify.findings.advice import advice
from evaluator.stages.verify.trials import PlannedTrial, trial_of

NORM = """// assay: launch norm grid=(rows) block=(32) args=(x, weight, y, eps, rows, cols)
#include <cuda_fp16.h>
__global__ void norm(const float* x, const float* weight, float* y, float eps, int rows, int cols)
{
    const float* in = x + (size_t)blockIdx.x * cols;
    float squares = 0.0f;
    for (int c = 0; c < cols; ++c) squares += in[c] * in[c];
    const float rate = 1.0f / RATE;
    for (int c = threadIdx.x; c < cols; c += 32) y[(size_t)blockIdx.x * cols + c] = RESULT;
}
"""
QUICK = Settings(estimate_for=None, verification="quick")
OF_A_CONSTANT = "an eps that has another value or stands elsewhere"


def hint_on(toolbox, rate, result="in[c] * rate * weight[c]"):
    source = NORM.replace("RATE", rate).replace("RESULT", result)
    verdict = evaluate(Submission(problem="rms_norm", source=source, settings=QUICK), toolbox)
    assert verdict.status is Status.INCORRECT, verdict.message
    return verdict.hint


@pytest.mark.parametrize("rate", ["sqrtf(squares / cols + 3e-3f)", "(sqrtf(squares / cols) + eps)"])
def test_an_eps_that_is_wrong_is_no_matter_of_the_size(toolbox, rate):
    hint = hint_on(toolbox, rate)
    assert "The elements are too small throughout, by" in hint
    assert OF_A_CONSTANT in hint
    assert "tails" not in hint
    assert "index by index" not in hint


def test_results_in_half_precision_scatter(toolbox):
    hint = hint_on(toolbox, "sqrtf(squares / cols + eps)", "__half2float(__float2half(in[c] * rate)) * weight[c]")
    assert "lower precision inside than the problem asks for" in hint
    assert OF_A_CONSTANT not in hint


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("constant", ["1e-5f", "0.125f"])
def test_a_constant_in_the_place_of_eps_is_named_wherever_it_is_seen(toolbox, seed, constant):
    source = NORM.replace("RATE", f"sqrtf(squares / cols + {constant})").replace("RESULT", "in[c] * rate * weight[c]")
    asked = Submission(problem="rms_norm", source=source, settings=QUICK)
    verdict = evaluate(asked, toolbox, seed=Seed(bytes([seed] * 32)))
    (failed,) = (trial for trial in verdict.correctness.trials if not trial.passed)
    eps = failed.scalars["eps"]
    assert verdict.hint.startswith(f"The answer is right for eps={float(constant[:-1]):g}, and here eps is {eps:g}:")
    assert "special" not in verdict.hint
    assert "size" not in verdict.hint


def advised(problem, passed, failed):
    """The hint on a trial, where these came before it, of a kernel that reads all scalars."""
    mismatch = Mismatch(output="y", index=(0, 0), expected="1", actual="9", error=1e6, wrong_count=9, count=9,
                        pattern="all elements are wrong")  # fmt: skip
    plan = CheckedPlan(problem, LaunchPlan(steps=(Fill(target="y"),)), "directives", "", "sm_80", {})
    comparison = Comparison(1e6, mismatch)
    judged = [*(trial_of(one, True) for one in passed), trial_of(failed, False, comparison)]
    return advice(plan, judged, failed, comparison, lambda scalars: False)


def test_inputs_are_not_blamed_alone_where_the_same_size_was_right_with_another_scalar_only():
    problem, published = find_problem("layer_norm"), {"eps": 1e-5}
    typical, special = problem.distributions[:2]
    here, elsewhere = {"rows": 33, "cols": 1025}, {"rows": 7, "cols": 1}

    def trial(sizes, kind, eps):
        return PlannedTrial(sizes, kind, problem.tolerance, True, {"eps": eps} if eps else {}, published=published)

    before = [trial(here, typical, 1e-3), trial(elsewhere, typical, 0.125)]
    hint = advised(problem, before, trial(here, special, 0.125))
    assert "was right with other inputs and other values of eps. These inputs are special" in hint
    hint = advised(problem, before, trial(here, typical, 0.125))
    assert "other values of eps" in hint
    assert "special" not in hint
    assert "other values" not in advised(problem, before, trial(here, special, 1e-3))
    assert "right with other values of eps. Look at what becomes of eps" in advised(
        problem, before, trial(here, special, None)
    )
