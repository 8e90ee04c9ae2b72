"""What drawing inputs and computing answers asks of a device: counted on the host, where torch does the same."""

import collections
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from evaluator.backends.gpu.tensors import TorchRng
from evaluator.problems import structured
from evaluator.problems.arrays import to_numpy
from evaluator.problems.catalogue import problems
from evaluator.stages.verify.trial_contents import TrialContents
from evaluator.stages.verify.trials import PlannedTrial

WAITS = {
    *("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "unique_dim"),
    *("unique_consecutive", "bincount", "repeat_interleave", "allclose"),
}
"""Whose result, or its size, the host has to know: it waits until a device has done all before."""
VIEWS = {
    *("view", "slice", "select", "expand", "unsqueeze", "permute", "transpose", "alias", "detach", "_unsafe_view"),
    *("squeeze", "t", "as_strided", "split", "lift_fresh"),
}


class Operations(TorchDispatchMode):
    """Counts what a device would be asked for, and what the host would wait for."""

    def __init__(self):
        super().__init__()
        self.asked, self.calls, self.waits = 0, 0, collections.Counter()

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.overloadpacket.__name__
        self.calls += 1
        self.asked += name not in VIEWS
        masked = name.startswith("index") and any(
            one is not None and one.dtype is torch.bool for one in (args[1] if isinstance(args[1], list) else ())
        )
        if masked or (name in WAITS and not (name == "repeat_interleave" and "output_size" in (kwargs or {}))):
            self.waits[name] += 1
        return operation(*args, **(kwargs or {}))


def test_a_wait_is_counted():
    with Operations() as counted:
        values = torch.arange(5)
        values[values > 2].sum().item()
    assert counted.waits.total() == 2
    assert counted.asked >= 5


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_nobody_waits_for_contents_and_answers(problem, monkeypatch):
    """They are queued behind the run before, while the host does something else.

    A number that is made an array of is copied from the host: torch then waits for all before, too.
    """
    made = torch.asarray

    def asarray(thing, *arguments, **more):
        assert isinstance(thing, torch.Tensor | np.ndarray), f"{thing} is sent to the device"
        return made(thing, *arguments, **more)

    monkeypatch.setattr(torch, "asarray", asarray)
    sizes = {name: min(size, 40) for name, size in problem.example_sizes[0].items()}
    for distribution in problem.every_distribution:
        with Operations() as counted:
            problem.oracle(distribution.draw(TorchRng(1, "cpu"), sizes), sizes)
        assert not counted.waits, distribution.name


@pytest.mark.parametrize("shape", [(1 << 20,), (48, 3000)])
def test_special_parts_are_few_operations_on_a_device(shape):
    """What is drawn for a stretch of 1,024 is drawn on the host: it took 111 operations that had next to nothing to
    do, most of what all contents of an evaluation took.
    """
    with Operations() as counted:
        values = structured.special_parts(True, 1e3)(TorchRng(5, "cpu"), shape)
    assert counted.asked <= 20
    assert counted.calls <= 40
    found = to_numpy(values).reshape(-1)
    assert (found == 0).any()
    assert (abs(found) > 100).any()


def test_a_small_trial_crosses_the_bus_once_with_its_inputs_and_once_with_its_answer():
    """Seven times before, for the two vectors and the five parts of what is expected of a sum of products."""
    problem = problems()["matvec"]
    trial = PlannedTrial({"m": 20, "k": 20}, problem.distributions[0], problem.tolerance, False)
    moves = []

    class Moved(TorchRng):
        def taken(self, *arrays):
            moves.append(len(arrays))
            return super().taken(*arrays)

    contents = TrialContents(problem, Moved(1, "cpu"), 0xFF)
    inputs = contents.inputs(trial)
    wanted = contents.wanted(trial, SimpleNamespace(buffers=()), inputs)
    assert moves[0] == 2
    assert len(moves) == 2
    expected = problem.oracle({name: to_numpy(array) for name, array in inputs.items()}, trial.sizes)
    for name, parts in expected.items():
        for part in ("value", "scale", "relative", "longer", "beyond"):
            found = getattr(wanted.expected[name], part)
            assert np.array_equal(np.asarray(found), np.asarray(getattr(parts, part))), part


@pytest.mark.parametrize("shape", [(0,), (0, 4), (), (3,)])
def test_arrays_without_elements_cross_the_bus_too(shape):
    arrays = [np.ones(shape, dtype) for dtype in (np.float32, np.int64)]
    for moved, array in zip(TorchRng(1, "cpu").taken(*arrays), arrays, strict=True):
        assert np.array_equal(to_numpy(moved), array)
        assert to_numpy(moved).dtype == array.dtype


def test_a_mixture_asks_a_device_for_half_of_what_it_did():
    """827 operations for two vectors once: some 4 ms of the referee's time for each of five trials."""
    problem = problems()["vector_add"]
    mixture = next(one for one in problem.every_distribution if one.role == "mixed")
    with Operations() as counted:
        mixture.draw(TorchRng(3, "cpu"), {"n": 1 << 20})
    assert counted.asked < 290


def test_a_row_of_many_sorted_stretches_takes_two_sorts():
    with Operations() as counted:
        values = structured.ordered(TorchRng(3, "cpu"), (2, 70 * 1024 + 5))
    assert counted.asked <= 14
    for row in to_numpy(values):
        rising = row if row[0] < row[1023] else row[::-1]
        assert all((np.diff(rising[at : at + 1024]) >= 0).all() for at in range(0, rising.size, 1024))


def test_what_is_kept_is_taken_once():
    taken = []

    class Counted(TorchRng):
        def taken(self, *arrays):
            taken.append(len(arrays))
            return super().taken(*arrays)

    rng = Counted(3, "cpu")
    for _ in range(3):
        structured.special_parts(True, 1e3)(rng, (5000,))
    assert taken == [2, 2, 1, 2, 2]


def test_uniform_values_and_signs_fill_their_ranges():
    rng = TorchRng(11, "cpu")
    values, signs = rng.uniform(-3.0, 5.0, (100_000,)), rng.signs((100_000,))
    assert values.dtype == signs.dtype == torch.float64
    assert -3.0 <= float(values.min()) < -2.99
    assert 4.99 < float(values.max()) < 5.0
    assert set(signs.unique().tolist()) == {-1.0, 1.0}
    assert abs(float(signs.mean())) < 0.02
    assert abs(float(values.mean()) - 1.0) < 0.05
