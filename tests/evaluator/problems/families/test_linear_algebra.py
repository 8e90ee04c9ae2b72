import numpy as np
import pytest
from scipy.special import erf, erfc

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.families.linear_algebra import LINEAR_GELU, MATMUL, MATMUL_F16, MATVEC, PROBLEMS
from evaluator.problems.linter import keep_bits, lint, within

FLOAT32_PROBLEMS = (MATVEC, MATMUL, LINEAR_GELU)
BY_ID = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.id)


def sequential(a, b):
    """One accumulator, terms in order."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for at in range(a.shape[1]):
        total += a[:, at, None] * b[None, at]
    return total


def backwards(a, b):
    return sequential(a[:, ::-1], b[::-1])


def strided(a, b):
    """32 accumulators, each of every 32nd term, joined as a tree: what a warp does."""
    lanes = [sequential(a[:, lane::32], b[lane::32]) for lane in range(32)]
    while len(lanes) > 1:
        lanes = [left + right for left, right in zip(lanes[::2], lanes[1::2], strict=True)]
    return lanes[0]


def chunked(a, b):
    """Tiles of 16 terms, each summed apart and then added."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for at in range(0, a.shape[1], 16):
        total += sequential(a[:, at : at + 16], b[at : at + 16])
    return total


def library(a, b):
    return a @ b


def split_in_three(a, b):
    """Three bfloat16 numbers for each operand, as fast emulations of float32 do; all nine products kept."""
    total = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for left in parts(a):
        for right in parts(b):
            total += left @ right
    return total


def parts(values):
    rest = values.astype(np.float64)
    for _ in range(3):
        part = keep_bits(rest, 7)
        rest = rest - part
        yield part.astype(np.float32)


HONEST = (sequential, backwards, strided, chunked, library)


def kernel(problem, product, prepare=lambda name, values: values):
    """What a kernel for `problem` gives that multiplies with `product` operands that went through `prepare`."""

    def compute(inputs, sizes):
        of = {name: prepare(name, values) for name, values in inputs.items()}
        if problem is MATVEC:
            return {"y": product(of["a"], of["x"][:, None])[:, 0]}
        if problem is LINEAR_GELU:
            return {"y": gelu(product(of["x"], of["weight"].T) + of["bias"])}
        return {"c": product(of["a"], of["b"]).astype(problem.outputs[0].dtype.value)}

    return compute


def gelu(z):
    """As a kernel computes it, in the precision of `z`."""
    half, root = z.dtype.type(0.5), z.dtype.type(np.sqrt(0.5))
    return half * z * (1 + erf(z * root))


@BY_ID
def test_problem_is_well_made(problem):
    assert lint(problem) == ()


@pytest.mark.parametrize("product", HONEST)
@pytest.mark.parametrize("problem", FLOAT32_PROBLEMS, ids=lambda problem: problem.id)
def test_float32_in_any_order_passes(problem, product, failed_trials):
    assert failed_trials(problem, kernel(problem, product)) == []


@pytest.mark.parametrize("problem", [MATVEC, MATMUL], ids=lambda problem: problem.id)
def test_float32_out_of_three_bfloat16_passes(problem, failed_trials):
    assert failed_trials(problem, kernel(problem, split_in_three)) == []


@pytest.mark.parametrize("problem", FLOAT32_PROBLEMS, ids=lambda problem: problem.id)
def test_long_chains_pass(problem):
    sizes = {"m": 9, "n": 7, "k": 4096}
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(3)), sizes)
        expected = problem.oracle(inputs, sizes)
        for name, actual in kernel(problem, sequential)(inputs, sizes).items():
            assert within(actual, expected[name], problem.tolerance), distribution.name


@pytest.mark.parametrize("which", ["both", 0, 1])
@pytest.mark.parametrize("problem", FLOAT32_PROBLEMS, ids=lambda problem: problem.id)
def test_lower_precision_of_an_operand_fails_the_probes(problem, which, lower_precision, failed_trials):
    chosen = {problem.inputs[at].name for at in ((0, 1) if which == "both" else (which,))}

    def prepare(name, values):
        return lower_precision(values) if name in chosen else values.astype(np.float64)

    failed = " ".join(failed_trials(problem, kernel(problem, library, prepare)))
    rounded = [problem.inputs[at].name for at in (0, 1) if problem.inputs[at].name in chosen]
    assert "one_term" in failed
    assert f"exact_sums_{rounded[0]}" in failed


@pytest.mark.parametrize("problem", FLOAT32_PROBLEMS, ids=lambda problem: problem.id)
def test_lower_precision_of_the_accumulator_fails(problem, lower_precision, failed_trials):
    def product(a, b):
        total = np.zeros((a.shape[0], b.shape[1]))
        for at in range(a.shape[1]):
            total = lower_precision(total + a[:, at, None].astype(np.float64) * b[None, at])
        return total

    failed = " ".join(failed_trials(problem, kernel(problem, product)))
    assert "exact_sums" in failed
    assert "normal" in failed


def test_tanh_approximation_of_gelu_fails(failed_trials):
    def compute(inputs, sizes):
        z = (inputs["x"] @ inputs["weight"].T + inputs["bias"]).astype(np.float64)
        return {"y": z / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3)))}

    failed = " ".join(failed_trials(LINEAR_GELU, compute))
    assert "one_term" in failed
    assert "around_zero" in failed


@pytest.mark.parametrize("mistake", ["no bias", "no gelu"])
def test_half_of_linear_gelu_fails(mistake, failed_trials):
    def compute(inputs, sizes):
        z = inputs["x"] @ inputs["weight"].T
        return {"y": gelu(z) if mistake == "no bias" else z + inputs["bias"]}

    assert "normal" in " ".join(failed_trials(LINEAR_GELU, compute))


def widened(product):
    return kernel(MATMUL_F16, product, lambda name, values: values.astype(np.float32))


@pytest.mark.parametrize("product", HONEST)
def test_matmul_f16_passes_with_float32_sums(product, failed_trials):
    assert failed_trials(MATMUL_F16, widened(product)) == []


def f16_chunks(length):
    """Sums in float16 over `length` terms, and of those in float32."""

    def product(a, b):
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for at in range(0, a.shape[1], length):
            chunk = np.zeros(total.shape, np.float16)
            for term in range(at, min(at + length, a.shape[1])):
                chunk += a[:, term, None].astype(np.float16) * b[None, term].astype(np.float16)
            total += chunk
        return total

    return product


@pytest.mark.parametrize("length", [1 << 20, 16, 4])
def test_matmul_f16_fails_with_float16_sums(length, failed_trials):
    assert "lost_partials" in " ".join(failed_trials(MATMUL_F16, widened(f16_chunks(length))))


def test_matmul_f16_fails_with_bfloat16_operands(failed_trials):
    failed = failed_trials(MATMUL_F16, kernel(MATMUL_F16, library, lambda name, values: keep_bits(values, 7)))
    assert "lost_partials" in " ".join(failed)
    assert "normal" in " ".join(failed)


@BY_ID
def test_guesses_fail(problem, passing_guesses):
    assert passing_guesses(problem) == []


@BY_ID
def test_swapped_or_shifted_operands_fail(problem, failed_trials):
    if problem is MATVEC:
        mistakes = [lambda a, b: np.roll(a, 1, axis=0) @ b, lambda a, b: a[:, :-1] @ b[:-1]]
    else:
        mistakes = [
            lambda a, b: np.resize(b.T, a.shape) @ np.resize(a.T, b.shape),
            lambda a, b: np.roll(a @ b, 1, axis=1),
            lambda a, b: a[:, :-1] @ b[:-1],
            lambda a, b: np.where(np.arange(a.shape[0])[:, None] < a.shape[0] // 32 * 32, a @ b, 0),
        ]
    for mistake in mistakes:
        prepared = kernel(problem, mistake, lambda name, values: values.astype(np.float32))
        assert "normal" in " ".join(failed_trials(problem, prepared))


def slow_value(problem, inputs, index):
    """One element with its terms, by the statement's own words."""
    if problem is MATVEC:
        terms = [float(p) * float(q) for p, q in zip(inputs["a"][index[0]], inputs["x"], strict=True)]
    elif problem is LINEAR_GELU:
        pairs = zip(inputs["x"][index[0]], inputs["weight"][index[1]], strict=True)
        terms = [float(p) * float(q) for p, q in pairs] + [float(inputs["bias"][index[1]])]
    else:
        pairs = zip(inputs["a"][index[0]], inputs["b"][:, index[1]], strict=True)
        terms = [float(p) * float(q) for p, q in pairs]
    value = sum(terms)
    scale = sum(term**2 for term in [*terms, value]) ** 0.5
    if problem is LINEAR_GELU:
        value = value * erfc(-value / 2**0.5) / 2
    return value, scale


@BY_ID
def test_oracle_agrees_with_loops(problem):
    sizes = {name: size for name, size in {"m": 3, "n": 4, "k": 5}.items() if name in problem.sizes}
    for distribution in problem.distributions:
        inputs = distribution.draw(NumpyRng(np.random.default_rng(1)), sizes)
        ((_, expected),) = problem.oracle(inputs, sizes).items()
        for index in np.ndindex(expected.value.shape):
            value, scale = slow_value(problem, inputs, index)
            assert expected.value[index] == pytest.approx(value, rel=1e-12, abs=1e-13 * scale)
            assert expected.scale[index] == pytest.approx(scale, rel=1e-12)


def test_lost_partials_are_exact_in_float16():
    for sizes in ({"m": 5, "n": 6, "k": 513}, {"m": 2, "n": 3, "k": 1}):
        inputs = MATMUL_F16.probes[0].distribution.draw(NumpyRng(np.random.default_rng(2)), sizes)
        value = MATMUL_F16.oracle(inputs, sizes)["c"].value
        assert (value.astype(np.float16) == value).all()
        assert sizes["k"] == 1 or np.abs(value).max() > 0


@pytest.mark.parametrize("problem", [MATVEC, MATMUL, MATMUL_F16], ids=lambda problem: problem.id)
def test_adding_the_longest_sums_in_order_passes(problem):
    """The plainest loop of all, at the end of the range."""
    sizes = dict.fromkeys(problem.sizes, 3) | {"k": problem.serves.most["k"]}
    for distribution in problem.distributions:
        if distribution.role == "structured":
            continue  # drawn at hidden sizes alone: of so many terms float16 could not hold the sum
        inputs = distribution.draw(NumpyRng(np.random.default_rng(3)), sizes)
        left, right = (array.astype(np.float32) for array in inputs.values())
        terms = left[:, :, None] * right.reshape(sizes["k"], -1)[None]
        total = np.cumsum(terms, axis=1, dtype=np.float32)[:, -1]
        ((_, expected),) = problem.oracle(inputs, sizes).items()
        actual = total.astype(inputs["a"].dtype).reshape(expected.value.shape)
        assert within(actual, expected, problem.tolerance), distribution.name
