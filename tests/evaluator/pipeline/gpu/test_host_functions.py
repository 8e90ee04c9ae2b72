"""KernelAgent's function through the host tier, on the processor: bound as it is where it is recorded."""

import contextlib
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from host_tier import host_toolbox

from common.contract import Settings, Status, Submission
from evaluator.pipeline.pipeline import evaluate
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import EntryParameter
from evaluator.stages.host import written_functions

SOURCE = """import torch

def kernel_function(data, w, b=None, eps=1.0, out=None):
    return torch.nn.functional.layer_norm(data, data.shape[1:], w, b, eps)
"""
MODEL = """
class Model:
    def __init__(self, rows, scale, keep=True, window=(3, 4)): pass

def get_init_inputs(): return [rows, 0.5]
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    made = host_toolbox(tmp_path_factory.mktemp("host"))
    with contextlib.closing(made.gpu.runtime):
        yield made


@pytest.mark.parametrize(
    ("source", "status"),
    [
        (SOURCE, Status.PASSED),
        (SOURCE.replace("w, b, eps)", "w, b, 0.5)"), Status.INCORRECT),
        (SOURCE.replace("return torch", "torch"), Status.INVALID_SUBMISSION),
    ],
)
def test_kernel_function_runs_as_it_is_bound(tools, source, status):
    settings = Settings(host_tier="always", verification="quick", timing=False, estimate_for=None)
    submission = Submission(problem="layer_norm", source=source, dialect="triton", settings=settings)
    verdict = evaluate(submission, tools)
    assert verdict.status is status, verdict.message
    if status is Status.PASSED:
        assert verdict.compile.host.entry == "kernel_function(x, weight, bias, eps)"


def test_numbers_of_a_model_keep_their_kinds(monkeypatch):
    monkeypatch.setattr("evaluator.stages.lift.extension.model_numbers.text_of", lambda _: MODEL)
    source = "def kernel_function(x, weight, bias, rows, scale, *, keep, window): pass\n"
    call = written_functions.call_of_python(source, find_problem("layer_norm"))
    assert call.arguments[:3] == (("t", "x"), ("t", "weight"), ("t", "bias"))
    assert call.arguments[3:] == (("i", "rows"), ("f", 0.5))
    assert call.keywords == (("keep", "b", True), ("window", "i", (3, 4)))
    assert written_functions.call_of_python("def run(x): pass\n", find_problem("relu")) is None


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("solve(a, b, c, N)", (("t", "a"), ("t", "b"), ("t", "c"), ("i", "n"))),
        ("run(left, right, total, count, tile=128)", (("t", "a"), ("t", "b"), ("t", "c"), ("i", "n"))),
        ("run(*args)", None),
        ("solve(c, b, a)", None),
    ],
)
def test_other_names_are_bound_in_order_as_a_recording_binds_them(written, arguments):
    call = written_functions.call_of_python(f"def {written}:\n    pass\n", find_problem("vector_add"))
    assert (call and call.arguments) == arguments


@pytest.mark.parametrize(
    ("source", "initial", "status"),
    [
        ("def solve(data, n, low):\n    data.clamp_(min=[0.0, 1.0][low])\n", "x", Status.PASSED),
        ("def solve(a, b, c):\n    a.clamp_(min=[0.0, 1.0][c])\n", "x", Status.PASSED),
        ("def solve(data, n, low):\n    data.clamp_(min=[1.0][low])\n", "x", Status.INCORRECT),
        ("def solve(data, n, low):\n    data.clamp_(min=[0.0][low])\n", "", Status.INCORRECT),
    ],
)
def test_a_function_is_called_as_the_problem_states_it(tools, source, initial, status):
    data = EntryParameter("data", tensor="y", initial=initial, zeroed=not initial)
    numbers = (EntryParameter("n", value=1.0), EntryParameter("low", value=0.0))
    problem = replace(find_problem("relu"), entry=(data, *numbers))
    settings = Settings(host_tier="always", verification="quick", timing=False, estimate_for=None)
    submission = Submission(problem="relu", source=f"import torch\n{source}", dialect="triton", settings=settings)
    verdict = evaluate(submission, tools, problem=problem)
    assert verdict.status is status, verdict.message
