"""The check of a product by random signs: honest products pass, and it finds what it says it finds."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.backends.gpu.tensors import TorchRng
from evaluator.problems import freivalds
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import problems
from evaluator.problems.families.linear_algebra import MATMUL, MATMUL_F16
from evaluator.problems.generators import exact
from evaluator.problems.linter import keep_bits

SIZES = {"m": 67, "n": 130, "k": 257}
BOTH = pytest.mark.parametrize("problem", [MATMUL, MATMUL_F16], ids=lambda problem: problem.id)


def drawn(problem, distribution=None, sizes=SIZES, seed=1):
    return (distribution or problem.distributions[0]).draw(NumpyRng(np.random.default_rng(seed)), sizes)


def product(inputs):
    """An honest kernel's: float32 sums, rounded to the type of the factors."""
    return (inputs["a"].astype(np.float32) @ inputs["b"].astype(np.float32)).astype(inputs["a"].dtype)


def checked(problem, inputs, c, tolerance=None, seed=2):
    sizes = {"m": c.shape[0], "n": c.shape[1], "k": inputs["a"].shape[1]}
    rng = NumpyRng(np.random.default_rng(seed))
    return problem.sketch(rng, inputs, {"c": c}, sizes, tolerance or problem.tolerance)


def allowance(problem, inputs):
    """What the docstring calls A, from the oracle's own scale."""
    scale = problem.oracle(inputs, SIZES)["c"].scale
    each = problem.tolerance.relative * scale + problem.tolerance.absolute
    return 7 * np.sqrt((each**2).sum(axis=1))


def test_only_products_have_one():
    assert {problem.id for problem in problems().values() if problem.sketch} == {"matmul", "matmul_f16"}


@BOTH
def test_honest_products_pass_with_every_distribution_and_probe(problem):
    for distribution in problem.distributions:
        for seed in range(3):
            inputs = drawn(problem, distribution, seed=seed)
            found = checked(problem, inputs, product(inputs), seed=seed)
            assert found.passed, distribution.name
            assert found.output == "c"
            assert 0 <= found.worst_ratio < 1
    for probe in problem.probes:
        inputs = drawn(problem, probe.distribution, probe.sizes)
        assert checked(problem, inputs, product(inputs), probe.tolerance).passed, probe.distribution.name


@settings(max_examples=40, deadline=None)
@given(m=st.integers(1, 40), n=st.integers(1, 40), k=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
def test_honest_products_pass_at_any_size(m, n, k, seed):
    for problem in (MATMUL, MATMUL_F16):
        inputs = drawn(problem, sizes={"m": m, "n": n, "k": k}, seed=seed)
        assert checked(problem, inputs, product(inputs), seed=seed).passed


@settings(max_examples=30, deadline=None)
@given(row=st.integers(0, 66), column=st.integers(0, 129), up=st.booleans(), seed=st.integers(0, 2**32 - 1))
def test_one_wrong_element_beyond_the_allowance_is_found(row, column, up, seed):
    inputs = drawn(MATMUL)
    c = product(inputs)
    c[row, column] += (1.01 if up else -1.01) * allowance(MATMUL, inputs)[row] + (1e-4 if up else -1e-4)
    found = checked(MATMUL, inputs, c, seed=seed)
    assert not found.passed
    assert found.worst_row == row
    assert found.worst_ratio > 1


@BOTH
@pytest.mark.parametrize(
    "mistake",
    [
        lambda c: np.roll(c, 1, axis=0),
        lambda c: np.where(np.arange(len(c))[:, None] == 5, 0, c).astype(c.dtype),
        lambda c: np.where(np.arange(c.shape[1]) == 77, 0, c).astype(c.dtype),
        lambda c: np.zeros_like(c),
        lambda c: c[:, ::-1],
        lambda c: 2 * c,
        lambda c: np.full_like(c, 60_000),
    ],
    ids=["rows moved", "a row of zeros", "a column of zeros", "zeros", "columns reversed", "twice", "all large"],
)
def test_what_is_skipped_or_misplaced_is_found(problem, mistake):
    inputs = drawn(problem)
    for seed in range(5):
        assert not checked(problem, inputs, mistake(product(inputs)), seed=seed).passed


@BOTH
def test_a_row_of_other_values_is_found_and_named(problem):
    inputs = drawn(problem)
    c = product(inputs)
    c[31] = c[32]
    found = checked(problem, inputs, c)
    assert (found.passed, found.worst_row) == (False, 31)


@BOTH
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_found(problem, value):
    inputs = drawn(problem)
    c = product(inputs)
    c[3, 4] = value
    found = checked(problem, inputs, c)
    assert (found.passed, found.worst_ratio, found.worst_row) == (False, math.inf, 3)


def test_tf32_is_found_as_the_stated_power_says():
    """Every row's error is so many times its allowance that 32 rounds over 67 rows cannot all miss it."""
    inputs = drawn(MATMUL)
    low = {name: keep_bits(values, 10) for name, values in inputs.items()}
    c = (low["a"] @ low["b"]).astype(np.float32)
    error = c - inputs["a"].astype(float) @ inputs["b"].astype(float)
    r = np.sqrt((error**2).sum(axis=1)) / allowance(MATMUL, inputs)
    assert r.min() > 1.5
    missed = np.prod((1 - (1 - 1 / r**2) ** 2 / 3) ** freivalds.ROUNDS)
    assert missed < 1e-12
    assert not any(checked(MATMUL, inputs, c, seed=seed).passed for seed in range(10))


def test_a_row_far_off_is_missed_no_more_often_than_stated(monkeypatch):
    """An error of 2-norm 10 A, one round: the bound is 0.674; spread evenly it is a normal value near 0, 0.08."""
    monkeypatch.setattr(freivalds, "ROUNDS", 1)
    inputs = drawn(MATMUL)
    c = product(inputs).astype(np.float64)
    c[9] += 10 * allowance(MATMUL, inputs)[9] / math.sqrt(c.shape[1])
    missed = sum(checked(MATMUL, inputs, c, seed=seed).passed for seed in range(400)) / 400
    assert 0.02 < missed < 0.2 < 1 - 0.99**2 / 3


def test_without_tolerance_a_unit_in_the_last_place_is_found():
    probe = MATMUL.probes[1]
    inputs = drawn(MATMUL, probe.distribution, probe.sizes)
    c = product(inputs)
    assert checked(MATMUL, inputs, c, exact()).passed
    c[0, 0] = np.nextafter(c[0, 0], np.float32(np.inf))
    assert not checked(MATMUL, inputs, c, exact()).passed


@BOTH
def test_blocks_of_rows_make_no_difference(problem, monkeypatch):
    inputs = drawn(problem)
    c = product(inputs)
    whole = checked(problem, inputs, c)
    monkeypatch.setattr(freivalds, "_BLOCK_ELEMENTS", 1000)
    assert checked(problem, inputs, c).worst_ratio == pytest.approx(whole.worst_ratio, rel=1e-6)


@BOTH
def test_tensors_are_checked_like_arrays(problem):
    inputs = drawn(problem)
    c = product(inputs)
    tensors = {name: torch.from_numpy(values) for name, values in inputs.items()}
    good = problem.sketch(TorchRng(1, "cpu"), tensors, {"c": torch.from_numpy(c)}, SIZES, problem.tolerance)
    assert good.passed
    assert good.worst_ratio == pytest.approx(checked(problem, inputs, c).worst_ratio, rel=0.5)
    c[40, 2] = 1000
    bad = problem.sketch(TorchRng(1, "cpu"), tensors, {"c": torch.from_numpy(c)}, SIZES, problem.tolerance)
    assert (bad.passed, bad.worst_row) == (False, 40)
