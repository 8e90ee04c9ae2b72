"""Convolution: conv2d, 3 x 3, stride 1, padding 1."""

import math
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from evaluator.problems import error_bounds
from evaluator.problems.arrays import Array, Rng, Shape, doubles, elements_of, namespace, on_device_of, with_border
from evaluator.problems.edges import above, between, edge_sizes, reach
from evaluator.problems.error_bounds import EPSILON
from evaluator.problems.generators import (
    SMALLEST_NORMAL,
    cancellation,
    constant_rows,
    distribution,
    fine,
    hidden_sizes,
    large,
    longer_sums,
    normal,
    probe,
    signed_zeros,
    summation,
    tiny,
)
from evaluator.problems.problem import (
    Arrays,
    Elements,
    Expected,
    Kernel,
    Oracle,
    Problem,
    SizeRange,
    Sizes,
    Tensor,
    Tolerance,
    Work,
)
from evaluator.problems.sampling import AT_ONCE, Indices, in_order, of_rows, rows_of
from evaluator.problems.structured import dominated, structured_distributions

_CHAIN: Final = 4096
"""Longest chain of additions that the tolerance admits as it is."""

_FEW: Final = {
    "batch": between(1, 3),
    "in_channels": between(1, 3),
    "out_channels": between(1, 3),
    "height": between(1, 3),
    "width": between(1, 3),
}

_IN = (
    Tensor("x", ("batch", "in_channels", "height", "width")),
    Tensor("weight", ("out_channels", "in_channels", "3", "3")),
)
_OUT = (Tensor("y", ("batch", "out_channels", "height", "width")),)


def _correlate(padded: Array, weight: Array) -> Array:
    """The 3 x 3 cross-correlation of images that have a border of one: a matrix product for each of the nine taps."""
    height, width = padded.shape[-2] - 2, padded.shape[-1] - 2
    taps = (
        _mixed(weight[..., row, column], padded[:, :, row : row + height, column : column + width])
        for row in range(3)
        for column in range(3)
    )
    return sum(taps)


def _mixed(weight: Array, x: Array) -> Array:
    """Each pixel's channels times weight[out_channels, in_channels], or one such matrix for each image."""
    xp = namespace(weight, x)
    batch, channels, height, width = x.shape
    mixed = weight @ xp.reshape(x, (batch, channels, height * width))
    return xp.reshape(mixed, (batch, weight.shape[-2], height, width))


def _box_sum(padded: Array) -> Array:
    """Sums over 5 x 5 neighbourhoods of images that have a border of two."""
    height, width = padded.shape[-2] - 4, padded.shape[-1] - 4
    rows = sum(padded[:, :, i : i + height, :] for i in range(5))
    return sum(rows[:, :, :, i : i + width] for i in range(5))


_WINOGRAD: Final = 64
"""Roundings that Winograd's F(2x2, 3x3) adds to those of its sums, with room."""


def _expected(padded: Array, weight: Array) -> Expected:
    """Of images[batch, in_channels, height, width] that have a border of two, all in float64.

    The scale is the 2-norm of element and terms, or of those that a Winograd transform adds where that is more.
    Winograd's F(2x2, 3x3) is honest, but an element of it also sees neighbours within two of it, and all taps: terms
    that cancel exactly only without rounding. They count as (5 x 5 neighbours' squares) * (mean square of the taps).
    """
    xp = namespace(padded, weight)
    inner = padded[:, :, 1:-1, 1:-1]
    direct = _correlate(inner**2, weight**2)
    nearby = _mixed(xp.mean(weight**2, axis=(-2, -1)), _box_sum(padded**2))
    value = _correlate(inner, weight)
    scale = xp.sqrt(xp.maximum(direct, nearby) + value**2)
    terms = 9 * padded.shape[1]
    return Expected(value, scale, error_bounds.random_walk(terms, _WINOGRAD), longer_sums(terms, _CHAIN))


def _oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    _, x, weight = doubles(inputs, "x", "weight")
    return {"y": _expected(with_border(x, 2), weight)}


def _sample(
    oracle: Oracle, inputs: Arrays, sizes: Sizes, elements: Elements, scalars: Mapping[str, Any]
) -> dict[str, Expected]:
    """Each element is the one pixel of an image of its own, its 5 x 5 neighbourhood, with taps of its own."""
    channels, height, width = sizes["in_channels"], sizes["height"], sizes["width"]
    shape = sizes["batch"], sizes["out_channels"], height, width
    near = np.arange(-2, 3)

    def compute(piece: Indices) -> Expected:
        image, to, row, column = np.unravel_index(piece, shape)
        rows, columns = row[:, None] + near, column[:, None] + near
        inside = ((rows >= 0) & (rows < height))[:, :, None] & ((columns >= 0) & (columns < width))[:, None, :]
        pixels = np.where(inside, rows[:, :, None] * width + columns[:, None, :], 0)
        planes = image[:, None] * channels + np.arange(channels)
        places = planes[:, :, None, None] * (height * width) + pixels[:, None, :, :]
        _, x, weight = doubles(
            {"x": elements_of(inputs["x"], places), "weight": rows_of(inputs["weight"], to)}, "x", "weight"
        )
        return _expected(x * on_device_of(x, inside[:, None]), weight[:, None]).at(np.arange(piece.size))

    height_of_pieces = max(1, AT_ONCE // (25 * channels))
    return {"y": in_order(elements["y"], compute, lambda ordered: of_rows(ordered, 1, height_of_pieces))}


def _one_tap(rng: Rng, shape: Shape) -> Array:
    """For each output channel one tap that outweighs all others."""
    return rng.xp.reshape(dominated(fine())(rng, (shape[0], math.prod(shape[1:]))), shape)


def _work(sizes: Sizes) -> Work:
    """FLOPs of Winograd's F(4x4, 3x3), a quarter of the direct ones without those on the border of zeros."""
    pairs = sizes["batch"] * sizes["in_channels"] * sizes["out_channels"]
    direct = 2 * pairs * (3 * sizes["height"] - 2) * (3 * sizes["width"] - 2)
    count = [4 * math.prod(tensor.shape_at(sizes)) for tensor in (*_IN, *_OUT)]
    return Work(count[0] + count[1], count[2], direct // 4)


_NAIVE = (
    "// assay: launch conv2d_naive grid=(ceil_div(batch * out_channels * height * width, 256)) block=(256) "
    "args=(x, weight, y, batch, in_channels, out_channels, height, width)\n"
    + r"""
__global__ void conv2d_naive(const float* x, const float* weight, float* y, int batch, int in_channels,
                             int out_channels, int height, int width)
{
    size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)batch * out_channels * height * width) return;
    int column = index % width;
    int row = index / width % height;
    int to = index / ((size_t)width * height) % out_channels;
    int image = index / ((size_t)width * height * out_channels);
    float sum = 0.0f;
    for (int from = 0; from < in_channels; from++) {
        const float* plane = x + ((size_t)image * in_channels + from) * height * width;
        const float* taps = weight + ((size_t)to * in_channels + from) * 9;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) {
                int r = row + i - 1, c = column + j - 1;
                bool inside = r >= 0 && r < height && c >= 0 && c < width;
                if (inside) sum += plane[(size_t)r * width + c] * taps[i * 3 + j];
            }
    }
    y[index] = sum;
}
"""
)

_FAST = (
    "// assay: launch conv2d_fast grid=(ceil_div(width, 16) * ceil_div(height, 16) * batch, "
    "ceil_div(out_channels, 8)) block=(16, 8) args=(x, weight, y, in_channels, out_channels, height, width)\n"
    + r"""
constexpr int TILE = 16;  // a block makes 16 x 16 pixels of 8 output channels, a thread 2 x 1 pixels of them
constexpr int TO = 8;
constexpr int FROM = 4;   // input channels between two barriers

__global__ void conv2d_fast(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int in_channels,
    int out_channels, int height, int width)
{
    __shared__ float pixels[FROM][TILE + 2][TILE + 2];
    __shared__ __align__(16) float taps[FROM][9][TO];
    int thread = threadIdx.y * TILE + threadIdx.x;
    int across = (width + TILE - 1) / TILE, down = (height + TILE - 1) / TILE;
    int column0 = blockIdx.x % across * TILE;
    int row0 = blockIdx.x / across % down * TILE;
    size_t image = blockIdx.x / across / down;
    int to0 = blockIdx.y * TO;
    float sum[2][TO] = {};

    for (int from0 = 0; from0 < in_channels; from0 += FROM) {
        for (int i = thread; i < FROM * (TILE + 2) * (TILE + 2); i += 128) {
            int j = i % (TILE + 2), r = i / (TILE + 2) % (TILE + 2), from = i / ((TILE + 2) * (TILE + 2));
            int row = row0 + r - 1, column = column0 + j - 1;
            bool inside = from0 + from < in_channels && row >= 0 && row < height && column >= 0 && column < width;
            size_t line = (image * in_channels + from0 + from) * height + row;
            pixels[from][r][j] = inside ? x[line * width + column] : 0.0f;
        }
        for (int i = thread; i < FROM * 9 * TO; i += 128) {
            int tap = i % 9, from = i / 9 % FROM, to = i / (9 * FROM);
            bool inside = from0 + from < in_channels && to0 + to < out_channels;
            taps[from][tap][to] = inside ? weight[((size_t)(to0 + to) * in_channels + from0 + from) * 9 + tap] : 0.0f;
        }
        __syncthreads();
        #pragma unroll 1
        for (int from = 0; from < FROM; from++) {
            float near[4][3];
            #pragma unroll
            for (int i = 0; i < 4; i++)
                #pragma unroll
                for (int j = 0; j < 3; j++) near[i][j] = pixels[from][threadIdx.y * 2 + i][threadIdx.x + j];
            #pragma unroll
            for (int tap = 0; tap < 9; tap++) {
                float4 low = *reinterpret_cast<const float4*>(&taps[from][tap][0]);
                float4 high = *reinterpret_cast<const float4*>(&taps[from][tap][4]);
                float w[TO] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
                #pragma unroll
                for (int i = 0; i < 2; i++)
                    #pragma unroll
                    for (int to = 0; to < TO; to++)
                        sum[i][to] = fmaf(near[tap / 3 + i][tap % 3], w[to], sum[i][to]);
            }
        }
        __syncthreads();
    }
    int column = column0 + threadIdx.x;
    #pragma unroll
    for (int i = 0; i < 2; i++) {
        int row = row0 + threadIdx.y * 2 + i;
        #pragma unroll
        for (int to = 0; to < TO; to++)
            if (row < height && column < width && to0 + to < out_channels)
                y[((image * out_channels + to0 + to) * height + row) * width + column] = sum[i][to];
    }
}
"""
)

_PROBE_TOLERANCE: Final = Tolerance(
    256 * EPSILON,
    SMALLEST_NORMAL,
    "Next to one term of each output the others come to nothing, so that direct sums are good to one rounding; 256 "
    "roundings of 2^-24 leave room for Winograd transforms in float32. TF32, float16 and bfloat16 inside are off by "
    "at least 2^-13.",
)

CONV2D: Final = Problem(
    id="conv2d",
    version="4",
    tier=2,
    title="3 x 3 convolution",
    statement=(
        "y[b, o, r, c] = sum over i, s, t of x[b, i, r + s - 1, c + t - 1] * weight[o, i, s, t], with s and t in "
        "0..2 and x zero outside the image (stride 1, padding 1; not flipped, as in torch.nn.functional.conv2d), in "
        "float32, all tensors contiguous and row-major. No size need be a multiple of "
        "anything; inputs are finite and no sum overflows. Products and sums must keep float32's 24 bits; the order "
        "of summation is free and Winograd's F(2x2, 3x3) is welcome."
    ),
    inputs=_IN,
    outputs=_OUT,
    sizes=("batch", "in_channels", "out_channels", "height", "width"),
    example_sizes=(
        {"batch": 2, "in_channels": 16, "out_channels": 16, "height": 28, "width": 28},
        {"batch": 1, "in_channels": 3, "out_channels": 32, "height": 45, "width": 61},
        {"batch": 4, "in_channels": 32, "out_channels": 24, "height": 16, "width": 16},
    ),
    hidden_sizes=hidden_sizes(batch=3, in_channels=13, out_channels=13, height=33, width=33),
    serves=SizeRange(
        {
            "batch": reach(1 << 12),
            "in_channels": reach(1 << 9),
            "out_channels": reach(1 << 15),
            "height": reach(1 << 15),
            "width": reach(1 << 15),
        },
        (*_IN, *_OUT),
        # Below what a grid may have in y and in z: kernels put a plane of the output there.
        products={"batch * out_channels": reach(1 << 15)},
    ),
    edge_sizes=edge_sizes(
        _FEW | {"width": above(1 << 10, 1 << 12, 1 << 14), "height": between(1, 2)},
        _FEW | {"width": above(1 << 15), "height": between(1, 1)},
        _FEW | {"height": above(1 << 10, 1 << 12, 1 << 14), "width": between(1, 2)},
        _FEW | {"height": above(1 << 15), "width": between(1, 1)},
        _FEW | {"batch": above(1 << 8, 1 << 10), "out_channels": between(1, 2)},
        _FEW | {"batch": above(1 << 12), "out_channels": between(1, 2)},
        _FEW | {"out_channels": above(1 << 7, 1 << 9, 1 << 10, 1 << 12)},
        _FEW | {"out_channels": above(1 << 15), "batch": between(1, 1)},
        _FEW | {"in_channels": above(1 << 6, 1 << 7, 1 << 8)},
        _FEW | {"in_channels": above(1 << 9)},
    ),
    distributions=(
        distribution("normal", "standard normal values", _IN, normal()),
        distribution("large", "normal values times 1e15: products near 1e30", _IN, large()),
        distribution("tiny", "normal values times 1e-15: products near 1e-30", _IN, tiny()),
        distribution(
            "cancellation",
            "constant images and taps whose halves cancel",
            _IN,
            constant_rows(),
            {"weight": cancellation(1)},
        ),
        distribution("signed_zeros", "+0, -0 and small values mixed", _IN, signed_zeros(), {"weight": normal()}),
        distribution("constant_rows", "one value for each row", _IN, constant_rows()),
        *structured_distributions(_IN),
    ),
    probes=(
        *(
            probe(
                name,
                "for each output channel one tap that outweighs all others; both factors need all 24 bits",
                _IN,
                fine(),
                _PROBE_TOLERANCE,
                sizes,
                {"weight": _one_tap},
            )
            for name, sizes in (
                ("one_tap", {"batch": 2, "in_channels": 16, "out_channels": 16, "height": 28, "width": 28}),
                ("one_tap_odd", {"batch": 3, "in_channels": 5, "out_channels": 13, "height": 17, "width": 11}),
            )
        ),
    ),
    tolerance=summation(_CHAIN),
    oracle=_oracle,
    sampler=_sample,
    work=_work,
    naive=Kernel("conv2d_naive", _NAIVE, "One thread for each element of y, everything read from global memory."),
    fast=Kernel(
        "conv2d_fast",
        _FAST,
        "Tiles with their border in shared memory, four input channels at a time; a thread makes two pixels of "
        "eight output channels from registers.",
    ),
    timing_sizes={"batch": 16, "in_channels": 64, "out_channels": 64, "height": 56, "width": 56},
    baseline="F.conv2d(x, weight, padding=1)",
)

PROBLEMS: Final = (CONV2D,)
