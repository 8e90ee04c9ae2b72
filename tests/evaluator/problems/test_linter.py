"""One degenerate problem for each rule, made from an honest one."""

from dataclasses import replace

import numpy as np
import pytest

from common.wire import DType
from evaluator.problems.families.activation import RELU
from evaluator.problems.families.elementwise import SCALAR_MULTIPLY, VECTOR_ADD
from evaluator.problems.families.reduction import HISTOGRAM, ROW_SUM
from evaluator.problems.families.transpose import TRANSPOSE
from evaluator.problems.generators import constant, constant_rows, distribution, normal, probe, roundings, uniform
from evaluator.problems.linter import degeneracies, keep_bits, lint, within
from evaluator.problems.problem import Distribution, Expected, Scalar, SizeRange, Tensor, Tolerance
from evaluator.problems.sampling import element_wise

X = Tensor("x", ("n",))


def draw_with(problem, maker, name="typical"):
    """`problem` with one distribution only, beside its probes."""
    typical = distribution(name, "made for this test", problem.inputs, maker)
    return replace(problem, distributions=(typical,))


def answer(compute):
    """An oracle of one output `y` (or `c`), without a scale."""

    def oracle(inputs, sizes):
        value = np.asarray(compute(*(array.astype(np.float64) for array in inputs.values())))
        return {"y": Expected(value, np.abs(value))}

    return oracle


def softmax_of_one(x):
    return np.ones_like(x)


def slightly_off_constant(x):
    return 3.0 + 1e-9 * x


def counts_as_floats(inputs, sizes):
    return {"counts": Expected(np.bincount(inputs["values"], minlength=256) * 1.0, np.zeros(256))}


def twice_a(inputs, sizes):
    value = 2.0 * inputs["a"].astype(float)
    return {"c": Expected(value, np.abs(value))}


def elements_of_the_input(oracle, inputs, sizes, elements, scalars):
    value = inputs["x"].reshape(-1)[elements["y"]].astype(float)
    return {"y": Expected(value, 0 * value)}


def squares_as_scales(oracle, inputs, sizes, elements, scalars):
    expected = oracle(inputs, sizes)["y"].at(elements["y"])
    return {"y": Expected(expected.value, expected.scale**2)}


def write_into(inputs, sizes):
    inputs["x"][0] = 0
    return RELU.oracle(inputs, sizes)


def other_dtype(rng, sizes):
    return {"x": rng.normal((sizes["n"],))}


def strided(rng, sizes):
    return {"x": rng.normal((2 * sizes["n"],)).astype(np.float32)[::2]}


def too_long(rng, sizes):
    return {"x": rng.normal((sizes["n"] + 1,)).astype(np.float32)}


def misnamed(rng, sizes):
    return {"z": rng.normal((sizes["n"],)).astype(np.float32)}


def drawing(draw):
    return replace(RELU, distributions=(Distribution("typical", "made for this test", draw),))


WIDE = Tolerance(2.0**-9, 0.0, "far too wide")
DEGENERATE = {
    "zeros": (
        replace(draw_with(SCALAR_MULTIPLY, normal(1e-6)), tolerance=Tolerance(1e-6, 1e-3, "absolute too wide")),
        "zeros would pass",
    ),
    "a relu that is always zero": (draw_with(RELU, uniform(-2, -1)), "zeros would pass"),
    "constant answer": (
        replace(RELU, oracle=answer(softmax_of_one), tolerance=WIDE),
        "hardly changes with the inputs",
    ),
    "nearly constant answer": (
        replace(RELU, oracle=answer(slightly_off_constant), tolerance=roundings(4, "a test")),
        "hardly changes with the inputs",
    ),
    "the same inputs each time": (draw_with(RELU, constant(2.0)), "right answer to other inputs would pass"),
    "one value for all": (draw_with(SCALAR_MULTIPLY, constant_rows()), "one number would pass for every element"),
    "one value for each row": (
        replace(
            draw_with(ROW_SUM, constant_rows()),
            outputs=(Tensor("y", ("rows", "cols")),),
            oracle=lambda inputs, sizes: {
                "y": Expected(inputs["x"].astype(float), np.abs(inputs["x"]).astype(float))
            },
        ),
        "one number for each row would pass",
    ),
    "relu without negatives": (draw_with(RELU, uniform(0, 1)), "equals the input 'x'"),
    "idle input": (replace(VECTOR_ADD, oracle=twice_a), "no output depends on the input 'b'"),
    "negligible input": (
        replace(
            VECTOR_ADD,
            distributions=(distribution("typical", "b drowns", VECTOR_ADD.inputs, normal(), {"b": normal(1e-20)}),),
        ),
        "no output depends on the input 'b'",
    ),
    "infinite answer": (
        replace(RELU, oracle=answer(lambda x: np.where(x > 0, x, np.inf))),
        "the oracle's 'y' is not finite everywhere",
    ),
    "answer beyond float32": (
        replace(draw_with(SCALAR_MULTIPLY, normal()), oracle=answer(lambda x: x * 1e39)),
        "does not fit in float32",
    ),
    "negative scale": (
        replace(RELU, oracle=lambda i, s: {"y": Expected(np.maximum(i["x"].astype(float), 0), i["x"].astype(float))}),
        "negative or not finite",
    ),
    "scale of another shape": (
        replace(RELU, oracle=lambda i, s: {"y": Expected(i["x"].astype(float), np.ones(s["n"] + 1))}),
        "does not fit",
    ),
    "answer of another shape": (replace(RELU, oracle=answer(lambda x: x[:, None])), "declared is"),
    "answer in float32": (
        replace(RELU, oracle=lambda i, s: {"y": Expected(np.maximum(i["x"], 0), np.zeros(s["n"]))}),
        "as float32 instead of float64",
    ),
    "missing output": (replace(RELU, oracle=lambda i, s: {}), "not the declared outputs"),
    "oracle that fails": (replace(RELU, oracle=lambda i, s: i["nothing"]), "failed: KeyError"),
    "oracle that writes": (replace(RELU, oracle=write_into), "failed: ValueError"),
    "input of another dtype": (drawing(other_dtype), "is float64, declared is float32"),
    "input of another shape": (drawing(too_long), "declared is (1,)"),
    "input of another name": (drawing(misnamed), "not the declared ones"),
    "strided input": (drawing(strided), "not contiguous"),
    "squares that overflow": (draw_with(RELU, normal(1e30)), "squares overflow"),
    "input not finite": (draw_with(RELU, constant(np.nan)), "not finite"),
    "name twice": (replace(VECTOR_ADD, inputs=(X, X)), "the name 'x' stands for more than one"),
    "scalar named as a size": (replace(SCALAR_MULTIPLY, scalars=(Scalar("n", 2.0),)), "the name 'n' stands"),
    "name that is not one": (replace(RELU, inputs=(Tensor("x y", ("n",)),)), "cannot be the name"),
    "size never declared": (replace(RELU, outputs=(Tensor("y", ("n", "k")),)), "uses the size 'k'"),
    "size never used": (
        replace(RELU, sizes=("n", "k"), example_sizes=({"n": 4, "k": 4},), probes=()),
        "size 'k' does not appear",
    ),
    "shape that does not parse": (replace(RELU, outputs=(Tensor("y", ("n /2",)),)), "is not an expression"),
    "example without a size": (replace(RELU, example_sizes=({},)), "do not name exactly n"),
    "size of zero": (replace(RELU, example_sizes=({"n": 0},)), "not all at least 1"),
    "hidden size of another name": (
        replace(RELU, hidden_sizes=lambda generator: ({"m": 1},)),
        "do not name exactly n",
    ),
    "example outside the range": (
        replace(RELU, example_sizes=({"n": (1 << 25) + 1},)),
        "are outside what a kernel must serve: n from 1 to 17,825,792",
    ),
    "timing outside the range": (replace(RELU, serves=SizeRange({"n": 1 << 20})), "{'n': 16777216} are outside"),
    "hidden size outside the range": (
        replace(RELU, hidden_sizes=lambda generator: ({"n": 1}, {"n": 1 << 26})),
        "{'n': 67108864} are outside",
    ),
    "edge size outside the range": (
        replace(RELU, edge_sizes=lambda generator: ({"n": 1 << 26},)),
        "{'n': 67108864} are outside",
    ),
    "edge size below the published ones": (
        replace(RELU, edge_sizes=lambda generator: ({"n": 1 << 24},)),
        "no edge size has 'n' above the published ones, of which the largest is 16777216",
    ),
    "range of other names": (replace(RELU, serves=SizeRange({"m": 1 << 25})), "does not name exactly n"),
    "sampler of other elements": (
        replace(TRANSPOSE, sampler=elements_of_the_input),
        "asked for some elements of 'y' says otherwise than of all",
    ),
    "sampler that fails": (replace(TRANSPOSE, sampler=element_wise), "fails where it is asked for some elements"),
    "sampler of other scales": (
        replace(ROW_SUM, sampler=squares_as_scales),
        "asked for some elements of 'y' says otherwise than of all",
    ),
    "no hidden one": (replace(RELU, hidden_sizes=lambda _: ({"n": 33},)), "no hidden size is 1"),
    "two distributions of one name": (
        replace(RELU, distributions=(*RELU.distributions, draw_with(RELU, normal(), "normal").distributions[0])),
        "different distributions or probes are called 'normal'",
    ),
    "no outputs": (replace(RELU, outputs=()), "at least one input, one output"),
    "float16 passes": (
        replace(
            SCALAR_MULTIPLY,
            tolerance=WIDE,
            probes=(probe("wide", "a test", SCALAR_MULTIPLY.inputs, normal(), WIDE, {"n": 99}),),
        ),
        "rounded to 10 fraction bits passes",
    ),
    "round probes": (
        replace(
            draw_with(SCALAR_MULTIPLY, lambda rng, shape: rng.integers(-40, 39, shape) / 4),
            probes=(),
        ),
        "rounded to 10 fraction bits passes",
    ),
    "counts as floats": (replace(HISTOGRAM, oracle=counts_as_floats), "as float64 instead of int64"),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_problems_are_refused(name):
    problem, complaint = DEGENERATE[name]
    assert any(complaint in sentence for sentence in lint(problem)), lint(problem)


@pytest.mark.parametrize("problem", [VECTOR_ADD, SCALAR_MULTIPLY, RELU, ROW_SUM, HISTOGRAM], ids=lambda p: p.id)
def test_the_problems_they_are_made_from_are_clean(problem):
    assert lint(problem, seed=1) == ()


def test_a_guess_that_is_right_by_chance_condemns_nothing():
    def one_of_sixteen(inputs, sizes):
        value = np.array([1.0 + float(inputs["x"].reshape(-1)[0]) * 1e6 // 1.0 % 16])
        return {"y": Expected(value, value)}

    problem = replace(RELU, outputs=(Tensor("y", ("1",)),), oracle=one_of_sixteen)
    assert not any(degeneracies(problem, seed)[0] for seed in range(0, 160, 4))


def test_lint_draws_by_its_seed_alone():
    problem, _ = DEGENERATE["squares that overflow"]
    assert lint(problem, seed=3) == lint(problem, seed=3)


def test_float16_outputs_are_judged_by_the_precision_below_theirs():
    half = replace(
        SCALAR_MULTIPLY,
        inputs=(Tensor("x", ("n",), DType.FLOAT16),),
        outputs=(Tensor("y", ("n",), DType.FLOAT16),),
        distributions=(distribution("normal", "", (Tensor("x", ("n",), DType.FLOAT16),), normal()),),
        tolerance=Tolerance(2.0**-10, 2.0**-24, "one rounding to float16"),
        probes=(),
    )
    assert lint(half) == ()
    assert any("7 fraction bits" in s for s in lint(replace(half, tolerance=Tolerance(2.0**-7, 0, "too wide"))))


def test_within_refuses_what_is_not_a_number():
    expected = Expected(np.zeros(2), np.ones(2))
    assert within(np.array([1e-9, 0.0]), expected, Tolerance(1e-8, 0, ""))
    assert not within(np.array([np.nan, 0.0]), expected, Tolerance(1e-8, 0, ""))
    assert not within(np.array([np.inf, 0.0]), expected, Tolerance(1e-8, 0, ""))


@pytest.mark.parametrize(("bits", "dtype"), [(10, np.float16), (23, np.float32)])
def test_keep_bits_rounds_as_numpy_does(bits, dtype):
    values = np.random.default_rng(0).standard_normal(10_000) + 2.0
    assert np.array_equal(keep_bits(values, bits), values.astype(dtype).astype(float))
