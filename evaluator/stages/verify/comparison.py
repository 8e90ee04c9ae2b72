"""Comparing one output with the oracle: is it right, where is it wrong, and how does that look."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from common.contract import Mismatch
from evaluator.problems.arrays import Array, element_bytes, namespace, to_numpy, widened
from evaluator.problems.problem import Expected, Tolerance

_OnHost: TypeAlias = NDArray[Any]

_HEAT_CELLS: Final = 48
_TINY: Final = 2.0**-1022
"""Smallest normal float64."""
_LEANS_FROM: Final = 0.9
"""The cosine between errors and answers from which on they are taken for one another's multiples. Roundings have one
near 0, and an eps of another value one near 1, also where something is added behind, such as a bias."""
_LEANS_OF: Final = 16
"""Elements, at least: roundings of fewer may all have one sign."""
SURELY_RIGHT: Final = 1 - 2.0**-40
"""An error over the allowed one that roundings cannot have brought below 1. A NaN is not below it."""


@dataclass(frozen=True)
class Comparison:
    """One output against the oracle."""

    worst_error: float | None
    """Largest error over the allowed error; None where an element is not finite."""
    mismatch: Mismatch | None
    leaning: float | None = None
    """Where the errors of a wrong output are about one share of its elements, and no scatter: that share, below 0
    where the elements are too small."""


def compare_output(name: str, actual: Array, expected: Expected, tolerance: Tolerance, poison: int) -> Comparison:
    """Judge `actual`: every element within `relative * scale + absolute` of the oracle, none NaN or infinite.

    `poison` is the byte that outputs were made of before the run: elements that still hold it were never written.
    Works where the arrays are, numpy's or torch's; what is wrong is copied to the host and described there.
    """
    judged = _judge(actual, expected, tolerance)
    if judged.right is None:
        return Comparison(judged.worst, None)
    if expected.whole is not None:
        return compare_output(name, actual, expected.whole(), tolerance, poison)
    right, wanted, ratio = to_numpy(judged.right), to_numpy(judged.wanted), to_numpy(judged.ratio)
    unwritten = ~right & to_numpy(is_poison(actual, poison))
    return _described(name, to_numpy(actual), wanted, ~right, ratio, unwritten)


@dataclass(frozen=True)
class _Judged:
    """Every element held against the oracle."""

    worst: float
    right: Array | None
    """Which elements are; None where all are."""
    wanted: Array
    ratio: Array


def _judge(actual: Array, expected: Expected, tolerance: Tolerance) -> _Judged:
    actual = widened(actual)
    xp, shape = namespace(actual), tuple(actual.shape)
    wanted = xp.broadcast_to(expected.value, shape)
    with np.errstate(all="ignore"):
        error = xp.abs(xp.astype(actual, xp.float64, copy=False) - xp.astype(wanted, xp.float64, copy=False))
        if xp.isdtype(actual.dtype, "integral"):
            # Large integers that differ may be one number in float64.
            same = xp.astype(actual, xp.int64) == xp.astype(wanted, xp.int64)
            error = xp.where(same, error, xp.maximum(error, 1.0))
        allowed = xp.broadcast_to(xp.astype(tolerance.allowed(expected), xp.float64, copy=False), shape)
        # `_TINY` changes no allowance but 0, of which it makes something to divide 0 by.
        ratio = error / (allowed + _TINY)
        worst = float(xp.max(ratio))
        if worst < SURELY_RIGHT:
            return _Judged(worst, None, wanted, ratio)
        right = error <= allowed
        if bool(xp.all(right)):
            return _Judged(worst, None, wanted, ratio)
        # Where nothing is allowed, no number says how far off a wrong element is.
        ratio = xp.where(error == 0, 0.0, xp.where(allowed == 0, np.inf, ratio))
    return _Judged(worst, right, wanted, ratio)


def compare_elements(
    name: str,
    shape: tuple[int, ...],
    elements: NDArray[np.int64],
    actual: _OnHost,
    expected: Expected,
    tolerance: Tolerance,
    poison: int,
    unwritten: int = 0,
) -> Comparison:
    """Judge some elements of an output of `shape`: those at the flat indices `elements`, sorted, all 1-D.

    `unwritten`: how many of all elements are known to hold poison still; one of them at least is among these.
    """
    judged = _judge(actual, expected, tolerance)
    if judged.right is None:
        return Comparison(judged.worst, None)
    if expected.whole is not None:
        return compare_elements(name, shape, elements, actual, expected.whole(), tolerance, poison, unwritten)
    wrong, poisoned = ~judged.right, is_poison(actual, poison)
    found = _described(name, actual, judged.wanted, wrong, judged.ratio, wrong & poisoned)
    assert found.mismatch is not None
    total = int(np.prod(shape, dtype=np.int64))
    first_wrong = int(np.argmax(wrong & poisoned if unwritten else wrong))
    first = tuple(int(i) for i in np.unravel_index(int(elements[first_wrong]), shape))
    place = str(first[0]) if len(first) == 1 else str(first)
    if unwritten:
        pattern = f"{unwritten} of {total} elements were never written, the first at {place}"
    else:
        pattern = (
            f"{found.mismatch.wrong_count} of the {actual.size} elements that were compared (of {total}) are wrong, "
            f"the first at {place}"
        )
    index = np.unravel_index(int(elements[found.mismatch.index[0]]), shape)
    mismatch = found.mismatch.model_copy(
        update={
            "index": tuple(int(i) for i in index),
            "shape": shape,
            "count": total,
            "wrong_count": max(found.mismatch.wrong_count, unwritten),
            "pattern": pattern,
            "heat": (),
        }
    )
    return replace(found, mismatch=mismatch)


def _described(
    name: str, actual: _OnHost, wanted: _OnHost, wrong: _OnHost, ratio: _OnHost, unwritten: _OnHost
) -> Comparison:
    actual = widened(actual)
    badness = np.where(wrong, np.where(np.isfinite(ratio), ratio, np.inf), -1.0)
    worst = int(np.argmax(badness))
    finite = bool(np.isfinite(ratio[wrong]).all())
    index = tuple(int(i) for i in np.unravel_index(worst, actual.shape))
    mismatch = Mismatch(
        output=name,
        shape=actual.shape,
        index=index,
        expected=_digits(wanted[index]),
        actual=_digits(actual[index]),
        error=float(ratio[index]) if np.isfinite(ratio[index]) else None,
        wrong_count=int(wrong.sum()),
        count=int(actual.size),
        pattern=where_wrong(wrong) + _nature(actual, wrong, unwritten),
        heat=heat(wrong) if wrong.size > 1 else (),
    )
    return Comparison(float(ratio.max()) if finite else None, mismatch, _leaning(actual, wanted))


def _leaning(actual: _OnHost, wanted: _OnHost) -> float | None:
    if actual.dtype.kind != "f" or actual.size < _LEANS_OF or not np.isfinite(actual).all():
        return None
    answer = wanted.astype(np.float64).reshape(-1)
    error = actual.astype(np.float64).reshape(-1) - answer
    most, largest = float(np.abs(error).max()), float(np.abs(answer).max())
    if not (0 < most < np.inf and 0 < largest < np.inf):
        return None
    answer, error = answer / largest, error / most  # whose squares are numbers
    along, squares = error * answer, float(answer @ answer)
    cosine = float(along.sum()) / math.sqrt(squares * float(error @ error))
    # Of a few elements that are far larger than all others the errors may have one sign as well.
    counting = float(np.abs(along).sum()) ** 2 / max(float(along @ along), _TINY)
    if abs(cosine) < _LEANS_FROM or counting < _LEANS_OF:
        return None
    return float(along.sum()) / squares * most / largest


def _digits(value: object) -> str:
    """Enough digits to tell neighbours apart."""
    if isinstance(value, np.floating):
        return f"{float(value):.9g}"
    return str(value)


def is_poison(actual: Array, poison: int) -> Array:
    """For each element: does it consist of the byte `poison` alone?"""
    size = actual.dtype.itemsize
    pattern = int.from_bytes(bytes([poison]) * size, "little", signed=True)
    return actual.view(getattr(namespace(actual), f"int{8 * size}")) == pattern


def _nature(actual: _OnHost, wrong: _OnHost, unwritten: _OnHost) -> str:
    """What the wrong elements have in common, beside their place."""
    values = actual[wrong]
    if values.size == 1:
        return "; it was never written" if unwritten.any() else ""
    if unwritten.sum() == wrong.sum():
        return "; none of them was ever written"
    if unwritten.any():
        return f"; {int(unwritten.sum())} of them were never written"
    if values.dtype.kind == "f" and np.isnan(values).all():
        return "; all of them are NaN"
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        return "; some of them are NaN or infinite"
    if not values.any():
        return "; all of them are 0"
    return ""


def where_wrong(wrong: _OnHost) -> str:
    """Where the true elements of `wrong` lie, in words."""
    flat = np.flatnonzero(wrong)
    count, total = len(flat), wrong.size
    if count == total:
        return f"all {total} elements are wrong" if total > 1 else "the only element is wrong"
    first, last = int(flat[0]), int(flat[-1])
    by_axis = _along_axis(wrong) if wrong.ndim > 1 else None
    if by_axis is not None:
        return by_axis
    if last - first + 1 == count:
        if last == total - 1:
            return (
                f"only the last {count} of {total} elements are wrong"
                if count > 1
                else "only the last element is wrong"
            )
        if first == 0:
            return f"only the first {count} of {total} elements are wrong" if count > 1 else "only element 0 is wrong"
        return f"elements {first} to {last} of {total} are wrong" if count > 1 else f"only element {first} is wrong"
    step = int(np.gcd.reduce(np.diff(flat)))
    if count > 2 and step > 1 and (last - first) // step + 1 == count:
        return f"every {_ordinal(step)} element from {first} to {last} is wrong ({count} of {total})"
    return f"{count} of {total} elements are wrong, the first at {_index(wrong, first)}"


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"


def _index(wrong: _OnHost, flat: int) -> str:
    index = tuple(int(i) for i in np.unravel_index(flat, wrong.shape))
    return str(index[0]) if len(index) == 1 else str(index)


def _along_axis(wrong: _OnHost) -> str | None:
    """`wrong` as whole slices along one axis: the last columns, the rows from 32 on."""
    for axis in range(wrong.ndim):
        others = tuple(a for a in range(wrong.ndim) if a != axis)
        touched, full = wrong.any(axis=others), wrong.all(axis=others)
        if not np.array_equal(touched, full) or touched.all():
            continue
        hits = np.flatnonzero(touched)
        extent = wrong.shape[axis]
        name = "column" if wrong.ndim == 2 and axis == 1 else "row" if wrong.ndim == 2 else f"slice of axis {axis}"
        plural = name.replace("slice", "slices") if "slice" in name else name + "s"
        if len(hits) == 1:
            return f"only {name} {int(hits[0])} of {extent} is wrong, all of it"
        if int(hits[-1]) - int(hits[0]) + 1 == len(hits):
            return f"all of the {plural} {int(hits[0])} to {int(hits[-1])} of {extent} are wrong, the others right"
        return f"{len(hits)} of {extent} {plural} are wrong, the first is {int(hits[0])}"
    return None


def heat(wrong: _OnHost) -> tuple[tuple[float, ...], ...]:
    """Share of wrong elements over the shape, at most 48 x 48 cells; a vector is laid out in rows."""
    plane: _OnHost
    weight: _OnHost
    if wrong.ndim > 1:
        plane = wrong.reshape(-1, wrong.shape[-1]).astype(np.float64)
        weight = np.ones_like(plane)
    else:
        columns = min(wrong.size, max(1, int(np.ceil(np.sqrt(wrong.size)))))
        rows = -(-wrong.size // columns)
        padded = np.zeros(rows * columns)
        padded[: wrong.size] = wrong
        weight = np.zeros(rows * columns)
        weight[: wrong.size] = 1
        plane, weight = padded.reshape(rows, columns), weight.reshape(rows, columns)
    for axis in (0, 1):
        extent = plane.shape[axis]
        cells = min(extent, _HEAT_CELLS)
        edges = np.linspace(0, extent, cells + 1).astype(np.int64)[:-1]
        plane, weight = np.add.reduceat(plane, edges, axis=axis), np.add.reduceat(weight, edges, axis=axis)
    share = np.divide(plane, weight, out=np.zeros_like(plane), where=weight > 0)
    return tuple(tuple(round(float(cell), 4) for cell in row) for row in share)


@dataclass(frozen=True)
class RunDifference:
    """Where two runs on the same input, with different undefined memory, gave other bits."""

    output: str
    element: int
    """The first that counts."""
    unwritten: bool
    """Whether it holds in both what undefined memory was made of."""
    count: int
    """Elements of this output that differ."""
    total: int


def first_difference(
    first: Mapping[str, Array], second: Mapping[str, Array], poisons: tuple[int, int], unwritten_too: bool
) -> RunDifference | None:
    """The first difference of two runs; `unwritten_too`: also of elements that hold poison in both."""
    for name, one in first.items():
        xp = namespace(one)
        differing = xp.any(element_bytes(one) != element_bytes(second[name]), axis=-1)
        if not bool(xp.any(differing)):
            continue
        differ = to_numpy(differing).reshape(-1)
        unwritten = to_numpy(is_poison(one, poisons[0]) & is_poison(second[name], poisons[1])).reshape(-1)
        elements = np.flatnonzero(differ if unwritten_too else differ & ~unwritten)
        if len(elements):
            element = int(elements[0])
            return RunDifference(name, element, bool(unwritten[element]), int(differ.sum()), differ.size)
    return None


def all_written(first: Mapping[str, Array], second: Mapping[str, Array], poisons: tuple[int, int]) -> bool:
    """Whether no element holds what undefined memory was made of in both runs."""
    return not any(bool((is_poison(first[n], poisons[0]) & is_poison(second[n], poisons[1])).any()) for n in first)


def in_words(mismatch: Mismatch, tolerance: Tolerance) -> str:
    """Which elements are wrong, the worst of them, and how far it is off."""
    index = ", ".join(map(str, mismatch.index))
    how_far = "" if mismatch.error is None else f", {mismatch.error:.3g} times the allowed error"
    if tolerance.relative == tolerance.absolute == 0 or _must_be_exact(mismatch):
        how_far = ", and must be exact"
    worst = f"{mismatch.output}[{index}] is {mismatch.actual}, expected {mismatch.expected}{how_far}"
    return f"{mismatch.pattern}. Worst: {worst}."


def _must_be_exact(mismatch: Mismatch) -> bool:
    """Whether what is allowed there is nothing that a result could be off by, as for whole numbers.

    The ratio says no more then than how small a number was added to 0.
    """
    if mismatch.error is None:
        return False
    off = abs(float(mismatch.actual) - float(mismatch.expected))
    return off < _LEAST_ALLOWED * mismatch.error


_LEAST_ALLOWED: Final = 1e-30
"""Below it float32 has a few numbers left: an allowance that is less stands for none."""
