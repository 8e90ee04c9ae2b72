"""What sums at hand explain: honest float32 is within it in every order, 16 bits are not."""

import numpy as np
import pytest

from evaluator.problems import error_bounds, structured
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.generators import fine, normal
from evaluator.problems.linter import keep_bits

F = np.float32
FACTS = {"normal": normal(), "few_matter": structured.few_matter(fine()), "ties": structured.ties}


def norm(terms, axis=-1):
    return np.sqrt((terms**2).sum(axis=axis) + terms.sum(axis=axis) ** 2)


def sums_in_some_order(values, generator):
    """One accumulator forwards, one in random order, and a tree."""
    yield np.cumsum(values, axis=1, dtype=F)[:, -1]
    yield np.cumsum(generator.permutation(values, axis=1), axis=1, dtype=F)[:, -1]
    tree = np.pad(values, ((0, 0), (0, 1024 - values.shape[1])))
    while tree.shape[1] > 1:
        tree = tree[:, ::2] + tree[:, 1::2]
    yield tree[:, 0]


@pytest.mark.parametrize("values", FACTS)
def test_sums_are_within_the_bound_in_any_order_and_16_bits_are_not(values):
    generator = np.random.default_rng(7)
    terms = FACTS[values](NumpyRng(generator), (500, 1000)).astype(F)
    wide = terms.astype(np.float64)
    scale = norm(wide)
    allowed = error_bounds.of_sums(wide, scale, 4.0) * scale
    for total in sums_in_some_order(terms, generator):
        assert (np.abs(total - wide.sum(axis=1)) <= 0.5 * allowed).all()
    lower = np.abs(keep_bits(wide, 15).sum(axis=1) - wide.sum(axis=1))
    assert (lower > allowed).any() == (values != "ties")  # which have few bits


def test_few_terms_that_matter_narrow_the_bound_row_by_row():
    wide = np.full((3, 100), 2.0**-40)
    wide[0, 3] = 1.0
    wide[1, :16] = 1.0
    wide[2] = 1.0
    found = error_bounds.of_sums(wide, norm(wide), 4.0) / error_bounds.EPSILON
    assert found == pytest.approx([8, 20, 44], rel=1e-3)


def test_products_and_prefixes_are_bounded_as_their_sums_are():
    rng = NumpyRng(np.random.default_rng(8))
    left = structured.few_matter(fine())(rng, (40, 300))
    right = fine()(rng, (300, 1))
    terms = left * right[:, 0]
    by_row = error_bounds.of_products(left, right, norm(terms)[:, None], 4.0)[:, 0]
    assert (by_row <= error_bounds.random_walk(300, 4.0)).all()
    few = (np.abs(left) >= 1).sum(axis=1) <= 75
    assert by_row[few] == pytest.approx(error_bounds.of_sums(terms, norm(terms), 4.0)[few], rel=1e-6)
    assert few.sum() > 10

    prefixes = np.array([1.0, 2.0**-40, 64.0, 2.0**-40, 64.0])
    scale = np.array([norm(prefixes[:end]) for end in range(1, 6)])
    found = error_bounds.of_prefixes(prefixes, scale, 0.0) / error_bounds.EPSILON
    assert found == pytest.approx(4 * np.sqrt([1, 2, 2, 2, 3]), rel=1e-3)


def test_a_sum_of_zeros_has_a_bound():
    assert np.isfinite(error_bounds.of_sums(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([0.0, 2**0.5]), 4.0)).all()
