"""Many distributions in one tensor: what trials hold that are too dear to be repeated for each distribution.

At the size of the timing, and at edges, there is one trial or two. Were their inputs of one kind, a kernel could
treat all others wrongly there. So their rows (or stretches of a vector) come from all distributions of the problem.
"""

from collections.abc import Callable, Sequence
from typing import Final

from evaluator.problems.arrays import Array, Rng, Shape, put, to_numpy
from evaluator.problems.generators import Maker, distribution, fine, normal
from evaluator.problems.problem import Distribution, Sizes, Tensor
from evaluator.problems.structured import FEW_MATTER, few_matter

STRETCH: Final = 1024
"""Elements of a vector that come from one distribution: a page of floats, and what `special_parts` is made of."""
TILE: Final = 16
"""Rows of a factor that come from one distribution: a kernel may judge a tile of so many rows by a look at it."""
_DENSITIES: Final = (1 / 128, 1 / 32, 1 / 8)
"""Of 16 elements looked at, 9 times in 10, 6 times in 10 and 1 time in 10 none is there."""
SPARSE: Final = "values of which most are zero"


def sparse(rng: Rng, shape: Shape) -> Array:
    """Normal values of which most are zero: any few that one looks at probably are, and not all are."""
    density = _DENSITIES[int(rng.nearby().integers(0, len(_DENSITIES) - 1, (1,))[0])]
    zero = rng.uniform(0.0, 1.0, shape) >= density
    values = rng.normal(shape)
    put(values, zero, 0.0)
    return values


def mixture(
    distributions: Sequence[Distribution], tensors: Sequence[Tensor], split: str, group: int = 1
) -> Distribution:
    """Tensors whose first extent is `split` have, `group` rows at a time, the contents of all `distributions`.

    The other tensors are as the first of them draws them. Groups lie in a drawn order, the same in all tensors. Where
    they would be too few for all distributions they are of one row; where those are, who has one is drawn.
    """
    parted = [tensor for tensor in tensors if tensor.shape[0] == split]
    needed = {extent for tensor in parted for extent in tensor.shape}

    def draw(rng: Rng, sizes: Sizes) -> dict[str, Array]:
        xp, height = rng.xp, group if sizes[split] >= group * len(distributions) else 1
        groups = -(-sizes[split] // height)
        shares = _shares(rng, groups, len(distributions))
        drawn = distributions[0].draw(rng, {**sizes, split: max(1, shares[0]) * height})
        parts = {tensor.name: [drawn[tensor.name][: shares[0] * height]] for tensor in parted}
        few = {name: size if name in needed else 1 for name, size in sizes.items()}
        for one, share in zip(distributions[1:], shares[1:], strict=True):
            if share:
                content = one.draw(rng, {**few, split: share * height})
                for tensor in parted:
                    parts[tensor.name].append(content[tensor.name])
        order = xp.argsort(rng.uniform(0.0, 1.0, (groups,)))

        def mixed(whole: Array) -> Array:
            return xp.reshape(xp.reshape(whole, (groups, -1))[order], tuple(whole.shape))[: sizes[split]]

        return drawn | {name: mixed(xp.concat(content)) for name, content in parts.items()}

    return Distribution("mixture", f"each {split} from another distribution, all mixed", draw, role="mixed")


def product_mixture(tensors: Sequence[Tensor], distributions: Sequence[Distribution]) -> Distribution:
    """Tiles of rows of the left factor from all distributions, sparse ones, and ones with sums of a few units."""
    left = tensors[0].name
    few_units = "values over the square root of their number"
    more = (
        distribution("sparse", SPARSE, tensors, normal(), {left: sparse}),
        distribution("few_units", few_units, tensors, normal(), {left: _few_units}),
    )
    return mixture((*distributions, *more), tensors, "m", TILE)


def _few_units(rng: Rng, shape: Shape) -> Array:
    return rng.normal(shape) * shape[-1] ** -0.5


def few_matter_in(tensors: Sequence[Tensor]) -> Distribution:
    """Of each row of the first tensor few elements matter; all values need all 24 bits."""
    return distribution("few_matter", FEW_MATTER, tensors, fine(), {tensors[0].name: few_matter(fine())})


def mixed_rows(makers: Sequence[Maker]) -> Maker:
    """Rows along the last axis, each by one of `makers`, in a drawn order."""

    def make(rng: Rng, shape: Shape) -> Array:
        rows = 1
        for extent in shape[:-1]:
            rows *= extent
        shares = _shares(rng, rows, len(makers))
        each: list[tuple[Callable[[Rng, Shape], Array], int]] = list(zip(makers, shares, strict=True))
        content = rng.xp.concat([make_rows(rng, (share, shape[-1])) for make_rows, share in each if share])
        return rng.xp.reshape(content[rng.xp.argsort(rng.uniform(0.0, 1.0, (rows,)))], shape)

    return make


def _shares(rng: Rng, groups: int, kinds: int) -> list[int]:
    """How many groups each kind has; which have one more is drawn."""
    rank = to_numpy(rng.nearby().uniform(0.0, 1.0, (kinds,))).argsort().argsort()
    return [groups // kinds + (int(one) < groups % kinds) for one in rank]
