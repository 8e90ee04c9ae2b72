"""Every problem on numpy and on torch alike: the same answers from the same inputs, and the same kind of inputs."""

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from scipy import special

from common.wire import DType
from evaluator.backends.gpu.tensors import TorchRng
from evaluator.problems import arrays, generators
from evaluator.problems.arrays import NumpyRng, to_numpy
from evaluator.problems.catalogue import problems

DRAWS = [
    pytest.param(problem, distribution, sizes, id=f"{problem.id}-{distribution.name}-{number}")
    for problem in problems().values()
    for number, (distribution, sizes) in enumerate(
        [
            *((distribution, problem.example_sizes[1]) for distribution in problem.distributions),
            *((probe.distribution, probe.sizes) for probe in problem.probes),
            *((probe.distribution, problem.example_sizes[1]) for probe in problem.edge_probes),
            *(((problem.mixture, problem.example_sizes[1]),) if problem.mixture is not None else ()),
        ]
    )
]
SOME = st.lists(st.floats(-40, 40), min_size=1, max_size=30)
RULERS = {"numpy": lambda: NumpyRng(np.random.default_rng(11)), "torch": lambda: TorchRng(11, "cpu")}


def as_tensors(drawn):
    return {name: torch.from_numpy(array) for name, array in drawn.items()}


@pytest.mark.parametrize(("problem", "distribution", "sizes"), DRAWS)
def test_the_oracle_gives_the_same_on_tensors(problem, distribution, sizes):
    drawn = distribution.draw(NumpyRng(np.random.default_rng(5)), sizes)
    ours, theirs = problem.oracle(drawn, sizes), problem.oracle(as_tensors(drawn), sizes)
    assert list(ours) == list(theirs) == [tensor.name for tensor in problem.outputs]
    for name, expected in ours.items():
        assert isinstance(expected.value, np.ndarray)
        assert isinstance(theirs[name].value, torch.Tensor)
        value, scale = to_numpy(theirs[name].value), to_numpy(theirs[name].scale)
        assert value.dtype == expected.value.dtype
        limit = 1e-12 * np.maximum(np.abs(expected.value), expected.scale)
        assert (np.abs(value - expected.value) <= limit).all()
        assert (np.abs(scale - expected.scale) <= 1e-12 * expected.scale).all()


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_the_oracle_stays_on_the_inputs_device(problem):
    """`meta` is a device of torch's that holds shapes only: mixing it with another one is an error."""
    sizes = problem.timing_sizes
    kinds = {tensor.name: getattr(torch, tensor.dtype.value) for tensor in problem.inputs}
    made = {t.name: torch.zeros(t.shape_at(sizes), dtype=kinds[t.name], device="meta") for t in problem.inputs}
    for tensor in problem.outputs:
        expected = problem.oracle(made, sizes)[tensor.name]
        assert expected.value.device.type == expected.scale.device.type == "meta"
        assert tuple(expected.value.shape) == tensor.shape_at(sizes)


@pytest.mark.parametrize(("problem", "distribution", "sizes"), DRAWS)
def test_torch_draws_what_numpy_draws(problem, distribution, sizes):
    """Shapes and types to the letter, contents by their quartiles and their share of zeros and negative values."""
    ours = distribution.draw(NumpyRng(np.random.default_rng(5)), sizes)
    theirs = distribution.draw(TorchRng(6, "cpu"), sizes)
    for tensor in problem.inputs:
        ours_here, theirs_here = ours[tensor.name], theirs[tensor.name]
        assert tuple(theirs_here.shape) == tensor.shape_at(sizes)
        assert theirs_here.dtype == getattr(torch, tensor.dtype.value)
        assert theirs_here.is_contiguous()
        mine, other = ours_here.astype(np.float64), to_numpy(theirs_here).astype(np.float64)
        assert np.isfinite(other).all()
        rows = (
            mine.size
            if distribution.name not in ("constant_rows", "wide", "few_matter", "few_high", "far_below")
            else mine.size // mine.shape[-1]
        )
        if distribution.role != "hostile" or distribution.name in ("one_value", "full_bin", "skewed") or rows < 50:
            continue  # one draw decides about most elements: nothing to compare
        slack = 5 / np.sqrt(rows)
        for count in (lambda a: a == 0, lambda a: a < 0):
            assert np.mean(count(other)) == pytest.approx(np.mean(count(mine)), abs=slack)
        below = [np.mean(other <= np.quantile(mine, share)) for share in (0.25, 0.75)]
        steps = [np.mean(mine <= np.quantile(mine, share)) for share in (0.25, 0.75)]
        assert below == pytest.approx(steps, abs=slack)


@pytest.mark.parametrize("problem", problems().values(), ids=lambda problem: problem.id)
def test_torch_draws_follow_the_seed_alone(problem):
    typical, sizes = problem.distributions[0], problem.example_sizes[1]
    first, again, other = (typical.draw(TorchRng(seed, "cpu"), sizes) for seed in (1, 1, 2))
    for tensor in problem.inputs:
        assert torch.equal(first[tensor.name], again[tensor.name])
        assert not torch.equal(first[tensor.name], other[tensor.name])


@pytest.mark.parametrize("rng", RULERS.values(), ids=RULERS)
def test_dice_draw_what_they_say(rng):
    rng, shape = rng(), (100, 200)
    normal, uniform = to_numpy(rng.normal(shape)), to_numpy(rng.uniform(-1.0, 3.0, shape))
    whole, signs = to_numpy(rng.integers(-2, 2, shape)), to_numpy(rng.signs(shape))
    assert {array.shape for array in (normal, uniform, whole, signs)} == {shape}
    assert {array.dtype for array in (uniform, signs, to_numpy(rng.full((2,), 1)))} == {np.dtype("float64")}
    assert normal.dtype in (np.dtype("float32"), np.dtype("float64"))
    assert {array.dtype for array in (whole, to_numpy(rng.arange(3)))} == {np.dtype("int64")}
    assert normal.mean() == pytest.approx(0, abs=0.04)
    assert (normal**2).mean() == pytest.approx(1, abs=0.06)
    assert (normal**4).mean() == pytest.approx(3, abs=0.4)
    assert -1 <= uniform.min() < -0.99
    assert 2.99 < uniform.max() < 3
    assert uniform.mean() == pytest.approx(1, abs=0.05)
    assert (np.bincount(whole.reshape(-1) + 2) / whole.size).tolist() == pytest.approx([0.2] * 5, abs=0.02)
    assert sorted(set(signs.reshape(-1))) == [-1, 1]
    assert signs.mean() == pytest.approx(0, abs=0.04)
    assert not np.array_equal(to_numpy(rng.normal(shape)), normal)
    assert to_numpy(rng.arange(3)).tolist() == [0, 1, 2]
    assert rng.xp.sum(rng.full((3, 2), 0.5)) == 3


@pytest.mark.parametrize("bits", [13, 23])
def test_fine_values_on_torch_keep_their_bits(bits):
    values = to_numpy(generators.fine(bits)(TorchRng(3, "cpu"), (20_000,)))
    assert np.array_equal(values, values.astype(np.float32))
    assert (np.abs(values * 2.0**bits) % 2 == 1).all()
    signs = to_numpy(generators.signed_zeros()(TorchRng(3, "cpu"), (900,)))
    assert (np.signbit(signs) & (signs == 0)).sum() > 200


@given(SOME)
def test_functions_that_the_standard_lacks_agree_with_scipy(values):
    x = np.array(values)
    for ours, theirs in (
        (arrays.erfc, special.erfc),
        (arrays.sigmoid, special.expit),
        (arrays.normal_below, special.ndtr),
    ):
        wanted = theirs(x)
        assert ours(x) == pytest.approx(wanted, rel=1e-12, abs=1e-300)
        assert to_numpy(ours(torch.from_numpy(x))) == pytest.approx(wanted, rel=1e-12, abs=1e-300)


@given(st.lists(st.integers(-3, 12), min_size=1, max_size=60))
def test_counts_are_a_histogram(values):
    wanted = [values.count(value) for value in range(10)]
    assert arrays.counts(np.array(values, np.int32), 10).tolist() == wanted
    assert arrays.counts(torch.tensor(values, dtype=torch.int32), 10).tolist() == wanted


@settings(max_examples=30)
@given(st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4)), st.integers(0, 3))
def test_a_border_is_zero_around_the_last_two_axes(shape, width):
    inner = np.arange(1.0, 1 + np.prod(shape)).reshape(shape)
    wanted = np.pad(inner, ((0, 0), (width, width), (width, width)))
    assert np.array_equal(arrays.with_border(inner, width), wanted)
    assert np.array_equal(to_numpy(arrays.with_border(torch.from_numpy(inner), width)), wanted)


def test_casting_gives_contiguous_copies():
    for values in (np.arange(6.0).reshape(2, 3).T, torch.arange(6.0).reshape(2, 3).T):
        made = arrays.cast(values, DType.FLOAT32)
        assert np.array_equal(to_numpy(made), [[0, 3], [1, 4], [2, 5]])
        assert to_numpy(made).flags.c_contiguous
        made[0, 0] = 9
        assert values[0, 0] == 0


def test_bfloat16_is_numpys_and_torchs_alike():
    values = [1.0, 1.0 + 2.0**-8 + 2.0**-9, -(2.0**-126), 0.0, -0.0]
    ours, theirs = (arrays.cast(make(values), DType.BFLOAT16) for make in (np.array, torch.tensor))
    assert theirs.dtype == torch.bfloat16
    assert ours.dtype == to_numpy(theirs).dtype == arrays.dtype_in(np, DType.BFLOAT16)
    assert ours.tobytes() == to_numpy(theirs).tobytes()
    assert to_numpy(theirs).tolist() == [1.0, 1.0 + 2.0**-7, -(2.0**-126), 0.0, 0.0]
    for halves in (ours, theirs):
        assert arrays.element_bytes(halves).shape == (5, 2)
    assert arrays.widened(ours).dtype == np.float32
    assert float(arrays.cast(np.array([1e38]), DType.BFLOAT16)[0]) < arrays.largest(DType.BFLOAT16) < 3.4e38


@given(
    npst.arrays(np.float64, 16, elements=st.floats(-1e300, 1e300)), st.sampled_from([np.asarray, torch.from_numpy])
)
@example(np.array([1.0 + 2.0**-8 + 2.0**-40, 1.0 + 2.0**-8 - 2.0**-40, 1.0 + 2.0**-8] + [3.3895e38] * 13), np.asarray)
def test_bfloat16_is_rounded_once_to_nearest_even(values, make):
    """As exact fractions say, where a way through float32 rounds twice."""
    found = to_numpy(arrays.cast(make(values), DType.BFLOAT16)).astype(np.float64)
    for value, rounded in zip(values.tolist(), found.tolist(), strict=True):
        step = 2.0 ** (max(math.frexp(value)[1], -125) - 8)
        exact = round(Fraction(value) / Fraction(step)) * Fraction(step)
        if abs(exact) > Fraction(arrays.largest(DType.BFLOAT16)):
            assert math.isinf(rounded)
            assert rounded * value > 0
        else:
            assert Fraction(rounded) == exact


def test_the_bytes_of_elements_are_those_in_memory():
    values = np.array([[1.5, -2.0], [0.0, 7.0]], np.float32)
    wanted = [[list(value.tobytes()) for value in row] for row in values]
    assert arrays.element_bytes(values).tolist() == wanted
    assert arrays.element_bytes(torch.from_numpy(values)).tolist() == wanted
    assert arrays.element_bytes(values.T)[0, 1].tolist() == list(values[1, 0].tobytes())


def test_the_grader_draws_and_judges_without_torch():
    program = (
        "import sys\n"
        "import numpy as np\n"
        "from evaluator.problems.arrays import NumpyRng\n"
        "from evaluator.problems.catalogue import problems\n"
        "from evaluator.stages.verify.comparison import compare_output\n"
        "for problem in problems().values():\n"
        "    sizes = dict.fromkeys(problem.sizes, 3)\n"
        "    drawn = problem.distributions[0].draw(NumpyRng(np.random.default_rng(1)), sizes)\n"
        "    for name, expected in problem.oracle(drawn, sizes).items():\n"
        "        assert compare_output(name, expected.value, expected, problem.tolerance, 255).mismatch is None\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
