"""Round sizes: within what a kernel must serve, cheap, and between them all that kernels have cases for."""

from dataclasses import replace

import numpy as np
import pytest

from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.round_sizes import round_sizes


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_round_sizes_are_served_and_cheap(problem):
    for seed in range(10):
        drawn = round_sizes(problem, np.random.default_rng(seed))
        assert len(drawn) >= 7
        assert all(problem.serves.admits(sizes) for sizes in drawn)
        assert len({tuple(sizes.items()) for sizes in drawn}) == len(drawn)


def test_a_problem_without_sizes_has_none():
    """One of someone else, whose file names no number."""
    problem = replace(find_problem("vector_add"), sizes=())
    assert round_sizes(problem, np.random.default_rng(0)) == ()


@pytest.mark.parametrize(
    ("problem", "name", "met", "least"),
    [
        ("vector_add", "n", lambda n: n % 1024 == 512, 0.8),
        ("vector_add", "n", lambda n: n == 256, 0.6),
        ("vector_add", "n", lambda n: n > 1024 and n % 1024 == 1, 0.95),
        ("reduce_sum", "n", lambda n: n % 256 == 255, 0.95),
        ("scalar_multiply", "n", lambda n: n % 8 == 6, 0.8),
        ("softmax", "cols", lambda n: n == 256, 0.4),
        ("attention", "seq", lambda n: n > 64 and n % 64 == 1, 1),
        ("conv2d", "width", lambda n: n > 32 and n % 32 == 1, 1),
        ("matmul", "m", lambda n: n > 128 and n % 128 == 1, 1),
        ("saxpy", "n", lambda n: n > 768 and n % 768 == 1, 1),
        ("layer_norm", "cols", lambda n: n > 640 and n % 640 == 1, 1),
        ("softmax", "cols", lambda n: n > 1024 and n % 1024 == 1, 0.7),
        ("row_sum", "cols", lambda n: -(-n // 1024) == 6, 0.25),
        ("matmul", "k", lambda n: n % 64 == 32, 0.4),
    ],
)
def test_how_often_a_number_is_met(problem, name, met, least):
    draws = [round_sizes(find_problem(problem), np.random.default_rng(seed)) for seed in range(300)]
    assert np.mean([any(met(sizes[name]) for sizes in drawn) for drawn in draws]) >= least
