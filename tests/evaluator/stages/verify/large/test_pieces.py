"""Contents of large inputs: pieces that no usual step repeats, and the whole tensor in the memory of the piece."""

from dataclasses import replace

import numpy as np
import pytest

from common.wire import DType
from evaluator.problems.arrays import NumpyRng
from evaluator.problems.catalogue import find_problem, problems
from evaluator.stages.launch.checked_plan import BufferFacts
from evaluator.stages.verify.large.pieces import Piece, draw_pieces


def facts_at(problem, sizes):
    return tuple(BufferFacts(t.name, "input", t.dtype, t.shape_at(sizes)) for t in problem.inputs)


def drawn(problem, seed=1):
    inputs = facts_at(problem, problem.timing_sizes)
    rng = NumpyRng(np.random.default_rng(seed))
    contents = problem.mixture or problem.distributions[0]
    return inputs, draw_pieces(inputs, contents, rng, problem, problem.timing_sizes)


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_the_inputs_of_the_timed_size_are_drawn_in_pieces(problem):
    inputs, pieces = drawn(problem)
    for facts in inputs:
        piece = pieces[facts.name]
        assert piece.shape == facts.shape
        assert piece.content.dtype == np.dtype(facts.dtype.value)
        assert piece.repeats == (facts.size_bytes > piece.content.nbytes)
        if piece.repeats:
            assert piece.content.nbytes % 4096 == 0
            assert 1 << 20 <= piece.content.nbytes <= 8 << 20
            first, pages = piece.stretches.T
            assert piece.content.nbytes + 4096 * pages.sum() >= facts.size_bytes
            assert (first + pages <= piece.content.nbytes // 4096).all()


@pytest.mark.parametrize("name", ["vector_add", "linear_gelu", "swiglu", "attention"])
def test_hardly_more_is_drawn_than_the_pieces_hold(name):
    """Nor are all inputs drawn again for one of them (a bias) that has an element for each row of another one."""
    problem = find_problem(name)
    contents, bytes_drawn = problem.mixture or problem.distributions[0], []

    def draw(rng, sizes):
        found = contents.draw(rng, sizes)
        bytes_drawn.append(sum(content.nbytes for content in found.values()))
        return found

    inputs = facts_at(problem, problem.timing_sizes)
    rng = NumpyRng(np.random.default_rng(1))
    pieces = draw_pieces(inputs, replace(contents, draw=draw), rng, problem, problem.timing_sizes)
    assert sum(bytes_drawn) < 1.1 * sum(piece.content.nbytes for piece in pieces.values())


@pytest.mark.parametrize("problem", ["gelu", "matmul", "softmax", "transpose", "attention"])
def test_no_distance_leads_from_an_element_to_an_equal_one(problem):
    """So an index that wraps reads other values, and an input does not show that it was drawn in pieces."""
    _, pieces = drawn(find_problem(problem))
    (piece, *_) = pieces.values()
    flat = piece.tensor().reshape(-1)
    places = np.random.default_rng(2).integers(0, flat.size // 2, 2000)
    places = places[(flat[places] != 0) & (flat[places] != flat[places - 1])]  # not of parts that are all alike
    for distance in (*(1 << power for power in range(5, 23)), *(pages * 1024 for pages in range(240, 2000, 7))):
        if distance < flat.size // 2:
            assert (flat[places] == flat[places + distance]).mean() < 0.5, distance


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


def test_behind_the_piece_come_stretches_of_it():
    content = np.random.default_rng(3).standard_normal(5 * 1024).astype(np.float32)
    stretches = np.array([[3, 2], [0, 1], [1, 4]])
    tensor = Piece(content, (11 * 1024 + 5,), stretches).tensor()
    parts = (content, content[3 * 1024 :], content[:1024], content[1024:])
    assert np.array_equal(tensor, np.concatenate(parts)[: tensor.size])


def test_of_a_tensor_that_is_smaller_nothing_repeats():
    content = np.arange(12, dtype=np.int32)
    piece = Piece(content, (3, 4))
    assert not piece.repeats
    buffer = piece.buffer(BufferFacts("x", "input", DType.INT32, (3, 4)))
    assert not buffer.repeats
    assert not buffer.sampled
    assert piece.tensor().tolist() == content.reshape(3, 4).tolist()
