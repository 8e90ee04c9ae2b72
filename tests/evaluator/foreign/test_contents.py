"""Contents of the inputs of problems of others: within the range of the file's own draws, on numpy and on torch."""

import numpy as np
import pytest

from common.wire import DType
from evaluator.backends.gpu.tensors import TorchRng
from evaluator.foreign.contents import distributions_of, where_answered
from evaluator.foreign.description import DrawnAs, TensorFacts
from evaluator.problems.arrays import NumpyRng, Rng, to_numpy

SHAPE = (8, 300)
UNIFORM, NORMAL = DrawnAs("uniform", low=0.1, high=0.7), DrawnAs("normal")


def rng_of(kind: str) -> Rng:
    return TorchRng(3, "cpu") if kind == "torch" else NumpyRng(np.random.default_rng(3))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [DType.FLOAT32, DType.FLOAT16])
def test_all_that_is_drawn_lies_within_the_range(kind: str, dtype: DType) -> None:
    facts = (
        TensorFacts("x", dtype, SHAPE, UNIFORM, "argument"),
        TensorFacts("order", DType.INT64, (50,), DrawnAs("permutation"), "argument"),
        TensorFacts("table", DType.FLOAT32, (2,), DrawnAs("called"), "buffer"),
    )

    def called(seed: int, names: object, sizes: object) -> dict[str, object]:
        assert 0 <= seed < 1 << 63
        return {"table": np.array([3.0, 4.0], np.float32)}

    for one in distributions_of(facts, lambda sizes: facts, called):
        drawn = {name: to_numpy(values) for name, values in one.draw(rng_of(kind), {}).items()}
        assert drawn["x"].shape == SHAPE
        assert drawn["x"].dtype == np.dtype(dtype.value)
        assert float(drawn["x"].min()) >= float(np.dtype(dtype.value).type(0.1))
        assert float(drawn["x"].max()) < 0.7
        assert sorted(drawn["order"]) == list(range(50))
        assert list(drawn["table"]) == [3.0, 4.0]


@pytest.mark.parametrize("draw", [UNIFORM, NORMAL])
def test_a_sum_in_order_of_few_values_is_exact(draw: DrawnAs) -> None:
    facts = (TensorFacts("x", DType.FLOAT32, (20, 4096), draw, "argument"),)
    few = next(one for one in distributions_of(facts, lambda sizes: facts, lambda *_: {}) if one.name == "few_values")
    values = few.draw(rng_of("numpy"), {})["x"]
    assert len(np.unique(values)) <= 4
    sums = np.add.accumulate(values, axis=1, dtype=np.float32)[:, -1]
    assert np.array_equal(sums, values.astype(np.float64).sum(axis=1))


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_whole_numbers_are_at_their_ends_and_many_are_equal(kind: str) -> None:
    draw = DrawnAs("integers", low=0, high=30521)
    facts = (TensorFacts("ids", DType.INT64, (64, 32), draw, "argument"),)
    found = {
        one.name: to_numpy(one.draw(rng_of(kind), {})["ids"])
        for one in distributions_of(facts, lambda sizes: facts, lambda *asked: {})
    }
    assert list(found) == ["as_drawn", "whole_numbers_at_ends", "few_whole_numbers"]
    for values in found.values():
        assert values.shape == (64, 32)
        assert values.dtype == np.int64
        assert values.min() >= 0
        assert values.max() <= 30521
    for name in ("whole_numbers_at_ends", "few_whole_numbers"):
        assert {0, 30521} <= set(found[name].ravel().tolist())
    assert len(set(found["few_whole_numbers"].ravel().tolist())) <= 4


def test_where_equal_values_have_no_order_none_are_made_equal() -> None:
    facts = (TensorFacts("x", DType.FLOAT32, SHAPE, NORMAL, "argument"),)
    names = [one.name for one in distributions_of(facts, lambda sizes: facts, lambda *asked: {}, with_ties=False)]
    assert names == ["as_drawn", "sorted_stretches", "several_scales"]


@pytest.mark.parametrize(
    "draw", [NORMAL, DrawnAs("uniform", low=0.0, high=1.0), DrawnAs("uniform", low=1.0, high=2.0)]
)
@pytest.mark.parametrize("shape", [(262144,), (300, 4096), (7,), (5, 1)])
def test_no_element_at_an_end_is_small_beside_a_long_sum(draw: DrawnAs, shape: tuple[int, ...]) -> None:
    facts = (TensorFacts("x", DType.FLOAT32, shape, draw, "argument"),)
    far = next(one for one in distributions_of(facts, lambda sizes: facts, lambda *_: {}) if one.name == "few_far")
    values = np.abs(to_numpy(far.draw(rng_of("numpy"), {})["x"])).astype(np.float64)
    nearest = 1.0 if draw.low == 1.0 else 0.0
    rows = values.reshape(-1, shape[-1]) - nearest
    assert (rows[:, [0, -1]].min(axis=1) >= rows.sum(axis=1) / 100).all()
    assert rows[-1, -1] >= rows.sum() / 1000
    assert rows.max() >= 0.5


@pytest.mark.parametrize("shape", [(3, 32 * 400 + 7), (4, 64), (2, 5)])
def test_a_row_of_many_stretches_is_sorted_in_two_calls(
    shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 2^24 elements there are half a million stretches, each of which a GPU would be asked for."""
    facts = (TensorFacts("x", DType.FLOAT32, shape, NORMAL, "argument"),)
    made = {one.name: one for one in distributions_of(facts, lambda sizes: facts, lambda *_: {})}
    plain = to_numpy(made["as_drawn"].draw(rng_of("numpy"), {})["x"])
    calls, own = [], np.sort
    monkeypatch.setattr(np, "sort", lambda *given, **how: calls.append(1) or own(*given, **how))
    found = to_numpy(made["sorted_stretches"].draw(rng_of("numpy"), {})["x"])
    assert len(calls) <= 2
    pieces = [own(plain[:, at : at + 32], axis=-1) for at in range(0, shape[1], 32)]
    assert np.array_equal(found, np.concatenate(pieces, axis=-1))


def test_of_draws_without_an_answer_again_and_again_the_typical_one_is_drawn() -> None:
    facts = (TensorFacts("x", DType.FLOAT32, (8, 300), DrawnAs("normal"), "argument"),)
    distributions = distributions_of(facts, lambda sizes: facts, lambda *_: {})
    typical, *others = where_answered(distributions, lambda inputs, sizes: False)
    wanted = typical.draw(NumpyRng(np.random.default_rng(3)), {})["x"]
    assert wanted.std() == pytest.approx(1.0, abs=0.1)
    for one in others:
        assert len(np.unique(one.draw(NumpyRng(np.random.default_rng(3)), {})["x"])) > 2000
