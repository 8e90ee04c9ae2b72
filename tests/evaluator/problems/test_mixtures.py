"""Mixtures: each row from some distribution, every distribution in some row, and tensors that go together stay so."""

import numpy as np
import pytest

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.generators import constant, distribution
from evaluator.problems.mixtures import STRETCH, TILE, mixed_rows, mixture, sparse
from evaluator.problems.problem import Tensor

X, W = Tensor("x", ("rows", "cols")), Tensor("weight", ("cols",))
KINDS = tuple(distribution(f"all_{value}", "", (X, W), constant(value)) for value in (1.0, 2.0, 3.0, 4.0))


def rng(seed=4):
    return NumpyRng(np.random.default_rng(seed))


@pytest.mark.parametrize("rows", [1, 3, 4, 50, 64, 1001])
@pytest.mark.parametrize("group", [1, TILE])
def test_groups_of_rows_come_from_all_distributions_as_evenly_as_can_be(rows, group):
    drawn = mixture(KINDS, (X, W), "rows", group).draw(rng(), {"rows": rows, "cols": 5})
    assert drawn["x"].shape == (rows, 5)
    assert (drawn["weight"] == 1.0).all()
    assert (drawn["x"] == drawn["x"][:, :1]).all()
    height = group if rows >= group * len(KINDS) else 1
    groups = drawn["x"][::height, 0]
    assert (np.repeat(groups, height)[:rows] == drawn["x"][:, 0]).all()
    counts = [int((groups == value).sum()) for value in (1.0, 2.0, 3.0, 4.0)]
    assert max(counts) - min(counts) <= 1


def test_the_order_of_rows_is_drawn_and_is_the_same_in_tensors_that_are_split():
    both = (X, Tensor("y", ("rows", "cols")))
    kinds = tuple(distribution(f"all_{value}", "", both, constant(value)) for value in (1.0, 2.0, 3.0))
    first, other = (mixture(kinds, both, "rows").draw(rng(seed), {"rows": 60, "cols": 2}) for seed in (1, 2))
    assert (first["x"] == first["y"]).all()
    assert (first["x"] != other["x"]).any()
    assert (np.diff(first["x"][:, 0]) != 0).sum() > 20


def test_rows_of_a_maker_are_mixed_too():
    values = mixed_rows([constant(1.0), constant(2.0)])(rng(), (3, 10, 4))
    assert values.shape == (3, 10, 4)
    assert sorted(values[..., 0].reshape(-1)) == [1.0] * 15 + [2.0] * 15


def test_a_look_at_a_few_elements_of_sparse_ones_finds_zeros_and_not_all_are():
    values = np.concatenate([sparse(rng(seed), (64, 1024)) for seed in range(12)])
    looks = (values[:, ::256] == 0).all(axis=1)
    assert looks.mean() > 0.6
    assert (values[looks] != 0).any(axis=1).mean() > 0.9


@pytest.mark.parametrize("problem", [p for p in problems().values() if p.mixture], ids=lambda problem: problem.id)
def test_the_oracle_takes_a_mixture_and_every_edge_probe(problem):
    """Finite, and narrow enough: an answer off by 2^-10, or of a far mean 2^-6, of itself is wrong somewhere."""
    for one in (problem.mixture, *(probe.distribution for probe in problem.edge_probes)):
        drawn = one.draw(rng(), problem.example_sizes[1])
        for name, expected in problem.oracle(drawn, problem.example_sizes[1]).items():
            assert np.isfinite(expected.value).all(), one.name
            off = np.abs(expected.value) * 2.0 ** (-6 if one.name == "far_pairs" else -10)
            assert (off > problem.tolerance.allowed(expected)).any(), (one.name, name)


def test_a_vector_has_stretches_of_every_distribution():
    x = find_problem("gelu").mixture.draw(rng(), {"n": 64 * STRETCH + 7})["x"]
    most = np.abs(x[: 64 * STRETCH].reshape(64, STRETCH)).max(axis=1)
    assert (most > 1e12).any()
    assert ((most > 1) & (most < 10)).any()
    assert (most < 1e-12).any()
