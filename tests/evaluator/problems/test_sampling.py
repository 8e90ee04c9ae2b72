"""An oracle that is asked for some elements says what it says of all of them."""

import math

import numpy as np
import pytest
import torch

from evaluator.problems import sampling
from evaluator.problems.arrays import NumpyRng, to_numpy
from evaluator.problems.catalogue import problems
from evaluator.problems.problem import Expected, Problem, Sizes

PIECE = 500
"""So few elements at a time that the sizes here need several pieces."""


def some_elements(problem: Problem, sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    """Random elements of each output, some of them several times, its first and its last."""
    wanted = {}
    for tensor in problem.outputs:
        count = math.prod(tensor.shape_at(sizes))
        some = generator.integers(0, count, 40)
        wanted[tensor.name] = np.concatenate([some, some[:5], [count - 1, 0]])
    return wanted


def every_element(problem: Problem, sizes: Sizes, generator: np.random.Generator) -> dict[str, np.ndarray]:
    return {t.name: generator.permutation(math.prod(t.shape_at(sizes))) for t in problem.outputs}


def assert_same(actual: Expected, whole: Expected, wanted: np.ndarray) -> None:
    """Equal but for what float64 rounds when it adds in another order."""
    value, scale = (to_numpy(part) for part in (whole.value, np.broadcast_to(whole.scale, whole.value.shape)))
    assert actual.value.shape == actual.scale.shape == wanted.shape
    assert to_numpy(actual.value).dtype == value.dtype
    assert np.all(np.abs(to_numpy(actual.value) - value.reshape(-1)[wanted]) <= 1e-13 * scale.reshape(-1)[wanted])
    np.testing.assert_allclose(to_numpy(actual.scale), scale.reshape(-1)[wanted], rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
@pytest.mark.parametrize("at_once", [PIECE, sampling.AT_ONCE])
def test_some_elements_are_those_of_the_whole_answer(problem, at_once, monkeypatch):
    for module in ("sampling", "families.attention", "families.convolution"):
        monkeypatch.setattr(f"evaluator.problems.{module}.AT_ONCE", at_once)
    generator = np.random.default_rng(at_once)
    scalars = problem.scalars_of_turn(1)
    for sizes in (problem.example_sizes[1], *problem.hidden_sizes(generator)):
        inputs = problem.distributions[0].draw(NumpyRng(generator), sizes)
        whole = problem.oracle(inputs, sizes, **scalars)
        choices = [some_elements]
        if max(math.prod(t.shape_at(sizes)) for t in problem.outputs) <= 5000:
            choices.append(every_element)
        for choose in choices:
            wanted = choose(problem, sizes, generator)
            found = problem.oracle_at(inputs, sizes, wanted, **scalars)
            assert found.keys() == whole.keys()
            for name, expected in found.items():
                assert_same(expected, whole[name], wanted[name])


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_tensors_of_torch_are_sampled_as_arrays_are(problem):
    generator = np.random.default_rng(5)
    sizes = problem.hidden_sizes(generator)[-2]
    inputs = problem.distributions[0].draw(NumpyRng(generator), sizes)
    wanted = some_elements(problem, sizes, generator)
    found = problem.oracle_at({name: torch.asarray(array) for name, array in inputs.items()}, sizes, wanted)
    for name, expected in problem.oracle_at(inputs, sizes, wanted).items():
        assert isinstance(found[name].value, torch.Tensor)
        assert_same(
            Expected(*(to_numpy(part) for part in (found[name].value, found[name].scale))),
            Expected(expected.value, expected.scale),
            np.arange(wanted[name].size),
        )
