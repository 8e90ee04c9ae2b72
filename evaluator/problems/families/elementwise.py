"""Element-wise arithmetic: vector_add, scalar_multiply and saxpy."""

from dataclasses import replace
from typing import Final

from evaluator.problems.arrays import Array, Rng, cast, doubles
from evaluator.problems.edges import FLAT_EDGES, LAST_FLAT
from evaluator.problems.generators import (
    distribution,
    fine,
    hidden_sizes,
    mixed_scales,
    probe,
    roundings,
    usual_distributions,
    whole_range,
)
from evaluator.problems.mixtures import SPARSE, STRETCH, mixture, sparse
from evaluator.problems.problem import (
    Arrays,
    Distribution,
    Expected,
    Kernel,
    Problem,
    Scalar,
    SizeRange,
    Sizes,
    Tensor,
    Work,
)
from evaluator.problems.sampling import element_wise
from evaluator.problems.structured import structured_distributions

FLAT_SIZES: Final = ({"n": 1 << 18}, {"n": 1000}, {"n": 100_003})
FLAT_TIMING: Final = {"n": 1 << 24}
MOST: Final = 1 << 17
"""Of hidden sizes."""
FLAT_RANGE: Final = SizeRange({"n": LAST_FLAT})
"""Beyond the timed size and 2^24, from where on not every index is a float."""
PROBE_SIZES: Final = {"n": 4099}

SCALAR_MULTIPLY_ALPHA: Final = 2.5
SAXPY_ALPHA: Final = -1.75
_ALPHAS: Final = (0.0, -3.25, 0.3333333432674408, 1.0, 4096.5, 0.015625, -2.7182817459106445, -1.0, 2.0)
"""Further values: exact in float32, two with all 24 bits, and so small that no product of finite inputs overflows."""


def plain_distributions(tensors: tuple[Tensor, ...], squares: bool = False) -> tuple[Distribution, ...]:
    """The usual distributions without the one that only sums can feel, and values of very different magnitudes.

    `squares`: their squares must not overflow either, which a right kernel may compute on its way.
    """
    usual = tuple(d for d in usual_distributions(tensors) if d.name != "cancellation")
    if squares:
        spread = distribution("mixed_scales", "magnitudes from 1e-6 to 1e6", tensors, mixed_scales())
    else:
        far = distribution("whole_range", "magnitudes from 2^-120 to 2^114", tensors, whole_range(-120, 114))
        spread = replace(far, squares_fit=False)
    return (*usual, spread, *structured_distributions(tensors))


def flat_mixture(tensors: tuple[Tensor, ...], *more: Distribution, squares: bool = False) -> Distribution:
    """Stretches of vectors from all plain distributions, sparse ones, and those that need every bit."""
    fine_and_sparse = (
        distribution("fine", "values that need all 23 fraction bits of float32", tensors, fine()),
        distribution("sparse", SPARSE, tensors, sparse),
    )
    return mixture((*plain_distributions(tensors, squares), *more, *fine_and_sparse), tensors, "n", STRETCH)


def _opposed(first: Tensor, second: Tensor, alpha: float) -> Distribution:
    """`second` is -alpha * `first` up to a thousandth, so that alpha * first + second is small against its terms."""

    def draw(rng: Rng, sizes: Sizes) -> dict[str, Array]:
        shape = first.shape_at(sizes)
        one = rng.normal(shape)
        other = -alpha * one + 1e-3 * rng.normal(shape)
        return {first.name: cast(one, first.dtype), second.name: cast(other, second.dtype)}

    return Distribution("cancellation", "terms that nearly cancel in each element", draw, as_published=True)


# vector_add -------------------------------------------------------------------------------------------------------

_A, _B = Tensor("a", ("n",)), Tensor("b", ("n",))


def _vector_add_oracle(arrays: Arrays, sizes: Sizes) -> dict[str, Expected]:
    xp, a, b = doubles(arrays, "a", "b")
    return {"c": Expected(a + b, xp.hypot(a, b))}


_VECTOR_ADD_NAIVE = """\
__global__ void add_kernel(const float* a, const float* b, float* c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        c[i] = a[i] + b[i];
    }
}
"""

_VECTOR_ADD_FAST = """\
// assay: launch add_float4 grid=(min(ceil_div(n, 1024), 16384)) block=(256) args=(a, b, c, n)

__global__ void __launch_bounds__(256)
add_float4(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    const int quads = n / 4;
    for (int q = thread; q < quads; q += threads) {
        const float4 x = reinterpret_cast<const float4*>(a)[q];
        const float4 y = reinterpret_cast<const float4*>(b)[q];
        reinterpret_cast<float4*>(c)[q] = make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w);
    }
    const int tail = 4 * quads + thread;
    if (thread < n % 4) {
        c[tail] = a[tail] + b[tail];
    }
}
"""

VECTOR_ADD: Final = Problem(
    id="vector_add",
    version="4",
    tier=0,
    title="Vector addition",
    statement=(
        "Add two vectors: c[i] = a[i] + b[i] for 0 <= i < n, in float32. Values may be anything whose sum is finite. "
        "n may be any size in its range, "
        "also one that is not a multiple of the block or of 4."
    ),
    inputs=(_A, _B),
    outputs=(Tensor("c", ("n",)),),
    sizes=("n",),
    example_sizes=FLAT_SIZES,
    hidden_sizes=hidden_sizes(n=MOST),
    serves=FLAT_RANGE,
    edge_sizes=FLAT_EDGES,
    distributions=(*plain_distributions((_A, _B)), _opposed(_A, _B, 1.0)),
    mixture=flat_mixture((_A, _B), _opposed(_A, _B, 1.0)),
    probes=(
        probe(
            "fine",
            "values that need all 23 fraction bits of float32",
            (_A, _B),
            fine(),
            roundings(2, "one addition rounds once, by at most 2^-24 of a sum that is at most 1.42 times the scale"),
            PROBE_SIZES,
        ),
    ),
    tolerance=roundings(4, "one addition rounds once; the scale is the 2-norm of a[i] and b[i]"),
    oracle=_vector_add_oracle,
    sampler=element_wise,
    work=lambda sizes: Work(8 * sizes["n"], 4 * sizes["n"], sizes["n"]),
    naive=Kernel("add_kernel", _VECTOR_ADD_NAIVE, "one thread for each element, one load at a time"),
    fast=Kernel("add_float4", _VECTOR_ADD_FAST, "float4 loads and stores, grid-stride loop, scalar tail"),
    timing_sizes=FLAT_TIMING,
    baseline="torch.add(a, b)",
)


# scalar_multiply --------------------------------------------------------------------------------------------------

_X = Tensor("x", ("n",))


def _scalar_multiply_oracle(
    arrays: Arrays, sizes: Sizes, alpha: float = SCALAR_MULTIPLY_ALPHA
) -> dict[str, Expected]:
    xp, x = doubles(arrays, "x")
    value = alpha * x
    return {"y": Expected(value, xp.abs(value))}


_SCALAR_MULTIPLY_NAIVE = """\
__global__ void scale_kernel(const float* x, float* y, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = alpha * x[i];
    }
}
"""

_SCALAR_MULTIPLY_FAST = """\
// assay: launch scale_float4 grid=(min(ceil_div(n, 1024), 16384)) block=(256) args=(x, y, alpha, n)

__global__ void __launch_bounds__(256)
scale_float4(const float* __restrict__ x, float* __restrict__ y, float alpha, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    const int quads = n / 4;
    for (int q = thread; q < quads; q += threads) {
        const float4 v = reinterpret_cast<const float4*>(x)[q];
        reinterpret_cast<float4*>(y)[q] = make_float4(alpha * v.x, alpha * v.y, alpha * v.z, alpha * v.w);
    }
    const int tail = 4 * quads + thread;
    if (thread < n % 4) {
        y[tail] = alpha * x[tail];
    }
}
"""

SCALAR_MULTIPLY: Final = Problem(
    id="scalar_multiply",
    version="4",
    tier=0,
    title="Vector times scalar",
    statement=(
        "Multiply a vector by a scalar: y[i] = alpha * x[i] for 0 <= i < n, in float32. alpha is passed as a kernel "
        "parameter and differs from trial to trial. Values may be anything whose product is finite. n may be any "
        "size in its range."
    ),
    inputs=(_X,),
    outputs=(Tensor("y", ("n",)),),
    scalars=(Scalar("alpha", SCALAR_MULTIPLY_ALPHA, others=_ALPHAS),),
    sizes=("n",),
    example_sizes=FLAT_SIZES,
    hidden_sizes=hidden_sizes(n=MOST),
    serves=FLAT_RANGE,
    edge_sizes=FLAT_EDGES,
    distributions=plain_distributions((_X,)),
    mixture=flat_mixture((_X,)),
    probes=(
        probe(
            "fine",
            "values that need all 23 fraction bits of float32",
            (_X,),
            fine(),
            roundings(1, "one multiplication rounds once"),
            PROBE_SIZES,
        ),
    ),
    tolerance=roundings(2, "one multiplication rounds once; the scale is |alpha * x[i]|"),
    oracle=_scalar_multiply_oracle,
    sampler=element_wise,
    work=lambda sizes: Work(4 * sizes["n"], 4 * sizes["n"], sizes["n"]),
    naive=Kernel("scale_kernel", _SCALAR_MULTIPLY_NAIVE, "one thread for each element"),
    fast=Kernel("scale_float4", _SCALAR_MULTIPLY_FAST, "float4 loads and stores, grid-stride loop, scalar tail"),
    timing_sizes=FLAT_TIMING,
    baseline="torch.mul(x, alpha)",
)


# saxpy ------------------------------------------------------------------------------------------------------------

_Y = Tensor("y", ("n",))


def _saxpy_oracle(arrays: Arrays, sizes: Sizes, alpha: float = SAXPY_ALPHA) -> dict[str, Expected]:
    xp, x, y = doubles(arrays, "x", "y")
    product = alpha * x
    return {"out": Expected(product + y, xp.hypot(product, y))}


_SAXPY_NAIVE = """\
__global__ void saxpy_kernel(const float* x, const float* y, float* out, float alpha, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = alpha * x[i] + y[i];
    }
}
"""

_SAXPY_FAST = """\
// assay: launch saxpy_float4 grid=(min(ceil_div(n, 1024), 16384)) block=(256) args=(x, y, out, alpha, n)

__global__ void __launch_bounds__(256)
saxpy_float4(const float* __restrict__ x, const float* __restrict__ y, float* __restrict__ out, float alpha, int n)
{
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;
    const int threads = gridDim.x * blockDim.x;
    const int quads = n / 4;
    for (int q = thread; q < quads; q += threads) {
        const float4 u = reinterpret_cast<const float4*>(x)[q];
        const float4 v = reinterpret_cast<const float4*>(y)[q];
        reinterpret_cast<float4*>(out)[q] = make_float4(
            fmaf(alpha, u.x, v.x), fmaf(alpha, u.y, v.y), fmaf(alpha, u.z, v.z), fmaf(alpha, u.w, v.w));
    }
    const int tail = 4 * quads + thread;
    if (thread < n % 4) {
        out[tail] = fmaf(alpha, x[tail], y[tail]);
    }
}
"""

SAXPY: Final = Problem(
    id="saxpy",
    version="4",
    tier=0,
    title="Scaled vector addition (saxpy)",
    statement=(
        "out[i] = alpha * x[i] + y[i] for 0 <= i < n, in float32. y must stay as it is: the result goes to out. "
        "alpha is passed as a kernel parameter and differs from trial to trial. A fused multiply-add "
        "is as good as two roundings. Values may be anything whose result is finite. n may be any size in its range."
    ),
    inputs=(_X, _Y),
    outputs=(Tensor("out", ("n",)),),
    scalars=(Scalar("alpha", SAXPY_ALPHA, others=_ALPHAS),),
    sizes=("n",),
    example_sizes=FLAT_SIZES,
    hidden_sizes=hidden_sizes(n=MOST),
    serves=FLAT_RANGE,
    edge_sizes=FLAT_EDGES,
    distributions=(*plain_distributions((_X, _Y)), _opposed(_X, _Y, SAXPY_ALPHA)),
    mixture=flat_mixture((_X, _Y), _opposed(_X, _Y, SAXPY_ALPHA)),
    probes=(
        probe(
            "fine",
            "values that need all 23 fraction bits of float32",
            (_X, _Y),
            fine(),
            roundings(3, "the product and the sum round once each, the sum by at most 1.42 * 2^-24 of the scale"),
            PROBE_SIZES,
        ),
    ),
    tolerance=roundings(4, "product and sum round once each; the scale is the 2-norm of alpha * x[i] and y[i]"),
    oracle=_saxpy_oracle,
    sampler=element_wise,
    work=lambda sizes: Work(8 * sizes["n"], 4 * sizes["n"], 2 * sizes["n"]),
    naive=Kernel("saxpy_kernel", _SAXPY_NAIVE, "one thread for each element"),
    fast=Kernel("saxpy_float4", _SAXPY_FAST, "float4 loads and stores, fused multiply-add, grid-stride loop"),
    timing_sizes=FLAT_TIMING,
    baseline="torch.add(y, x, alpha=alpha)",
)
