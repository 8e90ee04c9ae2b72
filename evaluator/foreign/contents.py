"""What the inputs of a problem of someone else hold: drawn as the file draws them, and arranged otherwise.

Nothing here leaves the range of the file's own draws: what a kernel may not meet there, it need not compute.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from common.wire import DType
from evaluator.foreign.description import Description, DrawnAs, TensorFacts
from evaluator.foreign.reference import ReferenceRefusedError
from evaluator.problems.arrays import Array, Rng, Shape, cast, namespace, on_device_of, rng_seed, to_numpy
from evaluator.problems.generators import Maker
from evaluator.problems.problem import Distribution, Sizes

Called: TypeAlias = Callable[[int, Sequence[str], Sizes], dict[str, Array]]
"""What the file itself makes of the inputs with these names, under a seed, at these sizes."""
InputsAt: TypeAlias = Callable[[Sizes], Sequence[TensorFacts]]
"""The inputs at these sizes."""

_ONE_SHAPE: Final = (
    "What a kernel writes has one shape at each set of sizes: return a mask, a count or a padded tensor in the place "
    "of what `nonzero`, `unique` or an index of truth values picks."
)
_TILES: Final = (16, 32, 64, 128, 256)
_SCALES: Final = 12.0
"""Powers of two over which values are spread: three decades and a half."""
_FEW: Final = 4
_AT_ENDS: Final = 0.5
"""Share of whole numbers that are at an end of their range."""
_FEW_BITS: Final = 6
"""Behind the leading one: a product of two such values, added a thousand times, is exact in float32."""
_STRETCH: Final = 32
_FAR: Final = 4.0
"""Standard deviations: one normal value in 16,000 lies further out."""
_TIES: Final = (
    "rows_of_one_value",
    "few_values",
    "extreme_ends",
    "few_far",
    "whole_numbers_at_ends",
    "few_whole_numbers",
)
"""Arrangements of which many values are equal."""
_FEW_FAR: Final = 6.0
"""Elements of a row that are far from zero, beside its first, its last and one near its end; and rows of a tensor."""
_NEAR_END: Final = 64
_OTHER_ROWS: Final = 2.0**-12
"""Of the range: a thousand such rows add up to a quarter of one that is whole, and none is zero, which a norm divides
by."""
_DRAWS: Final = 8
"""Until the file has an answer. One that has none to half of them is left out when it is learned, or soon met."""
_STEPS: Final = 8
"""Values of rows of one value lie near an eighth of the range's half, with so few bits that equal terms add up
exactly."""


def distributions_of(
    inputs: Sequence[TensorFacts], inputs_at: InputsAt, called: Called, with_ties: bool = True
) -> tuple[Distribution, ...]:
    """The typical distribution, and those that arrange the tensors among `forward`'s arguments otherwise.

    `with_ties`: also those that make many values equal.
    """
    arguments = [facts for facts in inputs if facts.kind == "argument"]
    movable = {facts.name for facts in arguments if facts.draw.kind in ("uniform", "normal")}
    whole = {facts.name for facts in arguments if facts.draw.kind == "integers"}
    kinds: tuple[tuple[str, str, Callable[[DrawnAs], Maker]], ...] = (
        ("as_drawn", "as the file draws it", _drawn),
        ("rows_of_one_value", "one value for each row, within the file's range", _rows_of_one_value),
        ("few_values", "four distinct values, so that many are equal", _few_values),
        ("sorted_stretches", "drawn as in the file, and sorted in stretches of 32", _sorted_stretches),
        ("several_scales", "magnitudes over three decades, within the file's range", _several_scales),
        ("extreme_ends", "the ends of the range where tiles of 16 to 256 begin and end", _extreme_ends),
        (
            "few_far",
            "nearly all zero or what is nearest to it, and few far from it: both ends and some others",
            _few_far,
        ),
    )
    of_whole: tuple[tuple[str, str, Callable[[DrawnAs], Maker]], ...] = (
        ("whole_numbers_at_ends", "whole numbers at the ends of their range", _whole_at_ends),
        ("few_whole_numbers", "four distinct whole numbers, both ends of their range among them", _few_whole),
    )
    arranged = [(movable, kind) for kind in (kinds if movable else kinds[:1])]
    arranged += [(whole, kind) for kind in (of_whole if whole else ())]
    return tuple(
        Distribution(name, reason, _drawing(inputs_at, moved, made, called))
        for moved, (name, reason, made) in arranged
        if with_ties or name not in _TIES
    )


def where_answered(
    distributions: Sequence[Distribution], has_answer: Callable[[dict[str, Array], Sizes], bool]
) -> tuple[Distribution, ...]:
    """The same, whose draws have a finite answer each: of a norm in the denominator a row of zeros has none.

    One draw shows only of what never has an answer that it has none. What has none again and again is drawn as the
    file does.
    """
    typical = distributions[0]

    def answered(one: Distribution) -> Distribution:
        def draw(rng: Rng, sizes: Sizes) -> dict[str, Array]:
            for _ in range(_DRAWS):
                inputs = one.draw(rng, sizes)
                if has_answer(inputs, sizes):
                    return inputs
            return typical.draw(rng, sizes)

        return replace(one, draw=draw)

    return (typical, *map(answered, distributions[1:]))


def digest_of(given: Mapping[str, Array], at: Sizes) -> bytes:
    """Of inputs and sizes."""
    digest = hashlib.blake2b(repr(sorted(at.items())).encode())
    for name, values in given.items():
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(to_numpy(values)).reshape(-1).view(np.uint8).data)
    return digest.digest()


def _drawing(
    inputs_at: InputsAt, moved: set[str], made: Callable[[DrawnAs], Maker], called: Called
) -> Callable[[Rng, Sizes], dict[str, Array]]:
    def draw(rng: Rng, sizes: Sizes) -> dict[str, Array]:
        inputs = inputs_at(sizes)
        asked = [facts.name for facts in inputs if facts.draw.kind == "called"]
        found = called(rng_seed(rng), asked, sizes) if asked else {}
        drawn: dict[str, Array] = {}
        for facts in inputs:
            if facts.name in found:
                drawn[facts.name] = on_device_of(rng.arange(1), found[facts.name].reshape(facts.shape))
            else:
                maker = made(facts.draw) if facts.name in moved else _drawn(facts.draw)
                drawn[facts.name] = _inside(cast(maker(rng, facts.shape), facts.dtype), facts)
        return drawn

    return draw


def _inside(values: Array, facts: TensorFacts) -> Array:
    """Below the end that a uniform draw does not reach, which a cast to fewer bits may round to."""
    if facts.draw.kind != "uniform" or facts.dtype is DType.FLOAT64 or not facts.dtype.is_float:
        return values
    own = np.dtype(facts.dtype.value).type
    end, xp = own(facts.draw.high), namespace(values)
    below = np.asarray(np.nextafter(end, own(facts.draw.low)))
    return xp.where(values >= float(end), on_device_of(values, below), values)


def _drawn(draw: DrawnAs) -> Maker:
    def make(rng: Rng, shape: Shape) -> Array:
        if draw.kind == "normal":
            return rng.normal(shape) * draw.std + draw.mean
        if draw.kind == "uniform":
            return rng.uniform(draw.low, draw.high, shape)
        if draw.kind == "permutation":
            return rng.xp.argsort(rng.uniform(0.0, 1.0, shape))
        return rng.integers(round(draw.low), round(draw.high), shape)

    return make


def _centre_and_reach(draw: DrawnAs) -> tuple[float, float]:
    """The middle of the range, and how far it goes from there; of normal values the usual range."""
    if draw.kind == "normal":
        return draw.mean, 2.0 * draw.std
    return (draw.low + draw.high) / 2, (draw.high - draw.low) / 2


def _step_of_few_bits(reach: float) -> float:
    """What values within this reach are multiples of that have `_FEW_BITS`; 0 where there is no room for any."""
    return 2.0 ** (math.floor(math.log2(reach)) - _FEW_BITS) if reach > 0 else 0.0


def _rows_of_one_value(draw: DrawnAs) -> Maker:
    centre, reach = _centre_and_reach(draw)
    step = _step_of_few_bits(reach)

    def make(rng: Rng, shape: Shape) -> Array:
        values = centre + reach * rng.integers(1 - _STEPS, _STEPS - 1, (*shape[:-1], 1)) / _STEPS
        values = rng.xp.round(values / step) * step if step else values
        return rng.xp.broadcast_to(values, shape)

    return make


def _few_values(draw: DrawnAs) -> Maker:
    """Of few bits: to add one value of many again and again biases the roundings of a sum in order."""
    centre, reach = _centre_and_reach(draw)
    step = _step_of_few_bits(reach)

    def make(rng: Rng, shape: Shape) -> Array:
        values = _drawn(draw)(rng, (_FEW,))
        if step:  # towards the middle, so that none leaves the range
            values = rng.xp.where(values < centre, rng.xp.ceil(values / step), rng.xp.floor(values / step)) * step
        return values[rng.integers(0, _FEW - 1, shape)]

    return make


def _sorted_stretches(draw: DrawnAs) -> Maker:
    """Short ones: the partial sums of a long sorted row go far beyond the 2-norm of its terms."""

    def make(rng: Rng, shape: Shape) -> Array:
        xp, values = rng.xp, _drawn(draw)(rng, shape)
        whole = shape[-1] // _STRETCH * _STRETCH
        # All at once: a row may have millions of them, and to ask a device for each takes minutes.
        stretches = xp.reshape(values[..., :whole], (*shape[:-1], -1, _STRETCH)) if whole else values[..., :0]
        sorted_whole = xp.reshape(xp.sort(stretches, axis=-1), (*shape[:-1], whole))
        if whole == shape[-1]:
            return sorted_whole
        return xp.concat([sorted_whole, xp.sort(values[..., whole:], axis=-1)], axis=-1)

    return make


def _several_scales(draw: DrawnAs) -> Maker:
    """Towards zero, or towards the value of the range that is nearest to it."""
    centre = 0.0 if draw.kind == "normal" else min(max(0.0, draw.low), draw.high)

    def make(rng: Rng, shape: Shape) -> Array:
        return centre + (_drawn(draw)(rng, shape) - centre) * 2.0 ** -rng.uniform(0.0, _SCALES, shape)

    return make


def _whole_at_ends(draw: DrawnAs) -> Maker:
    """Where a padding index, an ignored class and the last row of a table are, which are drawn once in thousands."""
    low, high = round(draw.low), round(draw.high)

    def make(rng: Rng, shape: Shape) -> Array:
        ends = rng.xp.where(rng.signs(shape) > 0, rng.integers(high, high, shape), rng.integers(low, low, shape))
        return rng.xp.where(rng.uniform(0.0, 1.0, shape) < _AT_ENDS, ends, rng.integers(low, high, shape))

    return make


def _few_whole(draw: DrawnAs) -> Maker:
    """So that many are equal: what adds to the same place must not lose any."""
    low, high = round(draw.low), round(draw.high)

    def make(rng: Rng, shape: Shape) -> Array:
        values = rng.xp.concat(
            [rng.integers(low, high, (_FEW - 2,)), rng.integers(low, low, (1,)), rng.integers(high, high, (1,))]
        )
        return values[rng.integers(0, _FEW - 1, shape)]

    return make


def _ends(draw: DrawnAs) -> tuple[float, float]:
    if draw.kind == "normal":
        return draw.mean - _FAR * draw.std, draw.mean + _FAR * draw.std
    return draw.low, math.nextafter(draw.high, draw.low)


def _few_far(draw: DrawnAs) -> Maker:
    """So that a long sum of one sign is made of few terms: one that is left out is told, however many there are."""
    low, high = _ends(draw)
    nearest = min(max(0.0, low), high)

    def make(rng: Rng, shape: Shape) -> Array:
        xp, (length, column) = rng.xp, (shape[-1], (*shape[:-1], 1))
        rows, place = math.prod(shape[:-1]), rng.arange(length)
        near_end = length - xp.floor(2.0 ** rng.uniform(0.0, math.log2(min(length, _NEAR_END)), column))
        far = (place == 0) | (place == length - 1) | (place == near_end)
        far = far | (rng.uniform(0.0, 1.0, shape) < _FEW_FAR / length)
        row = xp.reshape(rng.arange(rows), column)
        whole = (row == 0) | (row == rows - 1) | (rng.uniform(0.0, 1.0, column) < _FEW_FAR / rows)
        upwards = ((rng.signs(shape) > 0) | (low == nearest)) & (high != nearest)
        end = xp.where(upwards, rng.full(shape, high), rng.full(shape, low))
        distance = (end - nearest) * rng.uniform(0.5, 1.0, shape) * xp.where(whole, 1.0, _OTHER_ROWS)
        return nearest + xp.where(far, distance, 0.0)

    return make


def _extreme_ends(draw: DrawnAs) -> Maker:
    ends = _ends(draw)

    def make(rng: Rng, shape: Shape) -> Array:
        tile = _TILES[int(rng.integers(0, len(_TILES) - 1, (1,))[0])]
        places = rng.arange(shape[-1]) % tile
        extreme = rng.xp.where(rng.signs(shape) > 0, rng.full(shape, ends[1]), rng.full(shape, ends[0]))
        return rng.xp.where((places == 0) | (places == tile - 1), extreme, _drawn(draw)(rng, shape))

    return make


def in_described_shapes(
    name: str, described: Description, answer: Mapping[str, NDArray[Any]]
) -> Mapping[str, NDArray[Any]]:
    """`answer` in the shapes that were described. Raises ReferenceRefusedError where it has others."""
    found: dict[str, NDArray[Any]] = {}
    for at, facts in enumerate(described.outputs):
        for part in ("value", "scale"):
            array = answer.get(f"{part}_{at}")
            elements = math.prod(facts.shape)
            if array is None or array.size != elements:
                other = "is missing" if array is None else f"{array.size:,}"
                raise ReferenceRefusedError(
                    f"{name}: the shape of its answer hangs on what its inputs hold: '{facts.name}' has "
                    f"{elements:,} elements for some contents, and {other} for others.",
                    _ONE_SHAPE,
                )
            found[f"{part}_{at}"] = array.reshape(facts.shape)
    return found


def caveats_of_changed(inputs: Sequence[TensorFacts]) -> Iterator[str]:
    """What is to be said of inputs that `forward` changes in place."""
    names = ", ".join(f"'{one.name}'" for one in inputs if one.changed)
    if names:
        yield (
            f"the reference changes {names} in place: host code of a submission gets a copy, which it may change too "
            "and whose making is part of its time"
        )
