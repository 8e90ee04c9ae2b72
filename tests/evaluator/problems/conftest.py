"""What the tests of the problems share: rounding to lower precisions, and the trials that a referee would run."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.linter import keep_bits, within
from evaluator.problems.problem import Array, Arrays, Expected, Problem, Sizes, Tolerance

Compute = Callable[[Arrays, Sizes], dict[str, Array]]


def _float16(values: Array) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float16).astype(np.float64)


LOWER_PRECISIONS: dict[str, Callable[[Array], Array]] = {
    "float16": _float16,
    "bfloat16": lambda values: keep_bits(values, 7),
    "tf32": lambda values: keep_bits(values, 10),
}


@pytest.fixture(params=list(LOWER_PRECISIONS))
def lower_precision(request: pytest.FixtureRequest) -> Callable[[Array], Array]:
    """Rounds float64 or float32 values to a lower precision, and gives them back as float64."""
    return LOWER_PRECISIONS[request.param]


def _trials(problem: Problem, seed: int) -> Iterator[tuple[str, dict[str, Array], Sizes, Tolerance]]:
    generator = np.random.default_rng(seed)
    hidden = problem.hidden_sizes(generator)
    for distribution in problem.distributions:
        # Those with structure are many, and stand in for the typical one at a few sizes.
        for sizes in (
            (problem.example_sizes[1], hidden[-2])
            if distribution.role == "structured"
            else (
                problem.example_sizes[1],
                *hidden,
            )
        ):
            yield distribution.name, distribution.draw(NumpyRng(generator), sizes), sizes, problem.tolerance
    for probe in problem.probes:
        yield (
            probe.distribution.name,
            probe.distribution.draw(NumpyRng(generator), probe.sizes),
            probe.sizes,
            probe.tolerance,
        )


@pytest.fixture(scope="session")
def failed_trials() -> Callable[..., list[str]]:
    """`failed_trials(problem, compute, seed=0)`: the trials, by distribution and sizes, that `compute` fails."""

    def run(problem: Problem, compute: Compute, seed: int = 0) -> list[str]:
        failed = []
        for name, inputs, sizes, tolerance in _trials(problem, seed):
            expected: dict[str, Expected] = problem.oracle(inputs, sizes)
            with np.errstate(all="ignore"):
                actual = compute(inputs, sizes)
            if not all(within(actual[output], expected[output], tolerance) for output in expected):
                failed.append(f"{name} at {dict(sizes)}")
        return failed

    return run


def _guesses(problem: Problem, inputs: Arrays, sizes: Sizes) -> Iterator[tuple[str, dict[str, Array]]]:
    value = {name: expected.value for name, expected in problem.oracle(inputs, sizes).items()}
    yield "zeros", {name: np.zeros_like(array) for name, array in value.items()}
    if all(array.size > 1 for array in value.values()):
        yield "mean", {name: np.full(array.shape, array.mean()) for name, array in value.items()}
    first = {name: array.copy() for name, array in value.items()}
    for array in first.values():
        array.reshape(-1)[array.size // 2 :] = 0
    yield "first half only", first
    off = {name: array.copy() for name, array in value.items()}
    for array in off.values():
        array.reshape(-1)[-1] += 1
    yield "last element off by one", off
    yield "nan", {name: np.full(array.shape, np.nan) for name, array in value.items()}


@pytest.fixture(scope="session")
def passing_guesses() -> Callable[[Problem], list[str]]:
    """`passing_guesses(problem)`: answers without any work that the typical distribution lets through."""

    def run(problem: Problem) -> list[str]:
        passed = []
        for sizes in problem.example_sizes:
            inputs = problem.distributions[0].draw(NumpyRng(np.random.default_rng(5)), sizes)
            expected = problem.oracle(inputs, sizes)
            for guess, actual in _guesses(problem, inputs, sizes):
                if all(within(actual[name], expected[name], problem.tolerance) for name in expected):
                    passed.append(f"{guess} at {dict(sizes)}")
        return passed

    return run
