from dataclasses import replace

import pytest

from common.contract import Phase, Status
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import EntryParameter
from evaluator.stages.lift.binding import (
    HostParameter,
    HostSignature,
    LiftRefusedError,
    adds_to_memory,
    bind,
    call_values,
    expected,
    refuse_arrays,
)
from evaluator.stages.lift.dialects import EntryFunction

SAXPY = find_problem("saxpy")


def parameter(kind: str, size_bytes: int = 4, reads: bool = False, behind: str = "f") -> HostParameter:
    if kind == "p":
        return HostParameter(kind="p", bytes=8, behind=behind, bytes_behind=size_bytes, reads=reads)
    return HostParameter(kind=kind, bytes=size_bytes, behind="-", bytes_behind=0, reads=False)


IN, OUT, REAL, WHOLE = parameter("p", reads=True), parameter("p"), parameter("f"), parameter("i")


def bound(names, parameters):
    entry = EntryFunction("solve", tuple(names), 1)
    return bind(SAXPY, entry, HostSignature(parameters=tuple(parameters), count=len(parameters)))


@pytest.mark.parametrize(
    ("names", "parameters", "chosen"),
    [
        (("x", "y", "out", "alpha", "n"), (IN, IN, OUT, REAL, WHOLE), ("x", "y", "out", "alpha", "n")),
        (("n", "out", "y", "x", "alpha"), (WHOLE, OUT, IN, IN, REAL), ("n", "out", "y", "x", "alpha")),
        (("A", "B", "C", "N", "a"), (IN, IN, OUT, WHOLE, REAL), ("x", "y", "out", "n", "alpha")),
        (("result", "A", "B", "a", "N"), (OUT, IN, IN, REAL, WHOLE), ("out", "x", "y", "alpha", "n")),
        ((None,) * 5, (OUT, OUT, OUT, REAL, WHOLE), ("x", "y", "out", "alpha", "n")),
    ],
    ids=["by name", "by name in another order", "by order", "const says which are inputs", "no const"],
)
def test_parameters_get_what_their_names_or_their_places_say(names, parameters, chosen):
    assert bound(names, parameters).names == chosen


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ((IN, OUT, REAL, WHOLE), "takes const float*, float*, float, int"),
        ((IN, IN, OUT, WHOLE, WHOLE), "has x, y, out for pointers and alpha, n for numbers"),
        ((IN, IN, IN, IN, REAL), "saxpy has"),
        ((IN, IN, parameter("p", 8), REAL, WHOLE), "takes double*, and 'out' is a float32 tensor"),
        ((IN, IN, OUT, REAL, parameter("x", 12)), "takes"),
    ],
    ids=["too few", "no float", "too many pointers", "another type", "a struct"],
)
def test_a_function_that_does_not_fit_is_told_what_would(parameters, said):
    with pytest.raises(LiftRefusedError) as refused:
        bound((None,) * len(parameters), parameters)
    ruling = refused.value.ruling
    assert (ruling.status, ruling.phase) == (Status.INVALID_SUBMISSION, Phase.LIFT)
    assert said in ruling.message


def test_an_array_that_is_no_tensor_of_the_problem_cannot_be_given():
    stated = (EntryParameter("x", "x"), EntryParameter("n", value=4.0), EntryParameter("shape"))
    with pytest.raises(LiftRefusedError, match="`solution` is given shape, an array on the device") as caught:
        refuse_arrays("solution", stated)
    assert caught.value.ruling.status is Status.UNSUPPORTED
    refuse_arrays("solution", stated[:2])


def test_the_shape_of_an_input_is_given_in_its_own_type():
    stated = (*(EntryParameter(name, name) for name in ("x", "y", "out")), EntryParameter("shape", shape_of="x"))
    problem = replace(SAXPY, entry=stated)
    entry = EntryFunction("solution", (None,) * 4, 1)
    wide, narrow = parameter("p", 8, True, "u"), parameter("p", 4, True, "i")
    names = bind(problem, entry, HostSignature(parameters=(IN, IN, OUT, wide), count=4)).names
    assert call_values(problem, names, (IN, IN, OUT, wide), {"n": 515}, {})[3] == "a 0302000000000000"
    with pytest.raises(LiftRefusedError, match="parameter 4 for 'shape': it takes const int"):
        bind(problem, entry, HostSignature(parameters=(IN, IN, OUT, narrow), count=4))


def test_what_fits_is_written_out():
    assert expected(SAXPY) == (
        'extern "C" void solve(const float* x, const float* y, float* out, float alpha, int n)'
    )


def test_numbers_are_passed_as_the_function_takes_them():
    parameters = (IN, IN, OUT, REAL, parameter("u", 8))
    values = call_values(SAXPY, ("x", "y", "out", "alpha", "n"), parameters, {"n": 5}, {"alpha": -0.5})
    assert values == ["p 0", "p 1", "p 2", "f -0.5", "u 5"]
    narrow = (IN, IN, OUT, REAL, parameter("i", 2))
    with pytest.raises(LiftRefusedError, match="n = 40000 does not fit"):
        call_values(SAXPY, ("x", "y", "out", "alpha", "n"), narrow, {"n": 40000}, {})


MODEL = """
class Model:
    def __init__(self, power): pass
    def forward(self, x, y, beta): pass
def get_inputs(): return [torch.rand(n), torch.rand(n), 0.25]
def get_init_inputs(): return [3]
"""


def test_numbers_of_a_model_are_bound_by_name_where_order_does_not_fit(monkeypatch):
    monkeypatch.setattr("evaluator.stages.lift.extension.model_numbers.text_of", lambda _: MODEL)
    parameters = (IN, IN, OUT, REAL, WHOLE, WHOLE)
    found = bound(("x", "y", "out", "beta", "power", "n"), parameters)
    assert found.said == "solve(x, y, out, beta, power, n) bound by name"
    values = call_values(SAXPY, found.names, parameters, {"n": 5}, {}, own=found.own)
    assert values[3:] == ["f 0.25", "i 3", "i 5"]
    assert bound(("x", "y", "out", "beta", "power"), parameters[:5]).names == ("x", "y", "out", "alpha", "n")
    with pytest.raises(LiftRefusedError, match="'beta' of saxpy is a floating-point number"):
        bound(("x", "y", "out", "power", "beta", "n"), (*parameters[:3], WHOLE, WHOLE, WHOLE))


@pytest.mark.parametrize(
    ("source", "adds"),
    [
        ("atomicAdd(total, x);", True),
        ("tl.atomic_add(total_ptr, x)", True),
        ("sums[row * n + col] += x;", True),
        ("*total += x;", True),
        ("counts[v] ++;", True),
        ('asm volatile("red.global.add.f32 [%0], %1;" :: "l"(p), "f"(x));', True),
        ("*total++ = x;", False),
        ("total[0] = x; if (a[i] >= b[i] && n != 0) sum += x * a[i];", False),
    ],
)
def test_an_output_is_filled_with_zeros_where_the_source_adds_to_memory(source, adds):
    assert adds_to_memory(source) is adds
