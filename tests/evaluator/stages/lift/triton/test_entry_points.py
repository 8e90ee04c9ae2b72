"""Which texts are Triton, which function is called, and what it is given."""

from pathlib import Path

import pytest

from common.contract import Status
from evaluator.problems.catalogue import find_problem
from evaluator.stages.lift.binding import LiftRefusedError
from evaluator.stages.lift.dialects import is_triton
from evaluator.stages.lift.triton.entry_points import bind_python, python_call, python_entry

FILES = Path(__file__).parents[4] / "kernels" / "triton"
HEAD = "import triton\n\n@triton.jit\ndef kernel(x):\n    pass\n\n"


def bound(problem: str, text: str):
    entry = python_entry(HEAD + text)
    assert entry is not None
    return bind_python(find_problem(problem), entry)


def test_all_files_are_recognised_and_no_others():
    for path in FILES.glob("*_*.py"):
        assert is_triton(path.read_text()) != path.stem.startswith("test_"), path.stem
    assert not is_triton("__global__ void add(float* a) {}\n")
    assert not is_triton("import torch\nimport triton\n")
    assert not is_triton(f"{HEAD}class ModelNew:\n    pass\n")


def test_the_last_definition_of_the_first_name_counts():
    text = "def solution(a):\n    pass\n\ndef run(a):\n    pass\n\ndef run(a, b=(1, 2), *, c=None):\n    pass\n"
    entry = python_entry(text)
    assert (entry.name, entry.parameter_names, entry.line) == ("run", ("a",), 7)
    assert python_entry("class A:\n    def run(self):\n        pass\n") is None
    assert python_entry("def run(a, (b)):\n    pass\n") is None
    assert python_entry(f"def run({'(' * 2000}):\n    pass\n") is None


@pytest.mark.parametrize(
    ("problem", "text", "names", "said"),
    [
        ("vector_add", "def run(a, b, c): pass", "a b c", "bound by name"),
        ("vector_add", "def run(c, b, a, n): pass", "c b a n", "bound by name"),
        ("vector_add", "def run(x, y, out): pass", "a b c", "bound by order"),
        ("vector_add", "def solve(x, y, out, N): pass", "a b c n", "bound by order"),
        ("vector_add", "def run(a, b): pass", "a b", "bound by name, returning c"),
        ("vector_add", "def run(x, y): pass", "a b", "bound by order, returning c"),
        ("vector_add", "def run(*tensors): pass", "a b c", "bound by order"),
        ("saxpy", "def run(u, v, w, alpha): pass", "x y out alpha", "bound by order"),
        ("saxpy", "def run(n, alpha, u, v, w): pass", "n alpha x y out", "bound by order"),
        ("saxpy", "def run(u, v, w, s, many): pass", "x y out alpha n", "bound by order"),
    ],
)
def test_parameters_are_bound(problem, text, names, said):
    binding = bound(problem, text)
    assert binding.names == tuple(names.split())
    assert binding.said.endswith(said)


@pytest.mark.parametrize(
    ("problem", "text", "names", "keywords"),
    [
        ("saxpy", "def run(x, y, out, alpha=1.0): pass", "x y out", "alpha"),
        ("saxpy", "def run(x, y, out, *, n, alpha=1.0): pass", "x y out", "n alpha"),
        ("saxpy", "def run(u, v, out=None, alpha=1.0, n=None): pass", "x y", "alpha"),
        ("layer_norm", "def run(x, weight=None, bias=None, eps=1e-5, rows=4): pass", "x", "weight bias eps"),
    ],
)
def test_what_has_a_default_is_passed_by_name_where_the_problem_has_it(problem, text, names, keywords):
    binding = bound(problem, text)
    assert (binding.names, binding.keywords) == (tuple(names.split()), tuple(keywords.split()))
    call = python_call(find_problem(problem), binding, dict.fromkeys(find_problem(problem).sizes, 8), {})
    assert set(call["keywords"]) == set(binding.keywords)
    assert bool(call["results"]) is ("out" not in names)


MODEL = """
class Model:
    def __init__(self, in_features, stride, scale=2.0, bias=True, window=(3, 3)): pass

def get_init_inputs(): return [rows, 2, 0.5]
"""


@pytest.mark.parametrize(
    ("parameters", "names", "keywords"),
    [
        ("x, weight, bias", "x weight bias", ""),
        ("data, w, b", "x weight bias", ""),
        ("b, data, w, eps", "bias x weight eps", ""),
        ("data, gamma, beta, eps=1.0, rows=None", "x weight bias eps", ""),
        ("x, weight=None, bias=None, scale=1.0, y=None, stride=1", "x weight bias scale", "stride"),
        ("x, weight, bias, *, in_features, window=(1, 1)", "x weight bias", "in_features window"),
        ("*args", "x weight bias stride scale window_0 window_1", ""),
    ],
)
def test_kernel_function_gets_what_model_gets_and_returns_the_outputs(parameters, names, keywords, monkeypatch):
    monkeypatch.setattr("evaluator.stages.lift.extension.model_numbers.text_of", lambda _: MODEL)
    problem = find_problem("layer_norm")
    binding = bound("layer_norm", f"def kernel_function({parameters}): pass")
    assert (binding.names, binding.keywords) == (tuple(names.split()), tuple(keywords.split()))
    call = python_call(problem, binding, {"rows": 6, "cols": 5}, {})
    assert call["results"] == [3]
    passed = dict(zip(binding.names, call["arguments"], strict=True)) | call["keywords"]
    known = {"scale": ["number", 0.5], "stride": ["number", 2], "in_features": ["number", 6]}
    known["window"] = ["numbers", [3, 3]]
    assert all(passed[name] == what for name, what in known.items() if name in passed)


def test_a_switch_of_model_is_no_bias_and_numbers_go_by_their_names(monkeypatch):
    monkeypatch.setattr("evaluator.stages.lift.extension.model_numbers.text_of", lambda _: MODEL)
    binding = bound("rms_norm", "def run(data, gain, scale, bias=None, window=None): pass")
    assert (binding.names, binding.keywords) == (("x", "weight", "scale"), ("window",))
    assert bound("vector_add", "def run(stride, scale, window): pass").names == ("a", "b", "c")


@pytest.mark.parametrize("parameters", ["x, weight", "x, weight, bias, more", "x, weight, c=None, d=None", "x, *, w"])
def test_kernel_function_that_does_not_take_every_input_is_refused(parameters):
    with pytest.raises(LiftRefusedError) as refused:
        bound("layer_norm", f"def kernel_function({parameters}): pass")
    assert refused.value.ruling.status is Status.INVALID_SUBMISSION
    assert "def kernel_function(x, weight, bias, eps, rows, cols)" in refused.value.ruling.hint


@pytest.mark.parametrize(
    "text", ["def run(p, q, r, s, t): pass", "def run(): pass", "def run(a): pass", "def run(a, b, c, *, axis): pass"]
)
def test_a_function_that_does_not_fit_is_told_what_would(text):
    with pytest.raises(LiftRefusedError) as refused:
        bound("vector_add", text)
    assert refused.value.ruling.status is Status.INVALID_SUBMISSION
    assert "def run(a, b, c, n)" in refused.value.ruling.hint


def test_a_call_has_shapes_and_python_numbers():
    problem = find_problem("saxpy")
    binding = bound("saxpy", "def run(x, y, alpha, n): pass")
    call = python_call(problem, binding, {"n": 5}, {"alpha": 0.5})
    assert call["tensors"] == [["float32", [5]]] * 3
    assert call["arguments"] == [["tensor", 0], ["tensor", 1], ["number", 0.5], ["number", 5]]
    assert call["results"] == [2]
    assert python_call(problem, binding, {"n": 5}, {})["arguments"][2] == ["number", -1.75]
