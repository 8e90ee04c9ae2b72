"""The range of sizes that a kernel must serve."""

from dataclasses import FrozenInstanceError

import pytest

from evaluator.problems.problem import SizeRange, Tensor

MATRIX = SizeRange({"rows": 1000, "cols": 40}, (Tensor("x", ("rows", "cols")), Tensor("y", ("rows + 2",))), 20_000)
PLANES = SizeRange({"batch": 9, "channels": 9}, products={"batch * channels": 50})


@pytest.mark.parametrize(
    ("sizes", "admitted"),
    [
        ({"rows": 1, "cols": 1}, True),
        ({"rows": 1000, "cols": 20}, True),
        ({"rows": 500, "cols": 40}, True),
        ({"rows": 501, "cols": 40}, False),
        ({"rows": 1001, "cols": 1}, False),
        ({"rows": 1, "cols": 41}, False),
        ({"rows": 0, "cols": 1}, False),
        ({"rows": 1}, False),
        ({"rows": 1, "cols": 1, "more": 1}, False),
    ],
)
def test_a_range_admits_what_no_size_and_no_tensor_exceeds(sizes, admitted):
    assert MATRIX.admits(sizes) is admitted


def test_a_range_admits_what_no_product_exceeds():
    assert PLANES.admits({"batch": 5, "channels": 9})
    assert not PLANES.admits({"batch": 6, "channels": 9})


def test_a_range_is_said_in_words_without_what_follows():
    assert MATRIX.text == "rows from 1 to 1,000, cols from 1 to 40; at most 20,000 elements in a tensor"
    assert PLANES.text == "batch from 1 to 9, channels from 1 to 9; batch * channels at most 50"
    small = SizeRange({"n": 1 << 25}, (Tensor("x", ("n",)),))
    assert small.text == "n from 1 to 33,554,432"
    with pytest.raises(FrozenInstanceError):
        small.most = {}
