"""Makers that all problem files share: contents of inputs, distributions, probes, hidden sizes and tolerances.

A `Maker` draws the contents of one tensor in float64 (or float32, see `Rng.normal`); `distribution` casts to each
tensor's dtype. Tensors draw one after another from the same dice, so that no tensor of a distribution says anything
about another one.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np

from common.wire import DType
from evaluator.problems.arrays import Array, Rng, Shape, cast, put
from evaluator.problems.error_bounds import EPSILON, random_walk
from evaluator.problems.problem import Distribution, DistributionRole, Probe, Sizes, Tensor, Tolerance

Maker: TypeAlias = Callable[[Rng, Shape], Array]
"""Draws the contents of a tensor of the given shape; floating point, or int64 for integer tensors."""

EPSILON_F16: Final = 2.0**-11
"""Largest relative error of one float16 rounding to nearest."""
EPSILON_BF16: Final = 2.0**-8
"""Of one bfloat16 rounding to nearest."""
OWN_ROUNDING: Final = {DType.FLOAT16: EPSILON_F16, DType.BFLOAT16: EPSILON_BF16}
"""By how much of itself the last rounding moves a result of 16 bits at most."""
SMALLEST_NORMAL: Final = 2.0**-126
"""Smallest normal float32; anything below may be flushed to zero."""


def normal(scale: float = 1.0, mean: float = 0.0) -> Maker:
    """Normal values."""

    def make(rng: Rng, shape: Shape) -> Array:
        values = rng.normal(shape)
        if scale != 1.0:
            values *= scale
        if mean != 0.0:
            values += mean
        return values

    return make


def uniform(low: float, high: float) -> Maker:
    """Values spread evenly over [low, high)."""

    def make(rng: Rng, shape: Shape) -> Array:
        return rng.uniform(low, high, shape)

    return make


def uniform_int(low: int, high: int) -> Maker:
    """Integers from `low` to `high`, both included."""

    def make(rng: Rng, shape: Shape) -> Array:
        return rng.integers(low, high, shape)

    return make


def large(scale: float = 1e15) -> Maker:
    """Normal values times `scale`: sums of a million squares still fit in float32 at the default."""
    return normal(scale)


def tiny(scale: float = 1e-15) -> Maker:
    """Normal values times `scale`: squares are still normal float32 at the default."""
    return normal(scale)


def cancellation(axis: int = -1, residue: float = 1e-3) -> Maker:
    """Along `axis` the second half is minus the first, but for a relative `residue`: sums are small against terms.

    The halves meet at distance length // 2, so partial sums walk away from zero before they return. An odd last
    element is of the residue's size. Beside it, `repeated` gives the other factor of a sum of products.
    """

    def make(rng: Rng, shape: Shape) -> Array:
        values = rng.normal(shape)
        along = rng.xp.moveaxis(values, axis, 0)  # a view: what is written to it is in `values`
        half = along.shape[0] // 2
        along[half:] *= residue
        along[half : 2 * half] -= along[:half]
        return values

    return make


def repeated(axis: int = -1) -> Maker:
    """Along `axis` the second half equals the first, so that a `cancellation` cancels in a sum of products."""

    def make(rng: Rng, shape: Shape) -> Array:
        values = rng.normal(shape)
        along = rng.xp.moveaxis(values, axis, 0)  # a view: what is written to it is in `values`
        half = along.shape[0] // 2
        along[half : 2 * half] = along[:half]
        return values

    return make


def signed_zeros(scale: float = 1e-3) -> Maker:
    """A third +0, a third -0, a third small normal values."""

    def make(rng: Rng, shape: Shape) -> Array:
        kind = rng.integers(0, 2, shape)
        values = rng.normal(shape)
        values *= scale
        put(values, kind != 2, 0.0)
        put(values, kind == 1, -0.0)
        return values

    return make


def constant_rows(steps: int = 8) -> Maker:
    """One value for each row (all of a 1-D tensor), a non-zero multiple of 1/4 of at most `steps` / 4 in magnitude.

    So few bits that sums of 2**21 of them, and of 2**18 products of two, are exact in float32 in every order: values
    of one sign would otherwise let roundings add up beyond any tolerance that is measured against the 2-norm. Longer
    rows take smaller multiples for that, down to 1/4 at 2**24.
    """

    def make(rng: Rng, shape: Shape) -> Array:
        rows = (*shape[:-1], 1)
        most = max(1, min(steps, (1 << 24) // shape[-1]))
        value = rng.integers(1, most, rows) * 0.25 * rng.signs(rows)
        return rng.xp.broadcast_to(value, shape)

    return make


def mixed_scales(decades: float = 6.0) -> Maker:
    """Values of both signs whose magnitudes spread evenly over 10**-decades to 10**decades."""

    def make(rng: Rng, shape: Shape) -> Array:
        return rng.signs(shape) * 10.0 ** rng.uniform(-decades, decades, shape)

    return make


def whole_range(low: float, high: float) -> Maker:
    """`mixed_scales` in half of the places, in the others values whose magnitudes spread over 2**low to 2**high."""

    def make(rng: Rng, shape: Shape) -> Array:
        wide = rng.signs(shape) * 2.0 ** rng.uniform(low, high, shape)
        return rng.xp.where(rng.integers(0, 1, shape) == 0, wide, mixed_scales()(rng, shape))

    return make


def fine(bits: int = 23) -> Maker:
    """Values in (1, 2) and (-2, -1) that need all `bits` fraction bits: the next lower precision cannot hold one.

    The last bits - 10 of them are an odd number near the middle of their range, and so are the last bits - 15 of
    those, where they are more than two. So
    rounding to TF32's 10, float16's 10 or bfloat16's 7 fraction bits moves every value by at least 2**-13 of it,
    and rounding to the 16 bits of two bfloat16 numbers by at least 2**-18, whichever way it rounds.
    """

    def make(rng: Rng, shape: Shape) -> Array:
        low_bits, last_bits = bits - 10, bits - 15
        quarter = 1 << (low_bits - 2)
        high = rng.integers(0, (1 << 10) - 1, shape) << low_bits
        low = rng.integers(quarter, 3 * quarter - 1, shape)
        if last_bits > 2:
            last = 1 << (last_bits - 2)
            low = (low >> last_bits << last_bits) + rng.integers(last, 3 * last - 1, shape)
        return rng.signs(shape) * (1.0 + rng.xp.astype(high + (low | 1), rng.xp.float64) * 2.0**-bits)

    return make


def constant(value: float) -> Maker:
    """`value` everywhere."""

    def make(rng: Rng, shape: Shape) -> Array:
        return rng.full(shape, value)

    return make


def distribution(
    name: str,
    reason: str,
    tensors: Sequence[Tensor],
    maker: Maker,
    own: Mapping[str, Maker] | None = None,
    role: DistributionRole = "hostile",
) -> Distribution:
    """A distribution that draws each of `tensors` by its maker in `own`, else by `maker`."""
    makers = {tensor.name: (own or {}).get(tensor.name, maker) for tensor in tensors}

    def draw(rng: Rng, sizes: Sizes) -> dict[str, Array]:
        return {
            tensor.name: cast(makers[tensor.name](rng, tensor.shape_at(sizes)), tensor.dtype, copy=False)
            for tensor in tensors
        }

    return Distribution(name, reason, draw, role=role)


def usual_distributions(
    tensors: Sequence[Tensor], large_scale: float = 1e15, tiny_scale: float = 1e-15, axis: int = -1
) -> tuple[Distribution, ...]:
    """The typical distribution and the hostile ones that suit most problems; `axis` is the one summed over."""
    return (
        distribution("normal", "standard normal values", tensors, normal()),
        distribution("large", f"normal values times {large_scale:g}", tensors, large(large_scale)),
        distribution("tiny", f"normal values times {tiny_scale:g}", tensors, tiny(tiny_scale)),
        distribution(
            "cancellation", "pairs that cancel, so that sums are small against terms", tensors, cancellation(axis)
        ),
        distribution("signed_zeros", "+0, -0 and small values mixed", tensors, signed_zeros()),
        distribution("constant_rows", "one value for each row", tensors, constant_rows()),
    )


def probe(
    name: str,
    reason: str,
    tensors: Sequence[Tensor],
    maker: Maker,
    tolerance: Tolerance,
    sizes: Sizes,
    own: Mapping[str, Maker] | None = None,
) -> Probe:
    """A probe that draws each of `tensors` by its maker in `own`, else by `maker`."""
    return Probe(distribution(name, reason, tensors, maker, own), tolerance, sizes)


_AWKWARD: Final = (
    *(3, 5, 7, 13, 17, 31, 33, 61, 63, 65, 95, 97, 127, 129, 191, 193, 251, 255, 257, 509, 511, 513, 767, 769, 1021),
    *(1023, 1025, 2039, 2047, 2049, 4093, 4095, 4097, 8191, 8193, 16381, 16385, 32749, 32769, 65521, 65535, 65537),
    *(131071, 131073, 262139, 262143, 262145, 524287, 524289, 1048573, 1048577),
)
"""Primes, and one off the multiples of 32 and 256."""
_ROUND: Final = (*(1 << power for power in range(1, 18)), *(3 << power for power in range(1, 16)))
"""Exact multiples of blocks and tiles; 0, 2, 4 or 6 more give every even residue of 8."""
_LAST_OF_ONE: Final = 0.2
"""Of a pool: where there is one name, from there on a vector has room for many blocks of a thousand."""
_LAST_OF_MANY: Final = 0.34
"""Likewise where there are several names, whose sizes multiply."""


def _even(most: int, generator: np.random.Generator) -> int:
    """A multiple of a power of two or a little more, up to half of `most`: the last awkward ones stay the largest."""
    pool = [value for value in _ROUND if value <= most // 2] or [most]
    return min(most, int(generator.choice(pool)) + int(generator.choice((0, 0, 2, 4, 6))))


def hidden_sizes(**most: int) -> Callable[[np.random.Generator], tuple[Sizes, ...]]:
    """Sizes that only the referee knows, each name between 1 and its `most`.

    All ones; where there are several names, each of them 1 once with the others awkward (a prime, or one off a
    multiple of 32 or 256); two awkward ones; one of the last awkward ones that `most` admits, square where names have
    the same limit; and one even or drawn log-uniformly. Keep the product small: the simulator does about 2e9
    thread-instructions a second.
    """
    pools = {name: [value for value in _AWKWARD if value <= limit] or [limit] for name, limit in most.items()}

    def draw(generator: np.random.Generator) -> tuple[Sizes, ...]:
        def awkward(of_last: float = 1.0) -> dict[str, int]:
            return {
                name: int(generator.choice(pool[-math.ceil(of_last * len(pool)) :])) for name, pool in pools.items()
            }

        sizes: list[dict[str, int]] = [dict.fromkeys(most, 1)]
        if len(most) > 1:
            sizes += [awkward() | {name: 1} for name in most]
        large = awkward(_LAST_OF_ONE if len(most) == 1 else _LAST_OF_MANY)
        square = {name: large[next(other for other in most if most[other] == most[name])] for name in most}
        sizes += [awkward(), awkward(), square]
        if generator.random() < 0.5:
            sizes.append({name: _even(limit, generator) for name, limit in most.items()})
        else:
            sizes.append({name: math.ceil(limit ** generator.random()) for name, limit in most.items()})
        return tuple(dict(entry) for entry in {tuple(entry.items()): entry for entry in sizes}.values())

    return draw


def exact(reason: str = "No rounding is needed, so every bit counts (+0 and -0 are equal).") -> Tolerance:
    """Nothing but the expected value."""
    return Tolerance(0.0, 0.0, reason)


def roundings(count: float, why: str, absolute: float = SMALLEST_NORMAL) -> Tolerance:
    """Element-wise functions: at most `count` float32 roundings, each of at most 2**-24 of the scale."""
    return Tolerance(
        count * EPSILON,
        absolute,
        f"Admits {count:g} float32 roundings (2^-24 of the scale each): {why}. "
        f"The absolute part admits denormals that are flushed to zero.",
    )


def longer_sums(terms: int, chain: int) -> float:
    """What the scale of a sum is multiplied by where its terms are more than the `chain` of its `summation`.

    So that adding them in order is right at every length, and short sums are judged as strictly as without it.
    """
    return math.sqrt(max(1.0, terms / chain))


def summation(chain: int, extra: float = 4.0, absolute: float = SMALLEST_NORMAL, why: str = "") -> Tolerance:
    """Sums of independent terms in any order whose longest chain of additions is at most `chain`.

    Each addition rounds by at most 2**-24 of a partial sum. Partial sums of terms of both signs stay within a few
    times the 2-norm of the terms, and the roundings add up like a random walk: about 0.4 * sqrt(chain) * 2**-24 of
    the 2-norm (root mean square). The factor 4 puts the limit ten of those away. Where a sum is by chance several
    times the 2-norm, its partial sums were as large, and so are their roundings: one of millions of elements is
    always such. So the scale counts the sum itself as one more term. `extra` admits the roundings that make each term
    and finish the result; `why` says what they are.
    """
    return Tolerance(
        float(random_walk(chain, extra)),
        absolute,
        f"Admits any order of summation in float32 with chains of up to {chain} additions: "
        f"(4 * sqrt({chain}) + {extra:g}) * 2^-24 of the 2-norm of the terms and the sum; of a sum of fewer terms "
        f"that count, or of more, with their number in place of {chain}. "
        + (f"{why} " if why else "")
        + "The absolute part admits denormals that are flushed to zero.",
    )


def one_term(count: float = 4.0, absolute: float = SMALLEST_NORMAL) -> Tolerance:
    """For probes: one term of each output outweighs the rest, so that adding is exact and few roundings remain."""
    return Tolerance(
        count * EPSILON,
        absolute,
        f"Next to one term of each output the others come to nothing, so {count:g} roundings of 2^-24 are enough in "
        "any order; TF32, float16 and bfloat16 inside are off by at least 2^-13, 16 bits by at least 2^-18.",
    )
