"""Which elements of a large output are compared: what nobody wrote, where kernels err, and some of every part."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.backends.session import BufferFill, KernelLaunch
from evaluator.problems.problem import Expected, Tolerance
from evaluator.stages.verify.comparison import compare_elements
from evaluator.stages.verify.large.spread_elements import spread_elements, strides_of, written_elements

SHAPES = st.lists(st.integers(1, 60), min_size=1, max_size=3).filter(lambda shape: prod(shape) > 1)
EXACT = Tolerance(0.0, 0.0, "every bit")


@given(shape=SHAPES, data=st.data(), most=st.integers(8, 300), seed=st.integers(0, 99))
def test_a_region_that_nobody_wrote_is_found_wherever_it_lies(shape, data, most, seed):
    count = prod(shape)
    first = data.draw(st.integers(0, count - 1))
    length = data.draw(st.integers(1, count - first))
    memory = np.ones(count, np.float32)
    memory[first : first + length].view(np.uint8)[:] = 0xFF
    unwritten = np.isnan(memory)
    chosen = spread_elements(shape, (32, 256), most, np.random.default_rng(seed), unwritten)
    expected = Expected(np.ones(chosen.size), np.zeros(chosen.size))
    found = compare_elements("y", tuple(shape), chosen, memory[chosen], expected, EXACT, 0xFF, int(unwritten.sum()))
    assert found.mismatch is not None
    assert found.mismatch.wrong_count == length
    assert np.ravel_multi_index(found.mismatch.index, shape) in range(first, first + length)
    place = tuple(map(int, np.unravel_index(first, shape)))
    assert found.mismatch.pattern.endswith(f"the first at {place if len(place) > 1 else place[0]}")


@given(shape=SHAPES, most=st.integers(8, 300), seed=st.integers(0, 99))
def test_the_elements_are_of_the_output_sorted_and_no_more_than_asked_for(shape, most, seed):
    chosen = spread_elements(shape, (32,), most, np.random.default_rng(seed))
    assert chosen.dtype == np.int64
    assert (np.diff(chosen) > 0).all()
    assert chosen[0] >= 0
    assert chosen[-1] < prod(shape)
    assert chosen.size == prod(shape) if prod(shape) <= most else chosen.size <= most


@pytest.mark.parametrize("shape", [(1 << 24,), (4096, 4096), (16, 2048, 64)])
def test_ends_powers_of_two_blocks_and_every_part_are_among_them(shape):
    count = prod(shape)
    step = KernelLaunch("k", (count // 128, 1, 1), (128, 1, 1), 0, False, ())
    chosen = set(spread_elements(shape, strides_of((step,)), 4096, np.random.default_rng(1)).tolist())
    corners = {0, count - 1}
    powers = {(1 << power) + off for power in range(5, 20) for off in (-1, 0, 1)}
    blocks = {128 * 65_535, 128 * 65_536} if count > 128 * 65_536 else {128}
    assert corners | powers | blocks <= chosen
    parts = np.bincount(np.array(sorted(chosen)) * 1000 // count, minlength=1000)
    assert parts.all()


def test_of_what_a_few_blocks_wrote_only_that_is_compared():
    unwritten = np.ones(10_000, bool)
    unwritten[300:400] = False
    assert written_elements(unwritten, 10_000, 1000, np.random.default_rng(1)).tolist() == list(range(300, 400))
    some = written_elements(unwritten, 10_000, 10, np.random.default_rng(1))
    assert some.size == 10
    assert ((some >= 300) & (some < 400)).all()


def test_fills_have_no_blocks():
    assert strides_of((BufferFill("y", b"\0"),)) == ()
