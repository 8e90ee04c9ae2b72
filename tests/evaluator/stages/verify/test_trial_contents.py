"""Contents of trials: where they are drawn, in which order, and that an answer belongs to its inputs."""

import numpy as np
import pytest
import torch

from common.contract import Settings
from common.wire import DType
from evaluator.backends.gpu.tensors import TorchRng
from evaluator.problems.arrays import NumpyRng, cast, to_numpy
from evaluator.problems.catalogue import problems
from evaluator.stages.verify.comparison import compare_output
from evaluator.stages.verify.trial_contents import TrialContents
from evaluator.stages.verify.trials import plan_trials


class _Plan:
    """A sized plan without outputs, whose shapes do not matter here."""

    buffers = ()


def trials_of(problem, most=12):
    return plan_trials(problem, Settings(), np.random.default_rng(5))[:most]


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_small_trials_are_as_right_as_large_ones(problem):
    """What the oracle says of inputs that were drawn on the host is what it says of their copies on the device."""
    contents = TrialContents(problem, TorchRng(3, "cpu"), 0xFF)
    trials = trials_of(problem)
    for number, trial in enumerate(trials):
        inputs = contents.inputs(trial, trials[number + 1 : number + 2])
        assert all(isinstance(array, torch.Tensor) for array in inputs.values())
        wanted = contents.wanted(trial, _Plan, inputs)
        there = problem.oracle(inputs, trial.sizes, **trial.scalars)
        for tensor in problem.outputs:
            expected, other = wanted.expected[tensor.name], there[tensor.name]
            assert expected.value.dtype == other.value.dtype
            shape = tensor.shape_at(trial.sizes)
            value = torch.broadcast_to(expected.value, shape)
            near = torch.broadcast_to(other.value, shape)
            assert (
                torch.allclose(value.double(), near.double(), rtol=1e-9, atol=0, equal_nan=True)
                or ((value - near).abs() <= 1e-6 * torch.as_tensor(trial.tolerance.allowed(other))).all()
            )
            exact = value.to(getattr(torch, tensor.dtype.value))
            ours = compare_output(tensor.name, exact, expected, trial.tolerance, 0xFF)
            theirs = compare_output(tensor.name, exact, other, trial.tolerance, 0xFF)
            assert (ours.mismatch is None) == (theirs.mismatch is None)


@pytest.mark.parametrize("make", [lambda: NumpyRng(np.random.default_rng(7)), lambda: TorchRng(7, "cpu")])
def test_drawing_ahead_changes_no_contents(make):
    problem = problems()["row_sum"]
    trials = trials_of(problem, 30)
    ahead, one_by_one = TrialContents(problem, make(), 0xFF), TrialContents(problem, make(), 0xFF)
    for number, trial in enumerate(trials):
        following = trials[number + 1 : number + 2 + number % 4]  # some of which are there already
        first, second = ahead.inputs(trial, following), one_by_one.inputs(trial)
        ahead.wanted(trial, _Plan, first)
        for name, array in first.items():
            assert np.array_equal(np.asarray(array), np.asarray(second[name])), number


def test_a_trial_that_was_not_announced_is_drawn_when_it_comes():
    problem = problems()["relu"]
    first, second, third = trials_of(problem, 3)
    contents = TrialContents(problem, TorchRng(1, "cpu"), 0xFF)
    inputs = contents.inputs(first, [second])
    contents.wanted(first, _Plan, inputs)
    other = contents.inputs(third)
    assert other["x"].shape == problem.inputs[0].shape_at(third.sizes)
    expected = contents.wanted(third, _Plan, other).expected["y"]
    assert torch.equal(expected.value, other["x"].double().clamp(min=0))


@pytest.mark.parametrize("dtype", list(DType))
def test_arrays_of_every_type_are_taken_as_they_are(dtype):
    values = np.arange(6).reshape(2, 3)
    near = cast(values.astype(np.float64) if dtype.is_float else values, dtype)
    odd = np.arange(7, dtype=np.int8)  # what comes behind it begins at a place of its own
    first, taken, nothing, number = TorchRng(1, "cpu").taken(
        odd, np.broadcast_to(near[:, :1], (2, 3)), np.zeros((0, 4)), np.float64(2.5)
    )
    assert first.tolist() == odd.tolist()
    assert (tuple(nothing.shape), tuple(number.shape), float(number)) == ((0, 4), (), 2.5)
    assert taken.data_ptr() % 16 == first.data_ptr() % 16
    assert str(taken.dtype) == f"torch.{dtype.value}"
    assert taken.is_contiguous()
    assert to_numpy(taken).astype(np.float64).tolist() == [[0.0, 0.0, 0.0], [3.0, 3.0, 3.0]]
