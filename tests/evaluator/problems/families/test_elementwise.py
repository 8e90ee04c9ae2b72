"""vector_add, scalar_multiply, saxpy, relu, gelu, swiglu and transpose: oracles, tolerances and probes."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erf

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.families.activation import GELU, RELU, SWIGLU
from evaluator.problems.families.elementwise import (
    SAXPY,
    SAXPY_ALPHA,
    SCALAR_MULTIPLY,
    SCALAR_MULTIPLY_ALPHA,
    VECTOR_ADD,
)
from evaluator.problems.families.transpose import TRANSPOSE
from evaluator.problems.linter import within

F = np.float32
PROBLEMS = (VECTOR_ADD, SCALAR_MULTIPLY, SAXPY, RELU, GELU, SWIGLU, TRANSPOSE)


def silu(gate):
    return gate / (1 + math.exp(-gate)) if gate > 0 else gate * math.exp(gate) / (1 + math.exp(gate))


# One element from the inputs' elements, in Python floats (which are float64).
SLOW = {
    "vector_add": lambda a, b: a + b,
    "scalar_multiply": lambda x: 2.5 * x,
    "saxpy": lambda x, y: -1.75 * x + y,
    "relu": lambda x: x if x > 0 else 0.0,
    "gelu": lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
    "swiglu": lambda gate, up: silu(gate) * up,
}


def fast_exp(x):
    """Float32 exp that is wrong by what `__expf` may be wrong by, in the direction that hurts most."""
    return np.exp(x.astype(np.float64)).astype(F) * (1 + (2 + np.floor(np.abs(1.173 * x))) * F(2.0**-23)).astype(F)


def fast_erf(x, error):
    """Float32 erf, off by a relative `error` where it is not yet 1: there it is exact on every GPU."""
    value = erf(x)
    return np.where(np.abs(value) < 1, value * F(1 + error), value)


# Honest float32 kernels, as the compiler or --use_fast_math may make them.
HONEST = {
    "vector_add": {"plain": lambda i: i["a"] + i["b"]},
    "scalar_multiply": {"plain": lambda i: F(SCALAR_MULTIPLY_ALPHA) * i["x"]},
    "saxpy": {
        "two roundings": lambda i: F(SAXPY_ALPHA) * i["x"] + i["y"],
        "fused": lambda i: (SAXPY_ALPHA * i["x"].astype(float) + i["y"]).astype(F),
    },
    "relu": {
        "branch": lambda i: np.where(i["x"] > 0, i["x"], F(0)),
        "product": lambda i: i["x"] * (i["x"] > 0),
    },
    "gelu": {
        "plain": lambda i: F(0.5) * i["x"] * (1 + erf(i["x"] / np.sqrt(F(2)))),
        "erff above": lambda i: F(0.5) * i["x"] * (1 + fast_erf(i["x"] * F(0.70710678), 2.0**-22)),
        "erff below": lambda i: F(0.5) * i["x"] * (1 + fast_erf(i["x"] * F(0.70710678), -(2.0**-22))),
        "normal distribution": lambda i: (i["x"].astype(float) * 0.5 * (1 + erf(i["x"] / 2**0.5))).astype(F),
    },
    "swiglu": {
        "plain": lambda i: i["gate"] / (1 + np.exp(-i["gate"])) * i["up"],
        "sigmoid first": lambda i: i["gate"] * (1 / (1 + np.exp(-i["gate"]))) * i["up"],
        "fast math": lambda i: i["gate"] / (1 + fast_exp(-i["gate"])) * F(1 - 2.0**-22) * i["up"],
    },
    "transpose": {"plain": lambda i: i["x"].T},
}
CASES = [(problem, way) for problem in PROBLEMS for way in HONEST[problem.id]]


@pytest.mark.parametrize("problem", [p for p in PROBLEMS if p is not TRANSPOSE], ids=lambda p: p.id)
def test_oracle_against_one_element_at_a_time(problem):
    generator = np.random.default_rng(3)
    sizes = dict.fromkeys(problem.sizes, 7)
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(generator), sizes)
        expected = problem.oracle(inputs, sizes)[problem.outputs[0].name]
        columns = [inputs[tensor.name].reshape(-1).tolist() for tensor in problem.inputs]
        for value, *elements in zip(expected.value.reshape(-1), *columns, strict=True):
            assert value == pytest.approx(SLOW[problem.id](*elements), rel=1e-12, abs=1e-300)


def test_transpose_oracle_against_loops():
    inputs = TRANSPOSE.distributions[0].draw(NumpyRng(np.random.default_rng(0)), {"rows": 3, "cols": 5})
    value = TRANSPOSE.oracle(inputs, {"rows": 3, "cols": 5})["y"].value
    assert value.shape == (5, 3)
    assert all(value[c, r] == inputs["x"][r, c] for r in range(3) for c in range(5))


@pytest.mark.parametrize(("problem", "way"), CASES, ids=lambda value: getattr(value, "id", value))
def test_honest_float32_passes_every_trial(problem, way, failed_trials):
    output = problem.outputs[0].name
    assert failed_trials(problem, lambda inputs, sizes: {output: HONEST[problem.id][way](inputs)}) == []


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 3000), seed=st.integers(0, 2**32 - 1), case=st.sampled_from(CASES))
def test_honest_float32_passes_at_any_size(n, seed, case):
    problem, way = case
    sizes = dict.fromkeys(problem.sizes, 1) | {problem.sizes[-1]: n}
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(seed)), sizes)
        expected = problem.oracle(inputs, sizes)[problem.outputs[0].name]
        with np.errstate(all="ignore"):
            assert within(HONEST[problem.id][way](inputs), expected, problem.tolerance), distribution.name


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.id)
def test_lower_precision_inside_fails(problem, lower_precision, failed_trials):
    """Inputs rounded once, everything else exact: the best that a lower precision can do."""

    def compute(inputs, sizes):
        rounded = {name: lower_precision(array) for name, array in inputs.items()}
        return {name: expected.value for name, expected in problem.oracle(rounded, sizes).items()}

    failed = failed_trials(problem, compute)
    assert any(name.startswith("fine") for name in failed)
    assert any(name.startswith("normal") for name in failed)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.id)
def test_guesses_fail(problem, passing_guesses):
    assert passing_guesses(problem) == []


@pytest.mark.parametrize(
    ("problem", "wrong"),
    [
        (GELU, lambda i: 0.5 * i["x"] * (1 + np.tanh(0.7978845608 * (i["x"] + 0.044715 * i["x"] ** 3)))),
        (GELU, lambda i: i["x"] / (1 + np.exp(-1.702 * i["x"]))),
        (GELU, lambda i: np.maximum(i["x"], 0)),
        (SWIGLU, lambda i: i["gate"] * np.exp(i["gate"]) / (1 + np.exp(i["gate"])) * i["up"]),
        (SWIGLU, lambda i: i["up"] / (1 + np.exp(-i["up"])) * i["gate"]),
        (SWIGLU, lambda i: i["gate"] / (1 + np.exp(-i["gate"]))),
        (RELU, lambda i: i["x"]),
        (RELU, lambda i: np.abs(i["x"])),
        (SAXPY, lambda i: int(SAXPY_ALPHA) * i["x"] + i["y"]),
        (SAXPY, lambda i: SAXPY_ALPHA * i["y"] + i["x"]),
        (VECTOR_ADD, lambda i: i["a"] + i["a"]),
        (TRANSPOSE, lambda i: i["x"].reshape(i["x"].T.shape)),
    ],
    ids=[
        *("tanh gelu", "sigmoid gelu", "relu for gelu", "silu that overflows", "swapped gate", "no up", "identity"),
        *("absolute value", "alpha as int", "swapped saxpy", "a twice", "reshape"),
    ],
)
def test_near_misses_fail(problem, wrong, failed_trials):
    output = problem.outputs[0].name
    assert failed_trials(problem, lambda inputs, sizes: {output: wrong(inputs)})
