"""Contents of large inputs: pieces that no usual step repeats, and the whole tensor in the memory of the piece."""

import numpy as np
import pytest

from common.wire import DType
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import problems
from evaluator.stages.launch.checked_plan import BufferFacts
from evaluator.stages.verify.large.pieces import Piece, draw_pieces


def facts_at(problem, sizes):
    return tuple(BufferFacts(t.name, "input", t.dtype, t.shape_at(sizes)) for t in problem.inputs)


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_the_inputs_of_the_timed_size_are_drawn_in_pieces(problem):
    inputs = facts_at(problem, problem.timing_sizes)
    rng = NumpyRng(np.random.default_rng(1))
    pieces = draw_pieces(inputs, problem.distributions[0], rng, problem.example_sizes[0])
    for facts in inputs:
        piece = pieces[facts.name]
        assert piece.shape == facts.shape
        assert piece.content.dtype == np.dtype(facts.dtype.value)
        assert piece.repeats == (facts.size_bytes > piece.content.nbytes)
        if piece.repeats:
            assert piece.content.nbytes % 4096 == 0
            assert 1 << 20 < piece.content.nbytes < 3 << 19
        # An index that wraps at a power of two, or a row of such a length, comes to another value.
        for power in range(5, 24):
            step = (1 << power) * (piece.content.size > 1 << power or piece.repeats)
            places = np.arange(0, 1000) % piece.content.size
            if step and step % piece.content.size:
                same = piece.content[places] == piece.content[(places + step) % piece.content.size]
                assert same.mean() < 0.5, (facts.name, power)


@pytest.mark.parametrize("shape", [(5, 263 * 1024), (263 * 1024 * 2 + 17,), (3, 100_000)])
def test_the_whole_tensor_is_the_piece_again_and_again(shape):
    content = np.random.default_rng(2).standard_normal(263 * 1024).astype(np.float32)
    tensor = Piece(content, shape).tensor()
    assert np.array_equal(tensor, np.resize(content, shape))
    with pytest.raises(ValueError, match="read-only"):
        tensor[0] = 1
    rows = tensor[1:] if len(shape) > 1 else tensor[17:]
    del tensor  # what is looked at stays as long as someone looks
    assert np.isfinite(rows).all()


def test_of_a_tensor_that_is_smaller_nothing_repeats():
    content = np.arange(12, dtype=np.int32)
    piece = Piece(content, (3, 4))
    assert not piece.repeats
    buffer = piece.buffer(BufferFacts("x", "input", DType.INT32, (3, 4)))
    assert not buffer.repeats
    assert not buffer.sampled
    assert piece.tensor().tolist() == content.reshape(3, 4).tolist()
