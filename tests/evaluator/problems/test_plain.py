"""Plain contents: what they are, and that no honest kernel is wrong on them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.contract import Settings
from common.wire import DType
from evaluator.pipeline.build import build
from evaluator.pipeline.stage_values import SubmittedSource
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem, problems
from evaluator.problems.plain import IN_WORDS, SIMPLEST_FIRST, contents
from evaluator.problems.problem import Distribution, Tensor
from evaluator.stages.verify.trials import PlannedTrial
from evaluator.stages.verify.verification import verify

X = Tensor("x", ("n",))


def test_they_are_what_they_are_called():
    assert contents(X, {"n": 3}, "zeros").tolist() == [0, 0, 0]
    assert contents(X, {"n": 3}, "ones").tolist() == [1, 1, 1]
    assert contents(X, {"n": 8}, "ramp").tolist() == [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 0.25]
    assert contents(X, {"n": 3}, "one").tolist() == [1, 0, 0]
    assert contents(Tensor("x", ("n",), DType.INT32), {"n": 8}, "ramp").tolist() == [1, 2, 3, 4, 5, 6, 7, 1]
    with pytest.raises(ValueError, match="distribution"):
        contents(X, {"n": 3}, "drawn")
    assert set(IN_WORDS) == {*SIMPLEST_FIRST, "drawn"}


@given(st.integers(1, 5000), st.sampled_from(SIMPLEST_FIRST), st.sampled_from([DType.FLOAT32, DType.INT32]))
def test_they_are_finite_and_do_not_change_with_the_size(n, content, dtype):
    tensor = Tensor("x", ("n", "2"), dtype)
    made = contents(tensor, {"n": n}, content)
    assert made.shape == (n, 2)
    assert made.dtype == np.dtype(dtype.value)
    assert np.isfinite(made).all()
    assert np.abs(made).max() <= (255 if dtype is DType.INT32 else 1.75)
    again = contents(tensor, {"n": n + 1}, content)
    assert (made.reshape(-1) == again.reshape(-1)[: 2 * n]).all()


def test_scrambled_values_fill_their_range():
    values = contents(X, {"n": 4096}, "scrambled")
    assert -1 <= values.min() < -0.99
    assert 0.99 < values.max() < 1
    assert abs(values.mean()) < 0.05
    assert len(np.unique(values)) > 4000


@pytest.mark.parametrize("name", problems())
def test_the_naive_kernel_is_right_on_each_of_them(name, toolbox):
    problem, settings = find_problem(name), Settings()
    built = build(SubmittedSource(problem, problem.naive.source.encode(), None, settings, "sm_80"), toolbox)
    sizes = dict.fromkeys(problem.sizes, 33 if len(problem.sizes) < 4 else 5)

    def plain(content):
        def draw(rng, at):
            return {tensor.name: contents(tensor, at, content) for tensor in problem.inputs}

        return Distribution(content, "", draw)

    trials = [PlannedTrial(sizes, plain(content), problem.tolerance, True) for content in SIMPLEST_FIRST]
    with toolbox.simulator.prepare(built.program, settings) as session:
        verified = verify(built.checked_plan, session, settings, NumpyRng(np.random.default_rng(1)), trials)
    assert verified.ruling is None, verified.ruling
