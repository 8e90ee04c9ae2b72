import math

import numpy as np
import pytest

from evaluator.problems.arrays import NumpyRng
from evaluator.problems.families.convolution import CONV2D
from evaluator.problems.linter import lint


def windows(x):
    """The nine shifted images, [9, batch, in_channels, height, width]."""
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.stack([padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)])


def sequential(x, weight):
    """One accumulator in float32: channels, then taps, in order."""
    near = windows(x)
    y = np.zeros((x.shape[0], weight.shape[0], *x.shape[2:]), x.dtype)
    for channel in range(x.shape[1]):
        for tap in range(9):
            y += near[tap, :, channel, None] * weight[None, :, channel, tap // 3, tap % 3, None, None]
    return y


def channels_backwards(x, weight):
    return sequential(x[:, ::-1], weight[:, ::-1])


def as_matrix_product(x, weight):
    """im2col and one product by the library."""
    near = windows(x).transpose(1, 3, 4, 2, 0).reshape(-1, x.shape[1] * 9)
    y = near @ weight.reshape(weight.shape[0], -1).T
    return y.reshape(x.shape[0], *x.shape[2:], -1).transpose(0, 3, 1, 2)


def winograd(x, weight):
    """F(2x2, 3x3) in float32: 4 x 4 tiles, 16 products instead of 36."""
    one = x.dtype.type
    into = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]], x.dtype)
    of_taps = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]], x.dtype)
    back = np.array([[1, 1, 1, 0], [0, 1, -1, -1]], x.dtype)
    height, width = x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1 + height % 2), (1, 1 + width % 2)))
    y = np.zeros((x.shape[0], weight.shape[0], height + 1, width + 1), x.dtype)
    taps = of_taps @ weight @ of_taps.T * one(1)
    for row in range(0, height, 2):
        for column in range(0, width, 2):
            tile = into @ padded[:, :, row : row + 4, column : column + 4] @ into.T
            products = np.einsum("bikl,oikl->bokl", tile, taps)
            y[:, :, row : row + 2, column : column + 2] = back @ products @ back.T
    return y[:, :, :height, :width]


def kernel(function, prepare=lambda name, values: values):
    def compute(inputs, sizes):
        return {"y": function(prepare("x", inputs["x"]), prepare("weight", inputs["weight"]))}

    return compute


def widened(name, values):
    return values.astype(np.float64)


def test_problem_is_well_made():
    assert lint(CONV2D) == ()


@pytest.mark.parametrize("function", [sequential, channels_backwards, as_matrix_product, winograd])
def test_float32_passes(function, failed_trials):
    assert failed_trials(CONV2D, kernel(function)) == []


@pytest.mark.parametrize("chosen", ["x", "weight"])
def test_lower_precision_of_an_operand_fails_every_probe(chosen, lower_precision, failed_trials):
    def prepare(name, values):
        return lower_precision(values) if name == chosen else values.astype(np.float64)

    failed = " ".join(failed_trials(CONV2D, kernel(as_matrix_product, prepare)))
    assert "one_tap " in failed
    assert "one_tap_odd" in failed


def test_lower_precision_of_the_accumulator_fails(lower_precision, failed_trials):
    def function(x, weight):
        near = windows(x)
        y = np.zeros((x.shape[0], weight.shape[0], *x.shape[2:]))
        for channel in range(x.shape[1]):
            for tap in range(9):
                terms = near[tap, :, channel, None] * weight[None, :, channel, tap // 3, tap % 3, None, None]
                y = lower_precision(y + terms)
        return y

    assert "normal" in " ".join(failed_trials(CONV2D, kernel(function, widened)))


def test_guesses_fail(passing_guesses):
    assert passing_guesses(CONV2D) == []


def wrapped_border(x, weight):
    near = np.stack([np.roll(x, (1 - i, 1 - j), axis=(2, 3)) for i in range(3) for j in range(3)])
    return np.einsum("tbihw,oit->bohw", near, weight.reshape(*weight.shape[:2], 9))


MISTAKES = {
    "flipped": lambda x, weight: as_matrix_product(x, weight[:, :, ::-1, ::-1]),
    "taps transposed": lambda x, weight: as_matrix_product(x, weight.swapaxes(2, 3)),
    "no border": lambda x, weight: np.pad(as_matrix_product(x, weight)[:, :, 1:-1, 1:-1], ((0,), (0,), (1,), (1,))),
    "wrapped border": wrapped_border,
    "last channel left out": lambda x, weight: as_matrix_product(x[:, :-1], weight[:, :-1]),
    "shifted by a pixel": lambda x, weight: np.roll(as_matrix_product(x, weight), 1, axis=3),
    "first image only": lambda x, weight: (
        as_matrix_product(x, weight) * (np.arange(len(x)) == 0)[:, None, None, None]
    ),
    "output channels swapped": lambda x, weight: as_matrix_product(x, weight[::-1]),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_fail(mistake, failed_trials):
    def function(x, weight):
        if min(x.shape[1:]) < 3:
            return as_matrix_product(x, weight)
        return MISTAKES[mistake](x, weight)

    assert "normal" in " ".join(failed_trials(CONV2D, kernel(function, widened)))


def slow_terms(x, weight, image, to, row, column):
    height, width = x.shape[2:]
    for channel in range(x.shape[1]):
        for i in range(3):
            for j in range(3):
                r, c = row + i - 1, column + j - 1
                if 0 <= r < height and 0 <= c < width:
                    yield float(x[image, channel, r, c]) * float(weight[to, channel, i, j])


def slow_nearby(x, weight, image, to, row, column):
    """What Winograd transforms may add: squares within two pixels, times the taps' mean square."""
    for channel in range(x.shape[1]):
        taps = sum(float(w) ** 2 for w in weight[to, channel].reshape(-1)) / 9
        for r in range(max(0, row - 2), min(x.shape[2], row + 3)):
            for c in range(max(0, column - 2), min(x.shape[3], column + 3)):
                yield float(x[image, channel, r, c]) ** 2 * taps


@pytest.mark.parametrize("distribution", CONV2D.distributions, ids=lambda distribution: distribution.name)
@pytest.mark.parametrize(("height", "width"), [(4, 6), (1, 1)])
def test_oracle_agrees_with_loops(distribution, height, width):
    sizes = {"batch": 2, "in_channels": 3, "out_channels": 2, "height": height, "width": width}
    inputs = distribution.draw(NumpyRng(np.random.default_rng(1)), sizes)
    expected = CONV2D.oracle(inputs, sizes)["y"]
    for index in np.ndindex(expected.value.shape):
        terms = list(slow_terms(inputs["x"], inputs["weight"], *index))
        squares = math.fsum(term**2 for term in terms)
        nearby = math.fsum(slow_nearby(inputs["x"], inputs["weight"], *index))
        scale = math.sqrt(max(squares, nearby) + math.fsum(terms) ** 2)
        assert expected.value[index] == pytest.approx(math.fsum(terms), rel=1e-12, abs=1e-13 * scale)
        assert expected.scale[index] == pytest.approx(scale, rel=1e-9)
