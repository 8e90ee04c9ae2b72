"""What the hint of a wrong answer says of its cause: the size, the precision, or a constant."""

import pytest

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate

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


@pytest.mark.parametrize("rate", ["sqrtf(squares / cols + 1e-3f)", "(sqrtf(squares / cols) + eps)"])
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
