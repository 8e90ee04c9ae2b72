"""reduce_sum, row_sum, prefix_sum and histogram: oracles, every order of summation, tolerances and probes."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.error_bounds import EPSILON
from evaluator.problems.families.reduction import HISTOGRAM, REDUCE_SUM, ROW_SUM
from evaluator.problems.families.scan import PREFIX_SUM
from evaluator.problems.linter import keep_bits, within

F = np.float32
SUMS = (REDUCE_SUM, ROW_SUM, PREFIX_SUM)


def sequential(x):
    return np.cumsum(x, axis=-1, dtype=F)[..., -1]


def pairwise(x):
    while x.shape[-1] > 1:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, x.shape[-1] % 2)])
        x = x[..., ::2] + x[..., 1::2]
    return x[..., 0]


def strided(x, threads=256):
    """Each of 256 threads sums every 256th element, then a tree over the threads."""
    x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, -x.shape[-1] % threads)])
    return pairwise(np.cumsum(x.reshape(*x.shape[:-1], -1, threads), axis=-2, dtype=F)[..., -1, :])


def shuffled(x):
    """Atomics: one after another in an order that nobody chose."""
    return sequential(np.random.default_rng(9).permutation(x, axis=-1))


ORDERS = {
    "sequential": sequential,
    "backwards": lambda x: sequential(x[..., ::-1]),
    "pairwise": pairwise,
    "strided": strided,
    "shuffled": shuffled,
}


def chunked_scan(x, chunk=64):
    """Scan each chunk, scan the chunks' sums, add."""
    padded = np.pad(x, (0, -len(x) % chunk)).reshape(-1, chunk)
    inside = np.cumsum(padded, axis=1, dtype=F)
    before = np.concatenate([[F(0)], np.cumsum(inside[:-1, -1], dtype=F)])
    return (inside + before[:, None]).reshape(-1)[: len(x)]


def doubling_scan(x):
    """Hillis and Steele: log2(n) rounds."""
    offset = 1
    while offset < len(x):
        x = np.concatenate([x[:offset], x[offset:] + x[:-offset]])
        offset *= 2
    return x


def subtracting_scan(*chunks):
    """What is before each chunk: the sum that includes it, minus its own. Innermost first: threads, warps, blocks."""

    def scan(x):
        if not chunks:
            return doubling_scan(x)
        padded = np.pad(x, (0, -len(x) % chunks[0])).reshape(-1, chunks[0])
        inside = np.cumsum(padded, axis=1, dtype=F)
        own = inside[:, -1]
        before = subtracting_scan(*chunks[1:])(own) - own
        return (inside + before[:, None]).reshape(-1)[: len(x)]

    return scan


SCANS = {
    "sequential": lambda x: np.cumsum(x, dtype=F),
    "chunked": chunked_scan,
    "doubling": doubling_scan,
    "subtracting threads": subtracting_scan(4),
    "subtracting blocks": subtracting_scan(1024),
    "subtracting all": subtracting_scan(8, 32, 8),
}


def honest(problem, way):
    if problem is PREFIX_SUM:
        return lambda inputs, sizes: {"y": SCANS[way](inputs["x"])}
    output = problem.outputs[0].name
    return lambda inputs, sizes: {output: np.atleast_1d(ORDERS[way](inputs["x"]))}


CASES = [(p, way) for p in SUMS for way in (SCANS if p is PREFIX_SUM else ORDERS)]


@pytest.mark.parametrize("problem", SUMS, ids=lambda p: p.id)
def test_oracle_against_fractions(problem):
    generator = np.random.default_rng(1)
    for n in (1, 2, 13):
        sizes = dict.fromkeys(problem.sizes, 3) | {problem.sizes[-1]: n}
        for distribution in problem.distributions:
            inputs = distribution.draw(NumpyRng(generator), sizes)
            expected = problem.oracle(inputs, sizes)[problem.outputs[0].name]
            for row, values in enumerate(np.atleast_2d(inputs["x"]).tolist()):
                terms = [Fraction(value) for value in values]
                ends = range(1, n + 1) if problem is PREFIX_SUM else [n]
                for place, end in enumerate(ends, start=row):
                    norm = math.sqrt(sum(term * term for term in [*terms[:end], sum(terms[:end])]))
                    assert expected.scale[place] == pytest.approx(norm, rel=1e-12)
                    assert abs(expected.value[place] - float(sum(terms[:end]))) <= 1e-14 * norm


def test_histogram_oracle_against_counting():
    for distribution in HISTOGRAM.distributions:
        values = distribution.draw(NumpyRng(np.random.default_rng(2)), {"n": 777})["values"]
        counts = HISTOGRAM.oracle({"values": values}, {"n": 777})["counts"].value
        assert counts.tolist() == [values.tolist().count(value) for value in range(256)]


@pytest.mark.parametrize(("problem", "way"), CASES, ids=lambda value: getattr(value, "id", value))
def test_every_order_of_summation_passes_every_trial(problem, way, failed_trials):
    assert failed_trials(problem, honest(problem, way)) == []


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 5000), seed=st.integers(0, 2**32 - 1), case=st.sampled_from(CASES))
def test_every_order_of_summation_passes_at_any_size(n, seed, case):
    problem, way = case
    sizes = dict.fromkeys(problem.sizes, 2) | {problem.sizes[-1]: n}
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(seed)), sizes)
        expected = problem.oracle(inputs, sizes)
        actual = honest(problem, way)(inputs, sizes)
        for output in expected:
            assert within(actual[output], expected[output], problem.tolerance), distribution.name


def test_a_chain_of_a_million_additions_passes():
    sizes = {"n": 1 << 20}
    for distribution in REDUCE_SUM.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(4)), sizes)
        expected = REDUCE_SUM.oracle(inputs, sizes)["total"]
        assert within(np.atleast_1d(sequential(inputs["x"])), expected, REDUCE_SUM.tolerance), distribution.name


def test_a_difference_of_longer_sums_fails(failed_trials):
    def from_the_end(inputs, sizes):
        total = sequential(inputs["x"])
        return {"y": total - np.append(np.cumsum(inputs["x"][:0:-1], dtype=F)[::-1], F(0))}

    assert any("few_matter" in trial for trial in failed_trials(PREFIX_SUM, from_the_end))


def test_sums_of_many_elements_reach_as_far_as_those_of_few():
    """Above a million elements the oracle goes piece by piece; what a chunk may add may lie in the next piece."""
    x = np.full(5 << 18, 2.0**-30, F)
    x[[0, 3000, (1 << 20) + 5000]] = 1.0, 2.0**20, 2.0**40
    before = np.array([(1 << 20) + 4999, 2999, 1500, 1499, (1 << 19) + 2500, (1 << 19) + 2499])
    sizes = {"n": x.size}
    some = PREFIX_SUM.oracle_at({"x": x}, sizes, {"y": before})["y"]
    whole = PREFIX_SUM.oracle({"x": x}, sizes)["y"].at(before)
    of_large = 12 * EPSILON * np.sqrt(2) * np.array([2.0**40, 2.0**20])
    for found in (some, whole):
        assert found.beyond[[0, 1]] == pytest.approx(of_large, rel=1e-2)
        assert found.beyond[[2, 3]] == pytest.approx([of_large[1], 0.0], rel=1e-3)
        assert found.beyond[4] == pytest.approx(of_large[0], rel=1e-2)
        assert found.beyond[5] < 1e-3 * of_large[0]


@pytest.mark.parametrize("problem", SUMS, ids=lambda p: p.id)
def test_lower_precision_inside_fails_the_probes(problem, lower_precision, failed_trials):
    """Terms rounded once and added exactly: the best that a lower precision can do."""

    def compute(inputs, sizes):
        value = problem.oracle({"x": lower_precision(inputs["x"])}, sizes)
        return {name: expected.value for name, expected in value.items()}

    failed = failed_trials(problem, compute)
    for probe in problem.probes:
        assert f"{probe.distribution.name} at {dict(probe.sizes)}" in failed
    assert any(trial.startswith("normal") for trial in failed)


@pytest.mark.parametrize("bits", [7, 10], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("problem", SUMS, ids=lambda p: p.id)
def test_a_result_kept_in_lower_precision_fails(problem, bits, failed_trials):
    def compute(inputs, sizes):
        return {name: keep_bits(e.value, bits) for name, e in problem.oracle(inputs, sizes).items()}

    assert failed_trials(problem, compute)


@pytest.mark.parametrize("problem", [*SUMS, HISTOGRAM], ids=lambda p: p.id)
def test_guesses_fail(problem, passing_guesses):
    assert passing_guesses(problem) == []


@pytest.mark.parametrize(
    ("problem", "wrong"),
    [
        (REDUCE_SUM, lambda i: i["x"][: len(i["x"]) // 32 * 32].sum(keepdims=True)),
        (REDUCE_SUM, lambda i: np.abs(i["x"]).sum(keepdims=True)),
        (ROW_SUM, lambda i: i["x"][:, : max(1, i["x"].shape[1] // 32 * 32)].sum(axis=1)),
        (ROW_SUM, lambda i: np.resize(i["x"].sum(axis=0), len(i["x"]))),
        (PREFIX_SUM, lambda i: np.cumsum(i["x"].astype(float)) - i["x"]),
        (
            PREFIX_SUM,
            lambda i: np.concatenate([np.cumsum(c) for c in np.array_split(i["x"], 1 + len(i["x"]) // 999)]),
        ),
        (HISTOGRAM, lambda i: np.bincount(i["values"], minlength=256) % 65536),
        (HISTOGRAM, lambda i: np.minimum(np.bincount(i["values"], minlength=256), 2048)),
        (HISTOGRAM, lambda i: np.bincount(i["values"][: len(i["values"]) // 4 * 4], minlength=256)),
    ],
    ids=[
        *(
            "tail dropped",
            "absolute values",
            "row tail dropped",
            "columns for rows",
            "exclusive",
            "chunks not joined",
        ),
        *("16-bit counts", "float16 counts", "histogram tail dropped"),
    ],
)
def test_near_misses_fail(problem, wrong, failed_trials):
    output = problem.outputs[0].name
    assert failed_trials(problem, lambda inputs, sizes: {output: wrong(inputs)})


@pytest.mark.parametrize("name", ["normal", "constant_rows"])
def test_adding_the_longest_vector_in_order_passes(name):
    (distribution,) = (d for d in PREFIX_SUM.distributions if d.name == name)
    sizes = dict(PREFIX_SUM.serves.most)
    inputs = distribution.draw(NumpyRng(np.random.default_rng(4)), sizes)
    sums = np.cumsum(inputs["x"], dtype=F)
    places = np.concatenate([np.arange(100), np.linspace(100, sizes["n"] - 1, 1000, dtype=np.int64)])
    assert within(sums[places], PREFIX_SUM.oracle_at(inputs, sizes, {"y": places})["y"], PREFIX_SUM.tolerance)
    assert within(sums[-1:], REDUCE_SUM.oracle(inputs, sizes)["total"], REDUCE_SUM.tolerance)
