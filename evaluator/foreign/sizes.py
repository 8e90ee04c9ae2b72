"""Other sizes than those that a file states: which of its constants can vary, and how shapes follow them.

A kernel may rely on the shapes that a file of someone else states. Whether it is right at others is a fact of its
own, which takes others at which the file itself runs, and where every shape follows from the sizes by a formula.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import count
from typing import Final, TypeAlias

import numpy as np

from common.expressions import ExpressionError, evaluate_expression
from evaluator.foreign.description import Description
from evaluator.foreign.reference import ReferenceEndedError, ReferenceRefusedError, ReferenceTooLargeError

Described: TypeAlias = Callable[[Mapping[str, int]], Description]
"""The file with these values of its constants. Raises ReferenceRefusedError, InfrastructureError."""

MOST_WORK: Final = 1 << 29
"""Operations, and words of memory that move, at which the simulator judges a problem as published: some seconds."""
_MOST_ELEMENTS: Final = 1 << 22
"""Of all tensors of a problem as published: calibration moves each some hundred times, in half a minute."""
_REDUCED_WORK: Final = 1 << 21
"""Of a problem that is too large as published: calibration and all trials then take seconds."""
_REDUCED_ELEMENTS: Final = 1 << 18
_WORTH: Final = 0.9
"""A halving that leaves more than this of what is too much is none: images of one pixel, on which a norm says
nothing, would not make a deep network small."""
_LEAST_HALVED: Final = 3
"""Sizes up to this are not halved: of one row nothing shows a kernel that computes no other."""
_HALVINGS: Final = 96
"""Of which those of what nothing hangs on are a part."""
_MOST_RUNS: Final = 48
"""Of the file while it is learned what can vary: milliseconds each for small files."""
_LEARNING_S: Final = 20.0
"""Then what has not been tried yet does not vary."""
_STEPS: Final = (1, 2, 4, 8, 16, 32, 64)
"""What a size may have to be a multiple of: heads, groups, vectors."""
_SETS: Final = 3
_TRIES: Final = 8
"""Draws of one set of sizes until the file runs there."""
_SET_WORK: Final = 1 << 22
"""Of one trial at other sizes: a tenth of a second."""
_LEAST_REACH: Final = 8
"""A size that is published as less varies up to this."""
SHARES: Final = ("largest_in_model", "largest_in_inputs")
"""The largest of a file's numbers without a name, which are all made smaller together."""
_DIVISORS: Final = range(2, 9)
_SHIFTS: Final = range(-16, 17)
"""Of strides and of what windows take off at the edges."""


@dataclass(frozen=True)
class VariedSizes:
    """What varies, and the formulas."""

    steps: Mapping[str, int]
    """For each constant that may vary what it has to be a multiple of."""
    shapes: Mapping[str, tuple[str, ...]]
    """For each tensor its extents, as expressions over the sizes."""


def constants_of(base: Description, sizes: Mapping[str, int]) -> dict[str, int]:
    """What the process needs to know of `sizes`: the others follow."""
    return {name: sizes[name] for name in base.reducible if name in sizes}


def work_of(described: Description) -> int:
    """Operations, and elements that move."""
    return described.flops + _elements(described)


def _excess(described: Description) -> float:
    """How many times what there should be of work and of elements; up to 1 nothing has to be made smaller."""
    work, elements = work_of(described) / _REDUCED_WORK, _elements(described) / _REDUCED_ELEMENTS
    return max(1.0, work) * max(1.0, elements)


def _elements(described: Description) -> int:
    return sum(math.prod(facts.shape) for facts in (*described.inputs, *described.outputs))


def afforded(described: Described) -> Description:
    """The file as published, or with its largest constants halved until it can be judged here.

    Raises ReferenceRefusedError for what cannot be halved so far.
    """
    too_large: ReferenceTooLargeError | None = None
    found: Description | None = None
    try:
        found = described({})
        if work_of(found) <= MOST_WORK and _elements(found) <= _MOST_ELEMENTS:
            return found
        stated, fixed = found.reducible, found.fixed
    except ReferenceTooLargeError as refused:
        stated, fixed, too_large = refused.constants, tuple(refused.fixed), refused
    failed: ReferenceRefusedError | None = None
    telling = _Telling(described)
    for way in (telling, described):
        if way is telling and found is not None and found.fault:
            continue  # it says nothing at any size
        if way is described and found is None and not telling.faults:
            break  # nothing is to be had that way which was not to be had before
        halving = _Halving(way, stated, found, too_large)
        for some in dict.fromkeys((tuple(name for name in stated if name not in fixed), tuple(stated))):
            # What was halved while all was too large still, and was never carried out, may have to be as it is.
            for largest_first in (True, False):
                fits, why = halving.tried(some, largest_first)
                if fits is not None:
                    return fits
                failed = why or failed
    assert too_large is not None
    if failed is None:
        raise too_large
    too_small = ReferenceTooLargeError(f"{too_large} With smaller numbers: {failed}", too_large.constants)
    too_small.at = failed.at
    raise too_small


class _Telling:
    """The file, refused at sizes at which its answer says nothing, such as a norm's over groups of one element.

    That is the file's own fault only where it says nothing at any.
    """

    def __init__(self, described: Described) -> None:
        self._described = described
        self.faults: list[str] = []

    def __call__(self, sizes: Mapping[str, int]) -> Description:
        found = self._described(sizes)
        if found.fault:
            self.faults.append(found.fault)
            raise ReferenceRefusedError(f"{found.fault}.")
        return found


@dataclass(frozen=True)
class _Halving:
    """Makes a file small enough, or as small as it can be."""

    described: Described
    stated: Mapping[str, int]
    """The numbers that can be halved."""
    found: Description | None
    """The file as stated, where that is not too large to run."""
    too_large: ReferenceTooLargeError | None
    """Why it is, where it is."""

    def tried(
        self, some: Sequence[str], largest_first: bool
    ) -> tuple[Description | None, ReferenceRefusedError | None]:
        """The file at the first sizes that are small enough, or at the smallest at which it runs; None where it runs
        at none. Beside it the last reason why it does not run at some. `some`: the names of what may be halved.
        `largest_first`: or those that the file states first.
        """
        sizes, found, before = dict(self.stated), self.found, self.too_large
        groups: list[tuple[str, ...]] = [(name,) for name in some]
        idle: list[tuple[str, ...]] = []
        failed: ReferenceRefusedError | None = None
        smaller_since = False
        for _ in range(_HALVINGS):
            left = [names for names in groups if sizes[names[0]] > _LEAST_HALVED]
            if not left and idle:
                # Of two that are equally large neither makes what is largest smaller by itself.
                groups = idle if smaller_since else _equal_together(idle, sizes)
                idle, smaller_since = [] if smaller_since else idle, False
                if groups:
                    continue
            if not left:
                break
            names = max(left, key=lambda names: sizes[names[0]]) if largest_first else left[0]
            tried = {**sizes, **{name: max(1, sizes[name] // 2) for name in names}}
            try:
                smaller = self.described(tried)
            except ReferenceTooLargeError as refused:
                if found is None and before is not None and refused.as_large_as(before):
                    # Nothing hangs on it so far, and it may be no size at all: it stays until others are smaller.
                    groups = [other for other in groups if other != names]
                    idle.append(names)
                    continue
                sizes, found, before, smaller_since = tried, None, refused, True
                continue
            except ReferenceRefusedError as refused:
                groups = [other for other in groups if other != names] + self._with_others(names, some)
                failed = refused
                continue
            if found is not None and 1.0 < _excess(smaller) > _WORTH * _excess(found):
                groups = [other for other in groups if other != names]
                continue
            sizes, found, smaller_since = tried, smaller, True
            if _excess(found) <= 1.0:
                break
        return found, failed

    def _with_others(self, names: tuple[str, ...], some: Sequence[str]) -> list[tuple[str, ...]]:
        """Where one number alone cannot be smaller: it must be as large as others that the file states with the same
        number; or what it must fit has no name, and is among the numbers of the model or of its inputs.
        """
        if len(names) > 1:
            return []
        (name,) = names
        equal = [
            other
            for other in some
            if self.stated[other] == self.stated[name] and other != name and other not in SHARES
        ]
        groups = [(name, *equal)] * bool(equal and name not in SHARES)
        return groups + [(name, share) for share in SHARES if share in some and share != name]


def _equal_together(groups: Sequence[tuple[str, ...]], sizes: Mapping[str, int]) -> list[tuple[str, ...]]:
    """Groups of equal size as one, those of the largest; none where there are no two."""
    largest = max((sizes[names[0]] for names in groups if len(names) == 1), default=0)
    equal = tuple(names[0] for names in groups if len(names) == 1 and sizes[names[0]] == largest)
    return [equal] if len(equal) > 1 and largest > 1 else []


def learned_sizes(base: Description, described: Described) -> VariedSizes:
    """What can vary around `base`, by running the file: nothing where that ends its process.

    Raises InfrastructureError.
    """
    try:
        return _learned(base, described)
    except ReferenceEndedError:
        return VariedSizes({}, shapes_as_stated(base))


def shapes_as_stated(described: Description) -> dict[str, tuple[str, ...]]:
    """Shapes in numbers."""
    return {facts.name: tuple(map(str, facts.shape)) for facts in (*described.inputs, *described.outputs)}


def _learned(base: Description, described: Described) -> VariedSizes:
    runs, until_s = count(1), time.monotonic() + _LEARNING_S

    def other(changed: Mapping[str, int]) -> Description | None:
        if next(runs) > _MOST_RUNS or time.monotonic() > until_s:
            return None
        try:
            found = described({**constants_of(base, base.sizes), **changed})
        except ReferenceEndedError:
            raise
        except ReferenceRefusedError:
            return None
        return found if _of_same_tensors(base, found) else None

    steps: dict[str, int] = {}
    seen: dict[str, list[Description]] = {}
    for name in base.constants:
        for step in _STEPS:
            if base.sizes[name] % step:
                break
            near = _near(base.sizes[name], step)
            found: list[Description] = []
            while len(found) < len(near) and (one := other({name: near[len(found)]})) is not None:
                found.append(one)
            if found and len(found) == len(near):
                if all(_input_shapes(one) != _input_shapes(base) for one in found):
                    steps[name], seen[name] = step, found
                break
    while True:
        together = [_joint(base, steps, other, turn) for turn in range(2)]
        joint = [one for one in together if one is not None]
        observed = [base, *(one for name in steps for one in seen[name]), *joint]
        shapes: dict[str, tuple[str, ...]] = {}
        unclear: set[str] = set()
        for at, facts in enumerate((*base.inputs, *base.outputs)):
            extents = []
            for axis in range(len(facts.shape)):
                values = [(one.sizes, (*one.inputs, *one.outputs)[at].shape[axis]) for one in observed]
                formula, culprits = _formula(base, values, tuple(steps), bool(joint))
                extents.append(formula)
                unclear |= culprits
            shapes[facts.name] = tuple(extents)
        if not unclear:
            return VariedSizes(steps, shapes)
        # Of a window and what it slides over, the window stays as it is.
        del steps[min(unclear, key=lambda name: base.sizes[name])]


def drawn_sizes(
    generator: np.random.Generator, base: Description, varied: VariedSizes, described: Described
) -> tuple[Mapping[str, int], ...]:
    """A few sets of all sizes, at which the file runs and every shape follows its formula; `base` is none of them.

    Raises InfrastructureError.
    """
    drawn: list[Mapping[str, int]] = []
    for turn in range(_SETS):
        for attempt in range(_TRIES):
            # Where the constants hang together, one at a time may still vary.
            names = tuple(varied.steps)
            some = names if attempt < _TRIES // 2 else (names[int(generator.integers(len(names)))],) if names else ()
            sizes = _drawn(generator, base, {name: varied.steps[name] for name in some}, larger=turn == 0)
            if sizes is None:
                continue
            try:
                found = described(sizes)
            except ReferenceEndedError:
                return tuple(drawn)  # to try again could take a minute each time
            except ReferenceRefusedError:
                continue
            cheap = work_of(found) <= max(_SET_WORK, 2 * work_of(base))
            if cheap and found.sizes not in (base.sizes, *drawn) and follows(found, base, varied):
                drawn.append(found.sizes)
                break
    return tuple(drawn)


def follows(found: Description, base: Description, varied: VariedSizes) -> bool:
    """Whether a description has the tensors of `base`, in the shapes that the formulas give."""
    if not _of_same_tensors(base, found) or not set(base.sizes) <= set(found.sizes):
        return False
    try:
        return all(
            facts.shape == tuple(evaluate_expression(text, found.sizes) for text in varied.shapes[facts.name])
            for facts in (*found.inputs, *found.outputs)
        )
    except ExpressionError:
        return False


def _drawn(
    generator: np.random.Generator, base: Description, steps: Mapping[str, int], larger: bool
) -> dict[str, int] | None:
    """All constants, those of `steps` drawn, small ones as often as large ones, and not too much in all.

    `larger`: one of them above `base`. None where nothing can be drawn.
    """
    sizes = constants_of(base, base.sizes)
    if not steps:
        return None
    leading = list(steps)[int(generator.integers(len(steps)))] if larger else ""
    for name, step in steps.items():
        times = max(base.sizes[name], _LEAST_REACH) // step
        if name == leading:
            sizes[name] = base.sizes[name] + step * int(generator.integers(1, max(2, times // 2)))
        else:
            drawn = round(float(np.exp(generator.uniform(0.0, math.log(max(1, times) + 0.5)))))
            sizes[name] = step * max(1, min(times, drawn))
    while math.prod(sizes[name] / base.sizes[name] for name in steps) * work_of(base) > _SET_WORK:
        others = [name for name in steps if name != leading and sizes[name] > steps[name]]
        if not others:
            break
        largest = max(others, key=lambda name: sizes[name] // steps[name])
        sizes[largest] = max(1, sizes[largest] // steps[largest] // 2) * steps[largest]
    return sizes


def _near(value: int, step: int) -> tuple[int, ...]:
    """Three other multiples of `step`, odd and even ones, so that no division by two agrees by chance."""
    times = value // step
    if times < 4:
        return tuple(step * other for other in (3, 5, 6, 7) if other != times)[:3]
    less = times - 1 if times % 2 == 0 else times - 2
    half = (times // 2) | 1
    others = dict.fromkeys((less, less - 1, half if half != times else 1))
    return tuple(step * other for other in others)


def _joint(
    base: Description, steps: Mapping[str, int], other: Callable[[Mapping[str, int]], Description | None], turn: int
) -> Description | None:
    """The file with all that varies varied at once, each by another share: products differ from sums there."""
    if len(steps) < 2:
        return None
    changed = {}
    for at, (name, step) in enumerate(steps.items()):
        times = base.sizes[name] // step
        changed[name] = step * (max(1, times // 2 + at) if turn == 0 else times + 1 + at)
    return other(changed)


def _input_shapes(described: Description) -> tuple[tuple[int, ...], ...]:
    return tuple(facts.shape for facts in described.inputs)


def _of_same_tensors(one: Description, other: Description) -> bool:
    """Whether names, types and axes are the same, so that a kernel has the same parameters."""

    def faces(described: Description) -> list[object]:
        tensors = (*described.inputs, *described.outputs)
        return [
            (
                facts.name,
                facts.dtype,
                len(facts.shape),
                facts.kind,
                facts.kind == "argument" and (facts.fixed or facts.draw.kind),
            )
            for facts in tensors
        ]

    return faces(one) == faces(other)


def _formula(
    base: Description, values: Sequence[tuple[Mapping[str, int], int]], names: Sequence[str], joint: bool
) -> tuple[str, set[str]]:
    """An expression that gives each value at its sizes, or the names on which the value hangs without one."""
    sizes, value = values[0]
    slopes: dict[str, Fraction] = {}
    for name in names:
        for there, found in values:
            alone = all(there[one] == sizes[one] for one in names if one != name)
            if alone and there[name] != sizes[name] and found != value:
                slopes[name] = Fraction(found - value, there[name] - sizes[name])
    if not slopes:
        if all(found == value for _, found in values):
            return str(value), set()
        return str(value), set(names)
    for text in _candidates(sizes, value, slopes):
        if (joint or len(slopes) == 1) and _gives(text, values):
            return text, set()
    return str(value), set(slopes)


def _candidates(sizes: Mapping[str, int], value: int, slopes: Mapping[str, Fraction]) -> list[str]:
    """`2 * M * N`, `H - K + 1`, `(H + 1) // 2`, the simplest first."""
    share = Fraction(value, math.prod(sizes[name] for name in slopes))
    product = " * ".join([*([str(share.numerator)] if share.numerator != 1 else []), *slopes])
    candidates = [product] if share.denominator == 1 else []
    if all(slope.denominator == 1 for slope in slopes.values()):
        rest = value - sum(int(slope) * sizes[name] for name, slope in slopes.items())
        terms = [
            f"{'-' if slope < 0 else '+'} {f'{abs(slope)} * ' * (abs(slope) != 1)}{name}"
            for name, slope in sorted(slopes.items(), key=lambda each: each[1] < 0)
        ]
        text = " ".join(terms + ([f"{'-' if rest < 0 else '+'} {abs(rest)}"] if rest else []))
        candidates.append(text.removeprefix("+ ") if text.startswith("+") else f"0 {text}")
    if len(slopes) == 1:
        (name,) = slopes
        candidates += [f"{name} // {divisor}" for divisor in _DIVISORS]
        candidates += [f"({name} {'-' if by < 0 else '+'} {abs(by)}) // {d}" for d in _DIVISORS for by in _SHIFTS]
    return [*candidates, f"{product} // {share.denominator}"]


def _gives(text: str, values: Sequence[tuple[Mapping[str, int], int]]) -> bool:
    try:
        return all(evaluate_expression(text, sizes) == found for sizes, found in values)
    except ExpressionError:
        return False
