"""Comparing with the oracle: against a slow loop, and where the wrong elements are said to lie."""

import math
import re

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from evaluator.problems.problem import Expected, Tolerance
from evaluator.stages.verify.comparison import (
    compare_elements,
    compare_output,
    heat,
    in_words,
    is_poison,
    where_wrong,
)
from evaluator.stages.verify.findings.undefined_memory import unconfirmed

TOLERANCE = Tolerance(1e-3, 1e-6, "for the test")
SHAPES = npst.array_shapes(min_dims=1, max_dims=3, max_side=9)
MASKS = npst.arrays(bool, SHAPES).filter(lambda wrong: wrong.any())


def numbers(text: str) -> list[int]:
    return list(map(int, re.findall(r"\d+", text)))


@given(st.data(), st.sampled_from(["float64", "float32", "float16"]))
def test_compare_agrees_with_a_slow_loop(data, dtype):
    shape = data.draw(SHAPES)
    sensible = st.floats(-1000, 1000, width=16)
    wanted = data.draw(npst.arrays(np.float64, shape, elements=sensible))
    scale = data.draw(npst.arrays(np.float64, shape, elements=st.floats(0, 1000)))
    off = data.draw(
        npst.arrays(np.float64, shape, elements=st.sampled_from([0, 0, 0, 1e-4, 0.1, -2.0, math.nan, math.inf]))
    )
    actual = (wanted + off).astype(dtype)
    wrong, worst = [], 0.0
    for index in np.ndindex(shape):
        error = abs(float(actual[index]) - wanted[index])
        allowed = 1e-3 * scale[index] + 1e-6
        if not error <= allowed:
            wrong.append(index)
        elif error:
            worst = max(worst, error / allowed)
    comparison = compare_output("y", actual, Expected(wanted, scale), TOLERANCE, 0x5B)
    if not wrong:
        assert comparison.mismatch is None
        assert comparison.worst_error == pytest.approx(worst)
        return
    found = comparison.mismatch
    assert (found.wrong_count, found.count, found.shape) == (len(wrong), actual.size, shape)
    assert found.index in wrong
    assert (found.error is None) == (not math.isfinite(actual[found.index]))
    if any(not math.isfinite(actual[index]) for index in wrong):
        assert found.error is None, "what is not a number is the worst"
        assert comparison.worst_error is None


@given(npst.arrays(np.int32, SHAPES), st.data())
def test_integers_are_right_or_wrong_without_tolerance(wanted, data):
    off = data.draw(npst.arrays(np.int32, wanted.shape, elements=st.sampled_from([0, 0, 0, 1, -1])))
    actual = wanted + off
    generous = Tolerance(0.5, 0.5, "must not matter for a difference of one")
    found = compare_output(
        "counts", actual, Expected(wanted.astype(np.int64), np.zeros(wanted.shape)), generous, 0x5B
    )
    assert (found.mismatch is None) == bool((off == 0).all())
    if found.mismatch:
        assert found.mismatch.wrong_count == int((off != 0).sum())


@given(st.data(), st.sampled_from(["float64", "float32", "float16", "int32", "int64", "uint8"]))
def test_tensors_are_compared_like_arrays(data, dtype):
    shape = data.draw(SHAPES)
    whole = not dtype.startswith("float")
    wanted = data.draw(npst.arrays(np.int64 if whole else np.float64, shape, elements=st.integers(0, 100)))
    scale = data.draw(npst.arrays(np.float64, shape, elements=st.floats(0, 1000)))
    errors = [0, 0, 0, 1, 27] if whole else [0, 0, 0, 1e-4, 0.1, -2.0, math.nan, math.inf]
    off = data.draw(npst.arrays(wanted.dtype, shape, elements=st.sampled_from(errors)))
    actual = (wanted + off).astype(dtype)
    ours = compare_output("y", actual, Expected(wanted, scale), TOLERANCE, 0x00)
    tensors = Expected(torch.from_numpy(wanted), torch.from_numpy(scale))
    assert compare_output("y", torch.from_numpy(actual), tensors, TOLERANCE, 0x00) == ours
    assert np.array_equal(is_poison(torch.from_numpy(actual), 0x00).numpy(), is_poison(actual, 0x00))


@given(npst.arrays(np.float64, SHAPES, elements=st.integers(-100, 100)), st.data())
def test_bfloat16_is_compared_like_the_float32_that_it_is(wanted, data):
    off = data.draw(npst.arrays(np.float64, wanted.shape, elements=st.sampled_from([0, 0, 0, 1.0, math.nan])))
    actual = torch.from_numpy(wanted + off).to(torch.bfloat16)
    expected = Expected(torch.from_numpy(wanted), torch.ones((), dtype=torch.float64))
    found = compare_output("y", actual, expected, TOLERANCE, 0x5B)
    same = Expected(wanted, np.ones(()))
    assert found == compare_output("y", actual.to(torch.float32).numpy(), same, TOLERANCE, 0x5B)
    assert (found.mismatch is None) == bool((off == 0).all())


def test_a_bfloat16_that_was_never_written_is_told():
    actual = torch.tensor([1.0, 0.0, 2.0]).to(torch.bfloat16)
    actual[1:2].view(torch.uint8)[:] = 0x5B
    expected = Expected(torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64), torch.ones(3, dtype=torch.float64))
    mismatch = compare_output("y", actual, expected, TOLERANCE, 0x5B).mismatch
    assert mismatch.pattern == "only element 1 is wrong; it was never written"
    assert is_poison(actual, 0x5B).tolist() == [False, True, False]


def test_without_another_run_nothing_is_said_to_be_unwritten():
    actual = np.array([1.0, np.nan], np.float32)
    actual[1:].view(np.uint8)[:] = 0xFF  # as arithmetic on what is undefined leaves it
    found = unconfirmed(compare_output("y", actual, Expected(np.ones(2), np.ones(2)), TOLERANCE, 0xFF))
    assert found.mismatch.pattern == "only the last element is wrong; it holds undefined memory"


def test_integers_beyond_float64_are_told_apart():
    wanted = np.array([2**62, 2**62 + 1])
    for actual in (wanted + np.array([0, 1]), torch.from_numpy(wanted + np.array([0, 1]))):
        value = wanted if isinstance(actual, np.ndarray) else torch.from_numpy(wanted)
        found = compare_output("counts", actual, Expected(value, 0 * value), Tolerance(0.0, 0.0, "exact"), 0x5B)
        assert (found.mismatch.index, found.mismatch.wrong_count) == ((1,), 1)


@pytest.mark.parametrize(
    ("values", "nature"),
    [
        ([0x5B5B5B5B, 0x5B5B5B5B], "none of them was ever written"),
        ([0x5B5B5B5B, 0x3F000000], "1 of them were never written"),
        ([0x7FC00000, 0x7FC00000], "all of them are NaN"),
        ([0x7F800000, 0x3F000000], "NaN or infinite"),
        ([0, 0], "all of them are 0"),
    ],
)
def test_what_the_wrong_elements_have_in_common(values, nature):
    actual = np.array([0x3F800000, *values], np.uint32).view(np.float32)
    mismatch = compare_output("y", actual, Expected(np.ones(3), np.ones(3)), TOLERANCE, 0x5B).mismatch
    assert nature in mismatch.pattern
    assert mismatch.wrong_count == 2


@given(st.integers(1, 500), st.data())
def test_a_run_of_wrong_elements_is_named_exactly(total, data):
    first = data.draw(st.integers(0, total - 1))
    last = data.draw(st.integers(first, total - 1))
    wrong = np.zeros(total, bool)
    wrong[first : last + 1] = True
    told, count = where_wrong(wrong), last - first + 1
    if count == total:
        assert told.startswith("all") or told == "the only element is wrong"
    elif last == total - 1:
        assert told == (
            f"only the last {count} of {total} elements are wrong" if count > 1 else "only the last element is wrong"
        )
    elif first == 0:
        assert told == (
            f"only the first {count} of {total} elements are wrong" if count > 1 else "only element 0 is wrong"
        )
    else:
        assert numbers(told) == ([first, last, total] if count > 1 else [first])


@given(st.integers(2, 40), st.integers(3, 20), st.integers(0, 30), st.integers(0, 30))
def test_a_stride_is_named_exactly(step, count, first, behind):
    last = first + (count - 1) * step
    wrong = np.zeros(last + 1 + behind, bool)
    wrong[first : last + 1 : step] = True
    told = where_wrong(wrong)
    assert numbers(told) == [step, first, last, count, wrong.size]
    assert re.search(r"every \d*(1st|2nd|3rd|[04-9]th|1[123]th) element", told)


@given(st.integers(2, 12), st.integers(2, 12), st.integers(0, 1), st.data())
def test_whole_rows_and_columns_are_named_exactly(rows, cols, axis, data):
    extent = (rows, cols)[axis]
    first = data.draw(st.integers(0, extent - 1))
    last = data.draw(st.integers(first, extent - 1))
    wrong = np.zeros((rows, cols), bool)
    wrong[(slice(None),) * axis + (slice(first, last + 1),)] = True
    told, name = where_wrong(wrong), ("row", "column")[axis]
    if last - first + 1 == extent:
        assert told == f"all {wrong.size} elements are wrong"
    elif first == last:
        assert told == f"only {name} {first} of {extent} is wrong, all of it"
    else:
        assert told == f"all of the {name}s {first} to {last} of {extent} are wrong, the others right"


@given(MASKS)
def test_any_pattern_is_described_without_a_wrong_number(wrong):
    """Whatever the words are, their numbers are true: counts, extents and places that are really wrong."""
    told, flat = where_wrong(wrong), np.flatnonzero(wrong)
    assert told
    if match := re.search(r"^(\d+) of (\d+) elements are wrong", told):
        assert (int(match[1]), int(match[2])) == (len(flat), wrong.size)
        assert numbers(told)[2:] == [int(i) for i in np.argwhere(wrong)[0]]
    if match := re.search(r"elements? (\d+) to (\d+)", told):
        assert wrong.reshape(-1)[int(match[1]) : int(match[2]) + 1].all()


@given(MASKS)
def test_the_heat_of_a_small_output_shows_every_element(wrong):
    grid = np.array(heat(wrong))
    assert ((grid >= 0) & (grid <= 1)).all()
    assert max(grid.shape) <= 48
    if wrong.ndim == 1:
        assert grid.sum() == wrong.sum()
    elif wrong.size // wrong.shape[-1] <= 48:
        assert np.array_equal(grid, wrong.reshape(-1, wrong.shape[-1]))


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_the_heat_of_a_large_output_keeps_the_sum(rows, cols, share, seed):
    wrong = np.random.default_rng(seed).random((rows, cols)) < share
    grid = np.array(heat(wrong))
    assert grid.shape == (min(rows, 48), min(cols, 48))
    edges = [np.linspace(0, n, min(n, 48) + 1).astype(int) for n in (rows, cols)]
    weights = np.outer(*(np.diff(edge) for edge in edges))
    assert (grid * weights).sum() == pytest.approx(wrong.sum(), abs=1e-4 * wrong.size)


def test_a_ratio_to_nothing_is_not_told():
    # Of a problem with several outputs the allowance of whole numbers is the tiny one that its floats have at 0.
    tiny = Tolerance(1e-6, 1.17549e-38, "for the test")
    for actual, wanted, scale in (
        (np.array([7, 2]), np.array([43, 2]), 0.0),
        (np.array([0.5, 1.0]), np.array([0.0, 1.0]), np.array([0.0, 1.0])),
    ):
        found = compare_output("y", actual, Expected(wanted, np.asarray(scale)), tiny, 0x5B).mismatch
        assert in_words(found, tiny).endswith(f"expected {wanted[0]:g}, and must be exact.")
    near = compare_output("y", np.array([1.1]), Expected(np.array([1.0]), np.array([1.0])), tiny, 0x5B).mismatch
    assert "times the allowed error" in in_words(near, tiny)


def test_what_the_least_scale_refuses_is_held_against_the_whole_wherever_it_is_looked_at():
    asked = []

    def whole():
        asked.append(1)
        return Expected(np.zeros(6), np.full(6, 100.0))

    least = Expected(np.zeros(6), np.zeros(6), whole=whole)
    tolerance = Tolerance(1e-3, 1e-9, "of a test")
    off, wrong = np.full(6, 0.05, np.float32), np.full(6, 0.5, np.float32)
    places = np.array([1, 4])
    for answer, right in ((np.zeros(6, np.float32), True), (off, True), (wrong, False)):
        found = (
            compare_output("y", answer, least, tolerance, 0xFF),
            compare_output("y", answer.reshape(2, 3), least.shaped((2, 3)), tolerance, 0xFF),
            compare_elements("y", (6,), places, answer[places], least.at(places), tolerance, 0xFF),
        )
        assert [one.mismatch is None for one in found] == [right] * 3
    assert len(asked) == 6  # not for what is right by the least


def leaning(actual, wanted):
    tolerance = Tolerance(1e-9, 0.0, "for the test")
    return compare_output("y", actual.astype(np.float32), Expected(wanted, np.abs(wanted)), tolerance, 0xFF).leaning


def test_errors_that_are_one_share_of_the_answer_are_told_from_those_that_scatter():
    rng = np.random.default_rng(3)
    rows, bias = rng.standard_normal((64, 100)), rng.uniform(-0.5, 0.5, 100)
    variances = rows.var(axis=1, keepdims=True)
    answer = rows / np.sqrt(variances + 1e-5) + bias
    assert -0.0006 < leaning(rows / np.sqrt(variances + 1e-3) + bias, answer) < -0.0004
    assert leaning(answer * 1.01, answer) == pytest.approx(0.01, rel=1e-4)
    assert leaning(answer.astype(np.float16), answer) is None
    assert leaning(np.abs(answer).astype(np.float16), np.abs(answer)) is None


def test_errors_of_a_few_large_elements_lean_nowhere():
    answer = np.ones(1000)
    answer[:5] = 1e6
    assert leaning(answer * (1 + 1e-3), answer) is None
    assert leaning(np.full(15, 1.01), np.ones(15)) is None
    assert leaning(np.full(16, 1.01), np.ones(16)) == pytest.approx(0.01, rel=1e-4)
    assert leaning(np.full(16, np.inf), np.ones(16)) is None
