"""Problems whose tensors are bfloat16, in every form: right kernels pass, those of too little precision do not."""

import numpy as np
import pytest
import torch
from bfloat16_problems import FORMS, NORMED, PROBLEMS, PRODUCT, SCALED, Stated, kernelbench

from common.contract import Status, Submission, Verdict
from common.wire import DType
from evaluator.foreign.loading import foreign_problem
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.arrays import NumpyRng


def graded(text: str, source: str, toolbox: Toolbox) -> Verdict:
    with foreign_problem(text.encode(), "in_bfloat16.py", toolbox.sandbox, toolbox.cache) as problem:
        assert {tensor.dtype for tensor in (*problem.inputs, *problem.outputs)} == {DType.BFLOAT16}
        return evaluate(Submission(problem=problem.id, source=source, backend="sim"), toolbox, problem=problem)


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_right_in_bfloat16(form: str, name: str, toolbox: Toolbox) -> None:
    stated = PROBLEMS[name]
    verdict = graded(FORMS[form](stated), stated.kernel, toolbox)
    assert verdict.status is Status.PASSED, verdict.message
    assert verdict.correctness is not None
    assert verdict.correctness.generalisation is not None
    assert verdict.correctness.generalisation.passed, verdict.correctness.generalisation.message
    wrong = graded(FORMS[form](stated), f"#define LAST 1\n{stated.kernel}", toolbox)
    assert wrong.status is Status.INCORRECT, wrong.message
    assert "the last element is wrong" in (wrong.message or "")


CUT_OFF = "#define STORED(v) __float2bfloat16_rz(v)\n"
THROUGH_HALF = "#define BETWEEN(v) __half2float(__float2half(v))\n"
THROUGH_BFLOAT16 = "#define BETWEEN(v) __bfloat162float(__float2bfloat16(v))\n"
THROUGH_FLOAT8 = "#include <cuda_fp8.h>\n#define BETWEEN(v) float(__nv_fp8_e4m3(v))\n"


@pytest.mark.parametrize(
    ("stated", "change"),
    [
        pytest.param(SCALED, CUT_OFF, id="elements-cut-off"),
        pytest.param(PRODUCT, CUT_OFF, id="product-cut-off"),
        pytest.param(SCALED, THROUGH_HALF, id="range-of-float16"),
        pytest.param(NORMED, THROUGH_FLOAT8, id="sum-of-squares-in-float8"),
        pytest.param(PRODUCT, THROUGH_BFLOAT16, id="product-in-bfloat16"),
    ],
)
def test_too_little_precision_is_wrong(stated: Stated, change: str, toolbox: Toolbox) -> None:
    verdict = graded(kernelbench(stated), change + stated.kernel, toolbox)
    assert verdict.status is Status.INCORRECT, verdict.message


def test_what_the_last_rounding_hides_is_said(toolbox: Toolbox) -> None:
    """float16 has more bits than bfloat16: where its range is enough, nothing tells that it was in between."""
    verdict = graded(kernelbench(NORMED), NORMED.kernel, toolbox)
    assert verdict.correctness is not None
    warnings = " ".join(verdict.correctness.warnings)
    assert "cannot tell float16" in warnings
    assert "cannot tell float8_e4m3fn" not in warnings
    wide = graded(kernelbench(SCALED), SCALED.kernel, toolbox).correctness
    assert wide is not None
    assert not any("cannot tell" in warning for warning in wide.warnings)


def test_referee_and_reference_read_the_same_bits(toolbox: Toolbox) -> None:
    text = kernelbench(SCALED).replace("x * y", "x * 1.5").replace("self, x, y", "self, x, y=None")
    text = text.replace(", torch.randn(rows, columns, dtype=torch.bfloat16) * 300.0]", "]")
    with foreign_problem(text.encode(), "bits.py", toolbox.sandbox, toolbox.cache) as problem:
        sizes = problem.example_sizes[0]
        given = problem.distributions[0].draw(NumpyRng(np.random.default_rng(3)), sizes)
        assert given["x"].dtype.name == "bfloat16"
        bits = torch.from_numpy(given["x"].view(np.int16).copy()).view(torch.bfloat16)
        assert np.array_equal(problem.oracle(given, sizes)["out"].value, bits.double().numpy() * 1.5)
