"""Where problems are timed and against what: sizes that fit a GPU, and baselines that compute the same thing."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from evaluator.backends.gpu.tensors import TorchRng, eager
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import problems
from evaluator.problems.families.reduction import REDUCE_SUM
from evaluator.problems.families.scan import PREFIX_SUM
from evaluator.stages.verify.comparison import compare_output

MIB = 1 << 20
EACH = pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
SMALL_OUTPUTS = {"reduce_sum", "row_sum", "histogram", "matvec"}


def total_bytes(tensors, sizes):
    return sum(math.prod(tensor.shape_at(sizes)) * tensor.dtype.size_bytes for tensor in tensors)


@EACH
def test_timing_sizes_take_a_good_part_of_the_memory_bandwidth_and_little_memory(problem):
    sizes = problem.timing_sizes
    assert set(sizes) == set(problem.sizes)
    read, written = total_bytes(problem.inputs, sizes), total_bytes(problem.outputs, sizes)
    assert read <= 512 * MIB
    assert written <= 64 * MIB
    assert read + written >= 16 * MIB
    assert (written >= 4 * MIB) == (problem.id not in SMALL_OUTPUTS)
    assert problem.face.timing_sizes == sizes


@EACH
def test_the_baseline_computes_the_problem(problem):
    """The output's shape and type to the letter, and no more error than a kernel may have."""
    for number, sizes in enumerate(problem.example_sizes[:2]):
        drawn = problem.distributions[0].draw(TorchRng(number, "cpu"), sizes)
        made = eager(problem, drawn, sizes)()
        (output,) = problem.outputs
        assert tuple(made.shape) == output.shape_at(sizes)
        assert made.dtype == getattr(torch, output.dtype.value)
        assert made.is_contiguous()
        expected = problem.oracle(drawn, sizes)[output.name]
        assert compare_output(output.name, made, expected, problem.tolerance, 0x5B).mismatch is None


@EACH
def test_the_baseline_reads_every_input_and_leaves_it_alone(problem):
    sizes, typical = problem.example_sizes[1], problem.distributions[0]
    drawn, others = (typical.draw(TorchRng(seed, "cpu"), sizes) for seed in (1, 2))
    before = {name: tensor.clone() for name, tensor in drawn.items()}
    made = eager(problem, drawn, sizes)()
    assert all(torch.equal(drawn[name], tensor) for name, tensor in before.items())
    assert torch.equal(eager(problem, drawn, sizes)(), made)
    for name in drawn:
        assert not torch.equal(eager(problem, drawn | {name: others[name]}, sizes)(), made)


@pytest.mark.parametrize("problem", [REDUCE_SUM, PREFIX_SUM], ids=lambda problem: problem.id)
def test_one_long_chain_at_the_timing_size_is_still_honest(problem):
    """The naive kernels add all elements to one place: that must stay right where they are timed."""
    for seed in range(3):
        drawn = problem.distributions[0].draw(NumpyRng(np.random.default_rng(seed)), problem.timing_sizes)
        sums = np.cumsum(drawn["x"], dtype=np.float32)
        output = problem.outputs[0].name
        actual = sums if problem is PREFIX_SUM else sums[-1:]
        expected = problem.oracle(drawn, problem.timing_sizes)[output]
        assert compare_output(output, actual, expected, problem.tolerance, 0x5B).mismatch is None


def test_another_computation_is_no_baseline():
    problem = problems()["softmax"]
    drawn = problem.distributions[0].draw(TorchRng(1, "cpu"), problem.example_sizes[1])
    wrong = eager(replace(problem, baseline="torch.softmax(x, dim=0)"), drawn, problem.example_sizes[1])()
    expected = problem.oracle(drawn, problem.example_sizes[1])["y"]
    assert compare_output("y", wrong, expected, problem.tolerance, 0x5B).mismatch is not None
