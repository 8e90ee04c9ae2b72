import math

import numpy as np
import pytest

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.families.attention import ATTENTION
from evaluator.problems.linter import lint, within


def plain(q, k, v):
    """All scores at once, in the precision of the operands."""
    scores = q @ k.swapaxes(1, 2) / np.sqrt(q.dtype.type(q.shape[2]))
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    return powers / powers.sum(axis=2, keepdims=True) @ v


def sequential(q, k, v):
    """One accumulator for each score, each sum of powers and each element, terms in order."""
    heads, seq, dim = q.shape
    scores = np.zeros((heads, seq, seq), q.dtype)
    for d in range(dim):
        scores += q[:, :, None, d] * k[:, None, :, d]
    scores /= np.sqrt(q.dtype.type(dim))
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    total = np.zeros((heads, seq, 1), q.dtype)
    o = np.zeros_like(q)
    for key in range(seq):
        total += powers[:, :, key : key + 1]
        o += powers[:, :, key, None] * v[:, None, key]
    return o / total


def online(q, k, v, tile=32):
    """Tiles of keys with a running maximum, q scaled beforehand, powers of two: as fast kernels do."""
    heads, seq, dim = q.shape
    scaled = q * np.float32(1.4426950408889634 / math.sqrt(dim))
    high = np.full((heads, seq, 1), -np.inf, np.float32)
    total = np.zeros((heads, seq, 1), np.float32)
    o = np.zeros_like(q)
    for at in range(0, seq, tile):
        scores = scaled @ k[:, at : at + tile].swapaxes(1, 2)
        top = np.maximum(high, scores.max(axis=2, keepdims=True))
        powers, shrink = np.exp2(scores - top), np.exp2(high - top)
        total = total * shrink + powers.sum(axis=2, keepdims=True)
        o = o * shrink + powers @ v[:, at : at + tile]
        high = top
    return o / total


def kernel(function, prepare=lambda name, values: values):
    return lambda inputs, sizes: {"o": function(*(prepare(name, inputs[name]) for name in ("q", "k", "v")))}


def widened(name, values):
    return values.astype(np.float64)


def test_problem_is_well_made():
    assert lint(ATTENTION) == ()


@pytest.mark.parametrize("function", [plain, sequential, online])
def test_float32_passes(function, failed_trials):
    assert failed_trials(ATTENTION, kernel(function)) == []


def test_long_sequences_summed_in_order_pass():
    sizes = {"heads": 1, "seq": 1000, "dim": 8}
    for distribution in ATTENTION.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(3)), sizes)
        actual = kernel(sequential)(inputs, sizes)["o"]
        assert within(actual, ATTENTION.oracle(inputs, sizes)["o"], ATTENTION.tolerance), distribution.name


@pytest.mark.parametrize("chosen", ["q", "k", "v", "qkv"])
def test_lower_precision_of_an_operand_fails_a_probe(chosen, lower_precision, failed_trials):
    def prepare(name, values):
        return lower_precision(values) if name in chosen else values.astype(np.float64)

    failed = " ".join(failed_trials(ATTENTION, kernel(plain, prepare)))
    assert "one_score_term" in failed
    assert "sharp_score_term" in failed
    assert ("one_key" in failed) == ("v" in chosen)


@pytest.mark.parametrize("place", ["scores", "powers", "answer"])
def test_lower_precision_between_the_products_fails_a_probe(place, lower_precision, failed_trials):
    def function(q, k, v):
        scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2])
        scores = lower_precision(scores) if place == "scores" else scores
        powers = np.exp(scores - scores.max(axis=2, keepdims=True))
        powers = lower_precision(powers) if place == "powers" else powers
        o = powers / powers.sum(axis=2, keepdims=True) @ v
        return lower_precision(o) if place == "answer" else o

    assert "score_term" in " ".join(failed_trials(ATTENTION, kernel(function, widened)))


def test_exp_without_the_maximum_fails(failed_trials):
    def function(q, k, v):
        powers = np.exp(q @ k.swapaxes(1, 2) / np.float32(math.sqrt(q.shape[2])))
        return powers / powers.sum(axis=2, keepdims=True) @ v

    assert "sharp" in " ".join(failed_trials(ATTENTION, kernel(function)))


def causal(q, k, v):
    scores = q @ k.swapaxes(1, 2) / math.sqrt(q.shape[2])
    scores = np.where(np.tri(q.shape[1], dtype=bool), scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=2, keepdims=True))
    return powers / powers.sum(axis=2, keepdims=True) @ v


MISTAKES = {
    "causal": causal,
    "not divided by the root": lambda q, k, v: plain(q * math.sqrt(q.shape[2]), k, v),
    "divided by dim": lambda q, k, v: plain(q / math.sqrt(q.shape[2]), k, v),
    "mean of the values": lambda q, k, v: np.broadcast_to(v.mean(axis=1, keepdims=True), v.shape),
    "last key left out": lambda q, k, v: plain(q, k[:, :-1], v[:, :-1]),
    "first head for all": lambda q, k, v: np.broadcast_to(plain(q[:1], k[:1], v[:1]), q.shape),
    "keys and queries swapped": lambda q, k, v: plain(k, q, v),
    "no remainder": lambda q, k, v: plain(q, k, v) * (np.arange(q.shape[1]) < q.shape[1] // 32 * 32)[:, None],
    "shifted by a row": lambda q, k, v: np.roll(plain(q, k, v), 1, axis=1),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_fail(mistake, failed_trials):
    def function(q, k, v):
        return plain(q, k, v) if q.shape[1] == 1 else MISTAKES[mistake](q, k, v)

    assert "normal" in " ".join(failed_trials(ATTENTION, kernel(function, widened)))


def test_guesses_fail(passing_guesses):
    assert passing_guesses(ATTENTION) == []


def slow_row(q, k, v):
    """One row of one head: elements and scales by loops; `q` is the query, `k` and `v` the head's lists of rows."""
    dim = len(q)
    scores = [math.fsum(x * y for x, y in zip(q, key, strict=True)) / math.sqrt(dim) for key in k]
    pairs = zip(k, scores, strict=True)
    noise = [math.fsum((x * y) ** 2 for x, y in zip(q, key, strict=True)) / dim + s**2 for key, s in pairs]
    powers = [math.exp(score - max(scores)) for score in scores]
    p = [power / math.fsum(powers) for power in powers]
    o = [math.fsum(weight * row[d] for weight, row in zip(p, v, strict=True)) for d in range(dim)]
    scale = []
    for d in range(dim):
        terms = [(weight * row[d]) ** 2 for weight, row in zip(p, v, strict=True)]
        moved = [weight**2 * s * (row[d] ** 2 + o[d] ** 2) for weight, row, s in zip(p, v, noise, strict=True)]
        widest = max(abs(row[d]) for row in v)
        # |v - o| is at most the weight of the other keys times 2 * widest: where one takes all, nothing is moved.
        others = [math.fsum(p[:at] + p[at + 1 :]) for at in range(len(p))]
        narrow = [(weight * rest * 2 * widest) ** 2 * s for weight, rest, s in zip(p, others, noise, strict=True)]
        scale.append(math.sqrt(math.fsum([*terms, min(math.fsum(moved), math.fsum(narrow)), o[d] ** 2])))
    return o, scale


@pytest.mark.parametrize("distribution", ATTENTION.distributions, ids=lambda distribution: distribution.name)
def test_oracle_agrees_with_loops(distribution):
    sizes = {"heads": 2, "seq": 5, "dim": 3}
    inputs = distribution.draw(NumpyRng(np.random.default_rng(1)), sizes)
    expected = ATTENTION.oracle(inputs, sizes)["o"]
    for head in range(2):
        q, k, v = (inputs[name][head].tolist() for name in ("q", "k", "v"))
        for row in range(5):
            values, scale = slow_row(q[row], k, v)
            assert np.allclose(expected.scale[head, row], scale, rtol=1e-9, atol=0)
            assert (np.abs(expected.value[head, row] - values) <= 1e-12 * np.array(scale)).all()
