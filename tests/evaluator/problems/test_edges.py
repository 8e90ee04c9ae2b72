"""Sizes at the edges: where they lie, that nobody can foresee them, and what they cost."""

import math

import numpy as np
import pytest

from evaluator.problems import edges
from evaluator.problems.catalogue import problems

MOST_ELEMENTS = 60_000_000
"""Of all tensors over all edge sizes of a problem: element-wise ones have one size of 2^24."""


def test_sizes_above_an_edge_are_near_it_and_many():
    drawn = [edges.above(1 << 16, 1 << 18)(np.random.default_rng(seed)) for seed in range(200)]
    assert all(1 << 16 < n <= (1 << 16) * 65 // 64 or 1 << 18 < n <= (1 << 18) * 65 // 64 for n in drawn)
    assert len(set(drawn)) > 180
    assert {n > 1 << 17 for n in drawn} == {True, False}
    wide = [edges.above(1 << 15, step=4)(np.random.default_rng(seed)) for seed in range(50)]
    assert all(n > 1 << 15 and n % 4 == 0 for n in wide)


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_edge_sizes_serve_the_range_at_little_cost_and_vary(problem):
    draws = [problem.edge_sizes(np.random.default_rng(seed)) for seed in range(20)]
    for sets in draws:
        assert all(problem.serves.admits(sizes) for sizes in sets)
        tensors = (*problem.inputs, *problem.outputs)
        assert sum(math.prod(t.shape_at(sizes)) for sizes in sets for t in tensors) <= MOST_ELEMENTS
    assert len({str(sets) for sets in draws}) == len(draws)
