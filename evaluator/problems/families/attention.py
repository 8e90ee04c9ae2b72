"""Attention without a mask, all heads apart."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from evaluator.problems import error_bounds
from evaluator.problems.arrays import Array, Rng, Shape, doubles
from evaluator.problems.edges import above, between, edge_sizes, last, reach
from evaluator.problems.families.softmax import CHAIN, few_terms, longer_rows, positive_sums, softened
from evaluator.problems.generators import (
    cancellation,
    constant,
    constant_rows,
    distribution,
    fine,
    hidden_sizes,
    large,
    normal,
    one_term,
    probe,
    signed_zeros,
    tiny,
)
from evaluator.problems.mixtures import mixed_rows, sparse
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
    Work,
)
from evaluator.problems.sampling import Indices, in_order, of_rows, rows_of
from evaluator.problems.structured import dominated, several_scales, structured_distributions

AT_ONCE: Final = 1 << 21
"""Scores of the queries that are answered at a time: 16 MiB of float64. Each time all keys and values are read."""

_SHAPE = ("heads", "seq", "dim")
_IN = (Tensor("q", _SHAPE), Tensor("k", _SHAPE), Tensor("v", _SHAPE))
_OUT = (Tensor("o", _SHAPE),)


def _oracle(inputs: Arrays, sizes: Sizes) -> dict[str, Expected]:
    """The scale joins the terms p * v, the element itself (it is divided by a sum), and what the scores contribute.

    A score that has, with its terms q * k / sqrt(dim), the 2-norm s moves p by p * s times its relative error, and
    the element by that times (v - o): v and o count apart, so that nothing cancels in the scale, but where one key
    takes all next to nothing is moved.
    """
    xp, q, k, v = doubles(inputs, "q", "k", "v")
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    p = softened(scores)
    o = p @ v
    moved = p**2 * (q**2 @ (k**2).mT / q.shape[-1] + scores**2)
    each_moved = moved @ v**2 + xp.sum(moved, axis=-1, keepdims=True) * o**2
    # Of p * (v - o), with |v - o| at most twice (1 - p) times the largest v: the narrower where one key takes all.
    widest = 4.0 * xp.max(v**2, axis=-2, keepdims=True)
    first = p > 0.5  # one at most; what is left beside it is added up, for 1 - p would be its rounding
    beside = xp.where(first, xp.sum(xp.where(first, 0.0, p), axis=-1, keepdims=True), 1.0 - p)
    together = xp.sum(moved * beside**2, axis=-1, keepdims=True) * widest
    scale = xp.sqrt(p**2 @ v**2 + o**2 + xp.minimum(each_moved, together))
    count, lost = error_bounds.counting(p)
    rest = xp.sum(xp.where(lost, p, 0.0), axis=-1)[..., None] * xp.max(xp.abs(v), axis=-2, keepdims=True)
    sums = error_bounds.one_sign(count, _ROUNDINGS)[..., None] + error_bounds.random_walk(q.shape[-1], 0.0)
    # A score that is computed again for its weight may be rounded otherwise than in the sum that divides the weight.
    again = error_bounds.EPSILON * xp.max(xp.where(lost, 0.0, xp.abs(scores)), axis=-1, keepdims=True)
    relative = sums + again + rest / xp.where(scale > 0, scale, 1.0)
    return {"o": Expected(o, scale, relative, longer_rows(sizes["seq"]))}


_ROUNDINGS: Final = 64
"""Beside those of the sums: exp, also as __expf, factors that join tiles, the quotient."""


def _sample(
    oracle: Oracle, inputs: Arrays, sizes: Sizes, elements: Elements, scalars: Mapping[str, Any]
) -> dict[str, Expected]:
    """Each head alone, with just the queries that are touched."""
    seq, dim = sizes["seq"], sizes["dim"]

    def compute(piece: Indices) -> Expected:
        head = int(piece[0]) // (seq * dim)
        queries, places = np.unique(piece // dim - head * seq, return_inverse=True)
        one = {"q": rows_of(inputs["q"][head], queries), "k": inputs["k"][head], "v": inputs["v"][head]}
        return oracle(one, sizes)["o"].at(places * dim + piece % dim)

    height = max(1, AT_ONCE // seq)
    return {"o": in_order(elements["o"], compute, lambda ordered: of_rows(ordered, dim, height, rows_together=seq))}


def _work(sizes: Sizes) -> Work:
    elements = math.prod(sizes[name] for name in _SHAPE)
    return Work(3 * 4 * elements, 4 * elements, 4 * elements * sizes["seq"])


_NAIVE = r"""
// assay: temp scores float32 (heads, seq, seq)
// assay: launch all_scores grid=(ceil_div(heads * seq * seq, 256)) block=(256) args=(q, k, scores, heads, seq, dim)
// assay: launch softmax_rows grid=(ceil_div(heads * seq, 256)) block=(256) args=(scores, heads, seq)
// assay: launch weigh_values grid=(ceil_div(heads * seq * dim, 256)) block=(256) args=(scores, v, o, heads, seq, dim)

__global__ void all_scores(const float* q, const float* k, float* scores, int heads, int seq, int dim)
{
    size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)heads * seq * seq) return;
    size_t row = index / seq;                            // head * seq + query
    size_t key = row / seq * seq + index % seq;          // head * seq + key
    float sum = 0.0f;
    for (int d = 0; d < dim; d++) sum += q[row * dim + d] * k[key * dim + d];
    scores[index] = sum / sqrtf((float)dim);
}

__global__ void softmax_rows(float* scores, int heads, int seq)
{
    size_t row = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= (size_t)heads * seq) return;
    float* line = scores + row * seq;
    float highest = line[0];
    for (int i = 1; i < seq; i++) highest = fmaxf(highest, line[i]);
    float sum = 0.0f;
    for (int i = 0; i < seq; i++) {
        line[i] = expf(line[i] - highest);
        sum += line[i];
    }
    for (int i = 0; i < seq; i++) line[i] /= sum;
}

__global__ void weigh_values(const float* weights, const float* v, float* o, int heads, int seq, int dim)
{
    size_t index = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (index >= (size_t)heads * seq * dim) return;
    size_t row = index / dim;
    size_t head = row / seq;
    float sum = 0.0f;
    for (int i = 0; i < seq; i++) sum += weights[row * seq + i] * v[(head * seq + i) * dim + index % dim];
    o[index] = sum;
}
"""

_FAST = r"""
// assay: launch attention_fast grid=(ceil_div(seq, 16) * heads) block=(128) args=(q, k, v, o, seq, dim)
#include <cfloat>

constexpr int QUERIES = 16, KEYS = 32, MOST = 128;  // dim is at most MOST
constexpr int LINE = MOST + 4;                      // lines of shared memory: float4 stays aligned, banks differ

// Copies up to `count` lines of `dim` floats to shared memory, with zeros up to `lines` and to a multiple of four.
__device__ __forceinline__ void load_lines(float (*to)[LINE], const float* from, int lines, int count, int dim)
{
    int quads = (dim + 3) / 4;
    #pragma unroll 1
    for (int i = threadIdx.x; i < lines * quads; i += 128) {
        int line = i / quads, d = i % quads * 4;
        float4 value = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        const float* at = from + (size_t)line * dim + d;
        if (line < count && dim % 4 == 0) {
            value = *reinterpret_cast<const float4*>(at);
        } else if (line < count) {
            value.x = at[0];
            if (d + 1 < dim) value.y = at[1];
            if (d + 2 < dim) value.z = at[2];
            if (d + 3 < dim) value.w = at[3];
        }
        *reinterpret_cast<float4*>(&to[line][d]) = value;
    }
}

// A block makes 16 rows of one head, a warp four of them. Keys come 32 at a time: a lane first owns a key (scores),
// then the elements lane, lane + 32 ... of the row (weighted values). The softmax is kept online.
__global__ void attention_fast(
    const float* __restrict__ q, const float* __restrict__ k, const float* __restrict__ v, float* __restrict__ o,
    int seq, int dim)
{
    __shared__ __align__(16) float queries[QUERIES][LINE], keys[KEYS][LINE], values[KEYS][LINE];
    int lane = threadIdx.x % 32, row0 = threadIdx.x / 32 * 4;
    int tiles = (seq + QUERIES - 1) / QUERIES;
    int first = blockIdx.x % tiles * QUERIES;
    size_t head = (size_t)(blockIdx.x / tiles) * seq * dim;
    float scale = 1.0f / sqrtf((float)dim);
    float high[4], sum[4], out[4][4] = {};
    #pragma unroll
    for (int r = 0; r < 4; r++) {
        high[r] = -FLT_MAX;
        sum[r] = 0.0f;
    }
    load_lines(queries, q + head + (size_t)first * dim, QUERIES, seq - first, dim);

    for (int key0 = 0; key0 < seq; key0 += KEYS) {
        load_lines(keys, k + head + (size_t)key0 * dim, KEYS, seq - key0, dim);
        load_lines(values, v + head + (size_t)key0 * dim, KEYS, seq - key0, dim);
        __syncthreads();

        float weight[4] = {};
        #pragma unroll 2
        for (int d = 0; d < dim; d += 4) {
            float4 b = *reinterpret_cast<const float4*>(&keys[lane][d]);
            #pragma unroll
            for (int r = 0; r < 4; r++) {
                float4 a = *reinterpret_cast<const float4*>(&queries[row0 + r][d]);
                weight[r] = fmaf(a.x, b.x, fmaf(a.y, b.y, fmaf(a.z, b.z, fmaf(a.w, b.w, weight[r]))));
            }
        }
        #pragma unroll
        for (int r = 0; r < 4; r++) {
            float score = key0 + lane < seq ? weight[r] * scale : -FLT_MAX;
            float top = score;
            for (int offset = 16; offset > 0; offset /= 2)
                top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, offset));
            top = fmaxf(top, high[r]);
            float shrink = expf(high[r] - top);
            high[r] = top;
            weight[r] = key0 + lane < seq ? expf(score - top) : 0.0f;
            sum[r] = sum[r] * shrink + weight[r];  // each lane adds its own keys; joined at the end
            #pragma unroll
            for (int c = 0; c < 4; c++) out[r][c] *= shrink;
        }
        int count = min(KEYS, seq - key0);
        #pragma unroll 1
        for (int i = 0; i < count; i++) {
            float p[4];
            #pragma unroll
            for (int r = 0; r < 4; r++) p[r] = __shfl_sync(0xffffffffu, weight[r], i);
            #pragma unroll
            for (int c = 0; c < 4; c++) {
                if (c * 32 >= dim) break;  // for the whole warp
                float value = lane + c * 32 < dim ? values[i][lane + c * 32] : 0.0f;
                #pragma unroll
                for (int r = 0; r < 4; r++) out[r][c] = fmaf(p[r], value, out[r][c]);
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int r = 0; r < 4; r++) {
        float total = sum[r];
        for (int offset = 16; offset > 0; offset /= 2) total += __shfl_xor_sync(0xffffffffu, total, offset);
        int row = first + row0 + r;
        #pragma unroll
        for (int c = 0; c < 4; c++)
            if (row < seq && lane + c * 32 < dim) o[head + (size_t)row * dim + lane + c * 32] = out[r][c] / total;
    }
}
"""

_QUERIES: Final = (
    normal(),
    normal(10.0),  # scores of tens and hundreds, where exp overflows
    normal(100.0),
    tiny(),
    signed_zeros(),
    constant_rows(),
    sparse,
    several_scales,
    dominated(fine()),
)
"""What queries are like in a mixture; keys and values are ordinary."""


def _by_coordinate(rng: Rng, shape: Shape) -> Array:
    """A sign for each coordinate of queries and keys, the same for both."""
    place = rng.arange(shape[-1])
    return 1.0 - 2.0 * (place * (place + 1) // 2 % 2)


def _one_coordinate(rng: Rng, shape: Shape) -> Array:
    """Queries of one coordinate, so large that of scores that differ the largest one takes all."""
    return 2.0**20 * _by_coordinate(rng, shape) * rng.xp.abs(dominated(fine())(rng, shape))


def _one_key_near_zero(rng: Rng, shape: Shape) -> Array:
    """Keys whose scores with `_one_coordinate` are below -10^4, but for one key of each coordinate, which is near 0.

    So the score that takes all is small, and its rounding moves nothing: a kernel may compute it more than once.
    """
    near = rng.arange(shape[-2])[:, None] == rng.integers(0, shape[-2] - 1, (*shape[:-2], 1, shape[-1]))
    sizes = rng.xp.where(near, 2.0**-24, 1.0) * rng.xp.abs(fine()(rng, shape))
    return -_by_coordinate(rng, shape) * sizes


ATTENTION: Final = Problem(
    id="attention",
    version="4",
    tier=3,
    title="Attention",
    statement=(
        "For each head h: o[h] = softmax(q[h] k[h]^T / sqrt(dim)) v[h], the softmax over keys (the last axis of the "
        "scores), without a mask, for contiguous row-major float32 tensors [heads, seq, dim]. No "
        "size need be a multiple of anything. Scores can be so large that exp "
        "overflows: subtract each row's maximum, at once or online. Inputs are finite and no sum overflows. Scores "
        "and weighted sums must keep float32's 24 bits; the order of summation is free."
    ),
    inputs=_IN,
    outputs=_OUT,
    sizes=("heads", "seq", "dim"),
    example_sizes=(
        {"heads": 4, "seq": 128, "dim": 64},
        {"heads": 3, "seq": 75, "dim": 33},
        {"heads": 2, "seq": 96, "dim": 128},
    ),
    hidden_sizes=hidden_sizes(heads=3, seq=129, dim=128),
    # All scores in a temporary are at most 1 GiB.
    serves=SizeRange(
        {"heads": 1024, "seq": reach(1 << 12), "dim": 128}, _IN, products={"heads * seq * seq": 1 << 28}
    ),
    edge_sizes=edge_sizes(
        {"heads": last(1024), "seq": between(1, 4), "dim": between(1, 8)},
        {"heads": between(17, 40), "seq": between(30, 70), "dim": last(128)},
        {"heads": between(1, 2), "seq": above(1 << 10), "dim": between(1, 8)},
        {"heads": between(1, 1), "seq": above(1 << 12), "dim": between(3, 4)},
    ),
    distributions=(
        distribution("normal", "standard normal values", _IN, normal()),
        distribution("sharp", "scores of hundreds, where exp overflows and one key takes all", _IN, normal(10.0)),
        distribution("large", "v times 1e15", _IN, normal(), {"v": large()}),
        distribution("tiny", "all values times 1e-15: all keys alike", _IN, tiny()),
        distribution(
            "cancellation", "all keys alike and v cancels", _IN, normal(), {"q": tiny(), "v": cancellation(-2)}
        ),
        distribution(
            "far_keys",
            "keys near a common vector: scores near each other, far from 0",
            _IN,
            normal(),
            {"q": normal(1.0, 3.0), "k": normal(1.0, 30.0)},
        ),
        distribution(
            "far_below",
            "keys all alike, whose scores are tens of thousands below 0",
            _IN,
            normal(0.1, 3.0),
            {"q": constant(45.0), "k": constant(-45.0)},
        ),
        distribution("signed_zeros", "+0, -0 and small values mixed", _IN, signed_zeros()),
        distribution("constant_rows", "one value for each row", _IN, constant_rows()),
        *structured_distributions(_IN, 16.0),
    ),
    mixture=distribution(
        "mixture",
        "each query of another distribution, all mixed",
        _IN,
        normal(),
        {"q": mixed_rows(_QUERIES)},
        role="mixed",
    ),
    edge_probes=(
        probe(
            "one_takes_all",
            "in each row one key takes all, whose value needs all 24 bits",
            _IN,
            fine(),
            replace(few_terms(1, 27, "one weight, 1 to a few roundings, times one value"), any_length=True),
            {},
            {"q": _one_coordinate, "k": _one_key_near_zero},
        ),
    ),
    probes=(
        probe(
            "one_key",
            "one key, so that o is v, which needs all 24 bits",
            _IN,
            fine(),
            one_term(4),
            {"heads": 256, "seq": 1, "dim": 64},
        ),
        probe(
            "one_score_term",
            "one element of each row of q outweighs all others; all factors need all 24 bits",
            _IN,
            fine(),
            few_terms(128, 28, "one product for each score, exp, the final quotient"),
            {"heads": 4, "seq": 128, "dim": 64},
            {"q": dominated(fine())},
        ),
        probe(
            "sharp_score_term",
            "the same, and scores of up to 30, on whose last bits exp depends",
            _IN,
            fine(),
            few_terms(128, 28, "one product for each score, exp, the final quotient"),
            {"heads": 4, "seq": 128, "dim": 64},
            {"q": lambda rng, shape: 32.0 * dominated(fine())(rng, shape)},
        ),
    ),
    tolerance=positive_sums(
        CHAIN,
        64,
        "The scale is the 2-norm of the terms p * v, the element itself, and both times the 2-norm of the scores' "
        "terms.",
    ),
    oracle=_oracle,
    sampler=_sample,
    work=_work,
    naive=Kernel("attention_naive", _NAIVE, "Three launches, all scores in a temporary; a thread for each element."),
    fast=Kernel(
        "attention_fast",
        _FAST,
        "One launch, no scores in memory: tiles of 32 keys in shared memory, online softmax, warp shuffles.",
    ),
    timing_sizes={"heads": 16, "seq": 2048, "dim": 64},
    # With a batch of one, because PyTorch's fused kernels take four dimensions only.
    baseline="F.scaled_dot_product_attention(q[None], k[None], v[None])[0]",
)

PROBLEMS: Final = (ATTENTION,)
