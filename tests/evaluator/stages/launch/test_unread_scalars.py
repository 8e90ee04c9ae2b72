"""Which scalars no kernel reads, of compiled kernels."""

import pytest

from common.contract import Settings, Submission
from evaluator.pipeline.pipeline import evaluate

QUICK = Settings(estimate_for=None, verification="quick")
KERNEL = """__global__ void saxpy(const float* x, const float* y, float* out, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = FACTOR * x[i] + y[i];
}
"""
LAUNCH = "// assay: launch saxpy grid=(ceil_div(n, 256)) block=(256) args=(x, y, out, SCALAR, n)\n"


@pytest.mark.parametrize(
    ("factor", "launch", "unread"),
    [
        ("5.0f", "", True),
        ("5.0f", LAUNCH.replace("SCALAR", "alpha"), True),
        ("alpha", LAUNCH.replace("SCALAR", "5.0"), True),
        ("fminf(alpha, -9.5f)", "", False),
        ("fminf(alpha, -9.5f)", LAUNCH.replace("SCALAR", "alpha"), False),
    ],
)
def test_a_scalar_that_no_kernel_reads_is_named(toolbox, factor, launch, unread):
    source = launch + KERNEL.replace("FACTOR", factor)
    verdict = evaluate(Submission(problem="saxpy", source=source, settings=QUICK), toolbox)
    assert verdict.message.startswith("At n=262144, alpha=-1.75 with normal inputs")
    assert ("No kernel reads alpha, and trials differ in it (here alpha=-1.75)" in verdict.hint) == unread
    assert ("index by index; look also at what becomes of alpha" in verdict.hint) != unread
    assert verdict.correctness.trials[0].scalars == {"alpha": -1.75}
