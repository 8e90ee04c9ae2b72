import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.problems import generators, structured
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.linter import keep_bits
from evaluator.problems.problem import Tensor

MAKERS = {
    "normal": generators.normal(),
    "uniform": generators.uniform(-1, 1),
    "uniform_int": generators.uniform_int(0, 255),
    "large": generators.large(),
    "tiny": generators.tiny(),
    "cancellation": generators.cancellation(),
    "repeated": generators.repeated(),
    "signed_zeros": generators.signed_zeros(),
    "constant_rows": generators.constant_rows(),
    "mixed_scales": generators.mixed_scales(),
    "whole_range": generators.whole_range(-60, 63),
    "fine": generators.fine(),
    "several_scales": structured.several_scales,
    "clusters": structured.clusters,
    "ties": structured.ties,
    "ordered": structured.ordered,
    "signs_by_place": structured.signs_by_place,
    "unlike_first_warp": structured.unlike_first_warp(1e3),
    "extreme_ends": structured.extreme_ends(1e3),
    "zero_parts": structured.special_parts(True, 1e3),
    "equal_parts": structured.special_parts(False, 1e3),
    "dominated": structured.dominated(generators.fine()),
    "few_matter": structured.few_matter(generators.fine()),
    "few_high": structured.few_high(),
}

shapes = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)
seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("name", MAKERS)
@given(shape=shapes, seed=seeds)
def test_makers_fill_the_shape_with_values_whose_squares_fit(name, shape, seed):
    values = MAKERS[name](NumpyRng(np.random.default_rng(seed)), shape)
    assert values.shape == shape
    squares = np.square(values.astype(np.float32))
    assert np.isfinite(squares).all()


@given(shape=shapes, seed=seeds)
def test_the_same_seed_draws_the_same_and_tensors_differ(shape, seed):
    names = tuple(f"d{at}" for at in range(len(shape)))
    tensors = (Tensor("a", (*names, "64")), Tensor("b", (*names, "64")))
    sizes = dict(zip(names, shape, strict=True))
    for distribution in generators.usual_distributions(tensors):
        first = distribution.draw(NumpyRng(np.random.default_rng(seed)), sizes)
        second = distribution.draw(NumpyRng(np.random.default_rng(seed)), sizes)
        assert all(np.array_equal(first[name], second[name]) for name in "ab")
        assert all(array.dtype == np.float32 and array.flags.c_contiguous for array in first.values())
        if distribution.name != "constant_rows":  # a handful of values, which may meet
            assert not np.array_equal(first["a"], first["b"])


@pytest.mark.parametrize("bits", [7, 10])
def test_fine_values_are_float32_and_move_however_they_are_rounded(bits):
    values = generators.fine()(NumpyRng(np.random.default_rng(1)), (50_000,))
    assert np.array_equal(values, values.astype(np.float32))
    truncated = np.trunc(values * 2.0**bits) / 2.0**bits
    for lower in (keep_bits(values, bits), truncated):
        assert (np.abs(lower - values) / np.abs(values)).min() >= 2.0**-13
    assert (np.abs(keep_bits(values, 15) - values) / np.abs(values)).min() >= 2.0**-18


@given(shape=shapes, seed=seeds, axis=st.integers(0, 2))
def test_dominated_has_one_element_along_the_axis_next_to_which_none_is_felt(shape, seed, axis):
    axis %= len(shape)
    values = structured.dominated(generators.fine(), axis)(NumpyRng(np.random.default_rng(seed)), shape)
    magnitudes = np.abs(values)
    assert values.all()
    assert ((magnitudes >= 1).sum(axis=axis) == 1).all()
    assert (magnitudes.sum(axis=axis) - magnitudes.max(axis=axis) <= 2.0**-32).all()


@given(rows=st.integers(1, 5), half=st.integers(8, 400), odd=st.booleans(), seed=seeds)
def test_cancellation_leaves_little(rows, half, odd, seed):
    rng = NumpyRng(np.random.default_rng(seed))
    values = generators.cancellation()(rng, (rows, 2 * half + odd))
    assert (np.abs(values.sum(axis=1)) < 0.02 * np.linalg.norm(values, axis=1)).all()
    factor = generators.repeated()(rng, (rows, 2 * half + odd))
    assert np.array_equal(factor[:, :half], factor[:, half : 2 * half])


def test_constant_rows_sum_exactly_in_float32():
    rows = generators.constant_rows()(NumpyRng(np.random.default_rng(0)), (64, 1 << 15)).astype(np.float32)
    assert np.array_equal(np.cumsum(rows, axis=1)[:, -1], rows[:, 0].astype(np.float64) * (1 << 15))
    assert (rows == rows[:, :1]).all()
    assert rows.all()


def test_signed_zeros_hold_both_zeros_and_values():
    values = generators.signed_zeros()(NumpyRng(np.random.default_rng(0)), (900,))
    zero = values == 0
    assert (zero & np.signbit(values)).sum() > 200
    assert (zero & ~np.signbit(values)).sum() > 200
    assert (~zero).sum() > 200


@given(most=st.dictionaries(st.sampled_from(["m", "n", "k"]), st.integers(2, 10**6), min_size=1), seed=seeds)
def test_hidden_sizes_stay_in_bounds_and_hold_the_awkward_ones(most, seed):
    sizes = generators.hidden_sizes(**most)(np.random.default_rng(seed))
    assert sizes[0] == dict.fromkeys(most, 1)
    assert all(set(entry) == set(most) for entry in sizes)
    assert all(1 <= entry[name] <= most[name] for entry in sizes for name in most)
    assert len({tuple(entry.items()) for entry in sizes}) == len(sizes)
    for name in most:
        assert any(entry[name] == 1 for entry in sizes)


def test_hidden_sizes_vary_with_the_generator():
    draw = generators.hidden_sizes(n=1 << 17)
    assert len({str(draw(np.random.default_rng(seed))) for seed in range(20)}) > 15


def test_tolerances_say_what_they_admit():
    assert generators.exact().relative == generators.exact().absolute == 0
    assert generators.roundings(4, "a sum").relative == 4 * 2.0**-24
    tolerance = generators.summation(1 << 16)
    assert tolerance.relative == (4 * 256 + 4) * 2.0**-24
    assert "65536 additions" in tolerance.reason
    assert 0 < generators.one_term().relative < 2.0**-13 / 16


@pytest.mark.parametrize("zeros", [True, False])
@given(seed=seeds, columns=st.integers(100, 3000))
def test_the_head_of_a_matrix_says_nothing_of_the_rest_of_it(zeros, seed, columns):
    values = structured.special_parts(zeros, 1e3)(NumpyRng(np.random.default_rng(seed)), (70, columns))
    head = values[0, : min(columns, 1024) // 2 - 1]
    assert (head == values[0, 0]).all()
    assert (values[0, 0] == 0) is np.bool_(zeros)
    assert (values[:50, 0] == values[0, 0]).all()
    assert len(np.unique(values)) > columns


def test_special_parts_are_of_every_kind_at_some_place():
    values = structured.special_parts(True, 1e3)(NumpyRng(np.random.default_rng(7)), (3000, 1024))[64:]
    whole = values[(values == 0).all(axis=1)]
    alternating = values[(values[:, 1:] == -values[:, :-1]).all(axis=1) & (values[:, 0] != 0)]
    zero_warps = (values[:, :128] == 0).all(axis=1) & (values[:, 128:] != 0).any(axis=1)
    large = np.abs(values) == 1e3
    by_places = large[:, 0] & large[:, 15] & large[:, 31] & (large.sum(axis=1) == 96)
    first_vanishes = (np.abs(values[:, 0]) == 2.0**-63) & (np.abs(values[:, 512]) > 1e-3)
    for kind in (whole, alternating, *(values[rows] for rows in (zero_warps, by_places, first_vanishes))):
        assert len(kind) > 5
