import math

import numpy as np
import pytest

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.families.normalization import LAYER_NORM, PROBLEMS, RMS_NORM, SOFTMAX
from evaluator.problems.linter import lint, within

BY_ID = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)
F = np.float32
EPS = np.float32(1e-5)
LOG2_E = np.float32(1.4426950408889634)


def sequential_sum(values):
    total = np.zeros(values.shape[0], values.dtype)
    for at in range(values.shape[1]):
        total += values[:, at]
    return total[:, None]


def strided_sum(values):
    """256 accumulators, then a tree: what a block does."""
    padded = np.pad(values, ((0, 0), (0, -values.shape[1] % 256)))
    lanes = np.concatenate([sequential_sum(padded[:, lane::256]) for lane in range(256)], axis=1)
    while lanes.shape[1] > 1:
        lanes = lanes[:, ::2] + lanes[:, 1::2]
    return lanes


SUMS = (sequential_sum, strided_sum, lambda values: values.sum(axis=1, keepdims=True))


def softmax(x, add=sequential_sum):
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return powers / add(powers)


def online_softmax(x, _=None):
    """One pass with a running maximum, then one that writes."""
    high, total = x[:, 0].copy(), np.ones(x.shape[0], x.dtype)
    for at in range(1, x.shape[1]):
        top = np.maximum(high, x[:, at])
        total = total * np.exp(high - top) + np.exp(x[:, at] - top)
        high = top
    return np.exp(x - high[:, None]) * (1 / total)[:, None]


def base_two_softmax(x, add):
    """Powers of two of x * log2(e), scaled before the maximum is taken off."""
    scaled = x * LOG2_E.astype(x.dtype)
    powers = np.exp2(scaled - scaled.max(axis=1, keepdims=True))
    return powers / add(powers)


def layer_norm(x, weight, bias, add=sequential_sum):
    mean = add(x) / x.dtype.type(x.shape[1])
    variance = add((x - mean) ** 2) / x.dtype.type(x.shape[1])
    return (x - mean) * (1 / np.sqrt(variance + x.dtype.type(EPS))) * weight + bias


def welford_layer_norm(x, weight, bias, _=None):
    mean, squares = x[:, 0].copy(), np.zeros(x.shape[0], x.dtype)
    for at in range(1, x.shape[1]):
        step = x[:, at] - mean
        mean += step / x.dtype.type(at + 1)
        squares += step * (x[:, at] - mean)
    rate = 1 / np.sqrt(squares / x.dtype.type(x.shape[1]) + EPS)
    return (x - mean[:, None]) * rate[:, None] * weight + bias


def one_pass_layer_norm(x, weight, bias, add):
    count = x.dtype.type(x.shape[1])
    mean = add(x) / count
    variance = np.maximum(add(x * x) / count - mean * mean, 0)
    return (x - mean) * (1 / np.sqrt(variance + EPS)) * weight + bias


def rms_norm(x, weight, add=sequential_sum):
    return x * (1 / np.sqrt(add(x * x) / x.dtype.type(x.shape[1]) + x.dtype.type(EPS))) * weight


def powf_minus_half(values):
    """powf(values, -0.5f) of --use_fast_math, its logarithm as far off as PTX lets lg2.approx be."""
    return np.exp2(F(-0.5) * (np.log2(values.astype(float)) * (1 + 2.0**-22)).astype(F))


def powf_layer_norm(x, weight, bias, add):
    mean = add(x) / F(x.shape[1])
    return (x - mean) * powf_minus_half(add((x - mean) ** 2) / F(x.shape[1]) + EPS) * weight + bias


def powf_rms_norm(x, weight, add):
    return x * powf_minus_half(add(x * x) / F(x.shape[1]) + EPS) * weight


PLAIN = {"softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm}


def kernel(problem, function, add=sequential_sum, prepare=lambda name, values: values):
    def compute(inputs, sizes):
        return {"y": function(*(prepare(tensor.name, inputs[tensor.name]) for tensor in problem.inputs), add)}

    return compute


@BY_ID
def test_problem_is_well_made(problem):
    assert lint(problem) == ()


@pytest.mark.parametrize("add", SUMS)
@pytest.mark.parametrize(
    ("problem", "function"),
    [
        (SOFTMAX, softmax),
        (SOFTMAX, online_softmax),
        (LAYER_NORM, layer_norm),
        (LAYER_NORM, welford_layer_norm),
        (RMS_NORM, rms_norm),
        (LAYER_NORM, powf_layer_norm),
        (RMS_NORM, powf_rms_norm),
    ],
)
def test_float32_passes(problem, function, add, failed_trials):
    assert failed_trials(problem, kernel(problem, function, add)) == []


def test_softmax_in_powers_of_two_passes(failed_trials):
    assert failed_trials(SOFTMAX, kernel(SOFTMAX, base_two_softmax, strided_sum)) == []


@BY_ID
def test_long_rows_summed_in_order_pass(problem):
    sizes = {"rows": 5, "cols": 4096}
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(3)), sizes)
        actual = kernel(problem, PLAIN[problem.id])(inputs, sizes)["y"]
        assert within(actual, problem.oracle(inputs, sizes)["y"], problem.tolerance), distribution.name


def rounded_inputs():
    for problem in PROBLEMS:
        for tensor in problem.inputs:
            yield pytest.param(problem, tensor.name, id=f"{problem.id}-{tensor.name}")


@pytest.mark.parametrize(("problem", "chosen"), list(rounded_inputs()))
def test_lower_precision_of_an_input_fails_a_probe(problem, chosen, lower_precision, failed_trials):
    def prepare(name, values):
        return lower_precision(values) if name == chosen else values.astype(np.float64)

    failed = failed_trials(problem, kernel(problem, PLAIN[problem.id], SUMS[2], prepare))
    assert any(probe.distribution.name in trial for probe in problem.probes for trial in failed)


@BY_ID
def test_lower_precision_of_the_answer_fails_a_probe(problem, lower_precision, failed_trials):
    def compute(inputs, sizes):
        return {"y": lower_precision(problem.oracle(inputs, sizes)["y"].value)}

    failed = failed_trials(problem, compute)
    assert any(probe.distribution.name in trial for probe in problem.probes for trial in failed)


@BY_ID
def test_sums_in_lower_precision_fail(problem, lower_precision, failed_trials):
    def add(values):
        total = np.zeros(values.shape[0])
        for at in range(values.shape[1]):
            total = lower_precision(total + values[:, at])
        return total[:, None]

    compute = kernel(problem, PLAIN[problem.id], add, lambda name, values: values.astype(np.float64))
    failed = " ".join(failed_trials(problem, compute))
    assert "normal" in failed
    assert "long_rows" in failed


def test_softmax_without_the_maximum_fails(failed_trials):
    def compute(inputs, sizes):
        powers = np.exp(inputs["x"])
        return {"y": powers / powers.sum(axis=1, keepdims=True)}

    failed = " ".join(failed_trials(SOFTMAX, compute))
    assert all(name in failed for name in ("large", "far_up", "far_down"))


def test_softmax_with_the_maximum_of_all_rows_fails(failed_trials):
    def compute(inputs, sizes):
        powers = np.exp(inputs["x"] - inputs["x"].max())
        return {"y": powers / powers.sum(axis=1, keepdims=True)}

    assert "wide" in " ".join(failed_trials(SOFTMAX, compute))


@pytest.mark.parametrize("add", SUMS)
def test_variance_from_squares_in_float32_fails_only_where_it_cancels(add, failed_trials):
    failed = failed_trials(LAYER_NORM, kernel(LAYER_NORM, one_pass_layer_norm, add))
    assert any("far_mean" in trial for trial in failed)
    # `parts`: rows of equal values, but for a few, are far from 0 for their spread.
    cancelling = ("far_mean", "short_rows", "_parts")
    assert [trial for trial in failed if not any(name in trial for name in cancelling)] == []


@pytest.mark.parametrize("mistake", ["no eps", "unbiased", "eps outside the root"])
def test_slips_in_layer_norm_fail(mistake, failed_trials):
    def compute(inputs, sizes):
        x, weight, bias = (inputs[name].astype(np.float64) for name in ("x", "weight", "bias"))
        deviation = x - x.mean(axis=1, keepdims=True)
        variance = (deviation**2).sum(axis=1, keepdims=True) / (x.shape[1] - (mistake == "unbiased"))
        root = np.sqrt(variance + (0 if mistake == "no eps" else EPS))
        if mistake == "eps outside the root":
            root = np.sqrt(variance) + EPS
        return {"y": deviation / root * weight + bias}

    assert failed_trials(LAYER_NORM, compute)


def test_rms_norm_without_eps_fails(failed_trials):
    def compute(inputs, sizes):
        x, weight = (inputs[name].astype(np.float64) for name in ("x", "weight"))
        return {"y": x / np.sqrt((x**2).mean(axis=1, keepdims=True)) * weight}

    assert "tiny" in " ".join(failed_trials(RMS_NORM, compute))


@BY_ID
def test_guesses_fail(problem, passing_guesses):
    assert passing_guesses(problem) == []


@BY_ID
def test_partial_and_misplaced_answers_fail(problem, failed_trials):
    exact = kernel(problem, PLAIN[problem.id], SUMS[2], lambda name, values: values.astype(np.float64))

    def answer(change):
        return lambda inputs, sizes: {"y": change(exact(inputs, sizes)["y"])}

    rows_only = answer(lambda y: np.where(np.arange(y.shape[0])[:, None] < y.shape[0] // 32 * 32, y, 0))
    for mistake in (
        rows_only,
        answer(lambda y: np.roll(y, 1, axis=0)),
        answer(lambda y: np.roll(y, 1, axis=1)),
        answer(lambda y: np.resize(y.T, y.shape)),
    ):
        assert "normal" in " ".join(failed_trials(problem, mistake))


@BY_ID
def test_answers_that_leave_out_the_last_column_fail(problem, failed_trials):
    def prepare(name, values):
        return np.concatenate([values[..., :-1], values[..., -1:] * 0], axis=-1).astype(np.float64)

    failed = failed_trials(problem, kernel(problem, PLAIN[problem.id], SUMS[2], prepare))
    assert "normal" in " ".join(failed)


def slow_row(problem, inputs, row):
    x = [float(value) for value in inputs["x"][row]]
    if problem is SOFTMAX:
        total = math.fsum(math.exp(value - max(x)) for value in x)
        values = [math.exp(value - max(x)) / total for value in x]
        return values, values
    weight = [float(value) for value in inputs["weight"]]
    if problem is RMS_NORM:
        root = math.sqrt(math.fsum(value**2 for value in x) / len(x) + float(EPS))
        values = [value / root * w for value, w in zip(x, weight, strict=True)]
        return values, [abs(value) for value in values]
    bias = [float(value) for value in inputs["bias"]]
    mean = math.fsum(x) / len(x)
    rms = math.sqrt(math.fsum(value**2 for value in x) / len(x))
    root = math.sqrt(math.fsum((value - mean) ** 2 for value in x) / len(x) + float(EPS))
    columns = list(zip(x, weight, bias, strict=True))
    values = [(value - mean) / root * w + b for value, w, b in columns]
    return values, [math.hypot(value / root * w, rms / root * w, b) for value, w, b in columns]


@BY_ID
def test_oracle_agrees_with_loops(problem):
    sizes = {"rows": 4, "cols": 7}
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(1)), sizes)
        expected = problem.oracle(inputs, sizes)["y"]
        for row in range(4):
            values, scale = slow_row(problem, inputs, row)
            assert np.allclose(expected.scale[row], scale, rtol=1e-12, atol=0)
            assert (np.abs(expected.value[row] - values) <= 1e-9 * np.array(scale)).all()


@BY_ID
def test_adding_the_longest_rows_in_order_passes(problem):
    """One thread for each row. Like terms all round the same way: softmax errs by more than short rows may."""
    sizes = {"rows": 2, "cols": problem.serves.most["cols"]}
    compute = {"softmax": softmax, "layer_norm": layer_norm, "rms_norm": rms_norm}[problem.id]
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(7)), sizes)
        expected = problem.oracle(inputs, sizes)["y"]
        assert within(compute(*inputs.values(), last_sum), expected, problem.tolerance), distribution.name


@pytest.mark.parametrize("probe", LAYER_NORM.edge_probes, ids=lambda probe: probe.distribution.name)
def test_welford_in_one_thread_passes_at_the_longest_rows(probe):
    sizes = {"rows": 4, "cols": LAYER_NORM.serves.most["cols"]}
    inputs = probe.distribution.draw(NumpyRng(np.random.default_rng(5)), sizes)
    assert within(welford_layer_norm(*inputs.values()), LAYER_NORM.oracle(inputs, sizes)["y"], probe.tolerance)


def last_sum(values):
    return np.cumsum(values, axis=1, dtype=np.float32)[:, -1:]
