"""Problems whose answer is nearly one number: drawn wider, so that no wrong kernel passes, or said to tell little."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.contract import Settings, Status, Submission, Verdict
from common.wire import DType
from evaluator.foreign.calibration import Calibration, OutputTolerance
from evaluator.foreign.description import Description, DrawnAs, TensorFacts
from evaluator.foreign.loading import foreign_problem
from evaluator.foreign.redrawn import Telling, Wider
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng, numpy_dtype
from evaluator.problems.catalogue import problems
from evaluator.problems.linter import telling_share
from evaluator.problems.problem import Distribution, Expected, Problem, Tolerance

KERNELS = Path(__file__).parents[2] / "kernels"
RARELY_POSITIVE = """import torch
from torch import nn

M, K, N = 64, 32, 80

class Model(nn.Module):
    def forward(self, x, y):
        return torch.relu(x @ y / 5.657 - 3.0)

def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]
"""
PRODUCT = """__global__ void product(const float* x, const float* y, float* out, int M, int K, int N)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = j / N, n = j % N;
    if (i >= M) return;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += x[i * K + AT] * y[AT * N + n];
    out[j] = fmaxf(sum / 5.657f - 3.0f, 0.0f) * FACTOR;
}
"""


def graded(source: str, problem: Problem, toolbox: Toolbox) -> Verdict:
    settings = Settings(verification="quick", estimate_for=None)
    submission = Submission(problem=problem.id, source=source, backend="sim", settings=settings)
    return evaluate(submission, toolbox, problem=problem)


@pytest.mark.parametrize(
    ("at", "factor", "status"),
    [
        ("k", "1.0f", Status.PASSED),
        ("k", "(i < 60 || n < 76 ? 1.0f : 2.0f)", Status.INCORRECT),
        ("(k % 8)", "1.0f", Status.INCORRECT),
    ],
)
def test_a_kernel_that_is_wrong_where_nearly_all_is_zero(
    at: str, factor: str, status: Status, toolbox: Toolbox
) -> None:
    """A few wrong elements that are mostly zero; and an index that does not advance with the product's tiles."""
    with foreign_problem(RARELY_POSITIVE.encode(), "rare.py", toolbox.sandbox, toolbox.cache) as problem:
        assert problem.distributions[-1].name == "wider_range"
        assert any("so it also draws 'x' with a standard deviation of 4" in caveat for caveat in problem.caveats)
        verdict = graded(f"#define AT {at}\n#define FACTOR {factor}\n{PRODUCT}", problem, toolbox)
        assert verdict.status is status, verdict.message
        shown = verdict.correctness
        assert shown is not None
        assert not any("no trial tells much" in warning for warning in shown.warnings)
        assert status is not Status.PASSED or "wider_range" in [trial.distribution for trial in shown.trials]


def test_where_no_trial_tells_the_verdict_warns(toolbox: Toolbox) -> None:
    added = problems()["vector_add"]

    def zeros(_: object, sizes: Mapping[str, int]) -> dict[str, Any]:
        return {one.name: np.zeros(one.shape_at(sizes), numpy_dtype(one.dtype)) for one in added.inputs}

    idle = replace(added, distributions=(Distribution("zeros", "", zeros),), probes=(), mixture=None)
    source = (KERNELS / "vector_add_plain.cu").read_text()
    for problem, warns in ((added, False), (idle, True)):
        verdict = graded(source, problem, toolbox)
        assert verdict.status is Status.PASSED, verdict.message
        assert verdict.correctness is not None
        told = [one for one in verdict.correctness.warnings if one.startswith("no trial tells much about 'c'")]
        assert bool(told) is warns


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_the_typical_inputs_of_our_own_problems_tell(problem: Problem) -> None:
    sizes = problem.example_sizes[0]
    inputs = problem.distributions[0].draw(NumpyRng(np.random.default_rng(1)), sizes)
    for expected in problem.oracle(inputs, sizes).values():
        share = telling_share(expected, problem.tolerance)
        assert share is None or share > 0.3


@pytest.mark.parametrize("shape", [(40,), (200, 100)])
def test_what_differs_within_the_tolerance_does_not_count(shape: tuple[int, ...]) -> None:
    rng, count = np.random.default_rng(2), math.prod(shape)
    values = np.where(np.arange(count) % 10 == 0, 5.0, 1.0 + 1e-9 * rng.standard_normal(count)).reshape(shape)
    expected = Expected(values, np.ones(shape[-1:]))
    assert telling_share(expected, Tolerance(1e-6, 0.0, "")) == pytest.approx(0.1, abs=0.03)
    assert telling_share(expected, Tolerance(0.0, 0.0, "")) > 0.95
    assert telling_share(expected, Tolerance(5.0, 0.0, "")) == 0.0
    assert telling_share(expected.at(np.arange(8)), Tolerance(5.0, 0.0, "")) is None


@pytest.mark.parametrize(
    ("dtype", "draw", "found", "chosen"),
    [
        (DType.FLOAT32, DrawnAs("normal"), 2, Wider(16.0)),
        (DType.FLOAT32, DrawnAs("uniform", 0.0, 1.0), 3, Wider(1.0, True)),
        (DType.FLOAT32, DrawnAs("uniform", 0.5, 1.0), 3, None),
        (DType.FLOAT16, DrawnAs("normal", std=200.0), 1, None),
        (DType.INT32, DrawnAs("integers", 0, 9), 1, None),
        (DType.UINT8, DrawnAs("called"), 1, None),
    ],
)
def test_ranges_are_widened_where_that_tells_and_the_type_has_room(
    dtype: DType, draw: DrawnAs, found: int, chosen: Wider | None
) -> None:
    """`found`: which of the ranges that are tried has an answer that tells."""
    facts = TensorFacts("x", dtype, (64,), draw, "argument")
    out = TensorFacts("out", DType.FLOAT32, (64,), DrawnAs("called"), "output")
    described = Description((facts,), (out,), {"n": 64}, 64, 1, "2")
    telling = Telling(described, Calibration((OutputTolerance(1e-6, 1e-6, 0.0),), {}))
    nothing = {"value_0": np.zeros(64), "scale_0": np.ones(64)}
    telling.saw(nothing)
    tried: list[Wider] = []

    def answer_of(way: Wider) -> dict[str, Any] | None:
        tried.append(way)
        if len(tried) == found:
            return {"value_0": np.arange(64.0), "scale_0": np.ones(64)}
        return nothing if len(tried) % 2 else None

    assert telling.wider(answer_of) == chosen
    (caveat,) = telling.caveats
    assert ("so it also draws 'x'" in caveat) is (chosen is not None)
    assert caveat.endswith("a wrong kernel can be right there") is (chosen is None)
