"""How far an honest kernel may be off, measured: float32 in several orders against float64 against lower precisions.

Errors count in roundings of float32 of an element's scale. See docs/foreign_problems.md.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from common.wire import DType
from evaluator.foreign.description import Description, TensorFacts
from evaluator.foreign.reference import ReferenceEndedError, ReferenceRefusedError
from evaluator.problems.error_bounds import EPSILON, random_walk
from evaluator.problems.generators import OWN_ROUNDING, SMALLEST_NORMAL

Computed: TypeAlias = Callable[[Mapping[str, NDArray[Any]], str], Mapping[str, NDArray[Any]]]

HONEST: Final = ("eager", "permuted 1", "permuted 2", "one accumulator")
"""Ways to compute in the file's own precision."""
LOWER_THAN: Final[Mapping[DType, tuple[str, ...]]] = {
    DType.FLOAT64: ("float32",),
    DType.FLOAT32: ("TF32", "bfloat16", "float16"),
    DType.FLOAT16: ("bfloat16",),
    DType.BFLOAT16: ("float16", "float8_e4m3fn", "truncated bfloat16"),
}
"""What a kernel could compute in to be fast, by the type of the output."""
_OF_TENSOR_CORES: Final = ("TF32", "bfloat16", "float16")
MARGIN: Final = 4.0
"""Between what is allowed and the worst that was measured of honest ways: there are more orders than were tried."""
TOLD_FROM: Final = 2.0
"""How many times the allowance a lower precision must be off, at the least of the inputs that were tried."""
_WELL_WITHIN: Final = 0.5
_ROUNDINGS: Final = 16.0
"""Beside those of the longest sum: as for our own problems, where the largest of millions of elements counts."""
_LEAST_ROUNDINGS: Final = 20.0
"""As for one sum of one term."""
_ABOVE_IN_ORDER: Final = 8.0
"""How far above the worst that sums in order were off by: other inputs, orders and functions need some of it."""
_INTERMEDIATE: Final = 1.5
"""Roundings of a result of 16 bits, beside the last: of one intermediate result."""
_OF_FLOAT64: Final = 2.0**-16
"""Of what float32 may be off by: float64 is off by 2^-29 of that."""
_IN_PRODUCTS: Final = " in products"
_HALF_STEP: Final = 2.0**-24


@dataclass(frozen=True)
class OutputTolerance:
    """What is allowed of one output, and why."""

    relative: float
    """Share of an element's scale, beside `half_step` of itself; 0 for whole numbers."""
    derived: float
    """The same as it follows from the longest sum alone."""
    honest: float
    """The worst that was measured of honest ways, in the same unit."""


@dataclass(frozen=True)
class Calibration:
    """What was measured of one problem."""

    outputs: tuple[OutputTolerance, ...]
    told: Mapping[str, float]
    """How many times the allowance each lower precision was off, in the output where it was least."""

    @property
    def untold(self) -> tuple[str, ...]:
        """Lower precisions that this problem cannot tell from its own."""
        return tuple(name for name, times in self.told.items() if times < TOLD_FROM)


def absolute_of(facts: TensorFacts) -> float:
    """What is allowed however small the scale: a flushed denormal of float32; a step of float16's denormals."""
    if not facts.dtype.is_float:
        return 0.0
    return _HALF_STEP if facts.dtype is DType.FLOAT16 else SMALLEST_NORMAL


def half_step(facts: TensorFacts) -> float:
    """The share of itself by which the last rounding, to 16 bits, moves an element at most."""
    return OWN_ROUNDING.get(facts.dtype, 0.0)


def derived_relative(facts: TensorFacts, described: Description) -> float:
    """The share of the scale that the longest sum explains; 0 for whole numbers.

    Where a 16-bit result comes from several operators, the result of one may be rounded to 16 bits too.
    """
    if not facts.dtype.is_float:
        return 0.0
    between = _INTERMEDIATE * half_step(facts) if described.operators > 1 else 0.0
    # Of float64 the oracle itself is off by some: what is allowed lies half-way to float32.
    own = _OF_FLOAT64 if facts.dtype is DType.FLOAT64 else 1.0
    return own * float(random_walk(facts.longest_sum, _ROUNDINGS)) + between


class Calibrator:
    """Collects measurements, one set of inputs after another."""

    def __init__(self, described: Description, computed: Computed) -> None:
        self._described, self._computed = described, computed
        self._honest = [0.0] * len(described.outputs)
        self._lower: dict[str, list[float]] = {}

    def measure(self, inputs: Mapping[str, NDArray[Any]], exact: Mapping[str, NDArray[Any]]) -> None:
        """Measure honest ways and lower precisions on typical inputs, whose answer is `exact`."""
        self._honest = [max(*pair) for pair in zip(self._honest, self._honest_errors(inputs, exact), strict=True)]
        names = {name for facts in self._described.outputs for name in LOWER_THAN.get(facts.dtype, ())}
        for name in sorted(names):
            # As tensor cores do it: what comes after a product may hide how far off that is.
            alone = [name + _IN_PRODUCTS] * (self._described.products > 0 and name in _OF_TENSOR_CORES)
            for how in (name, *alone):
                errors = self._lower_errors(inputs, exact, how)
                self._lower[name] = [min(*pair) for pair in zip(self._lower.get(name, errors), errors, strict=True)]

    def _lower_errors(
        self, inputs: Mapping[str, NDArray[Any]], exact: Mapping[str, NDArray[Any]], name: str
    ) -> list[float]:
        """Infinite where the file fails in that precision: a matrix is not positive definite any more."""
        try:
            return self._errors(self._computed(inputs, name), exact)
        except ReferenceEndedError:
            raise
        except ReferenceRefusedError:
            return [math.inf for _ in self._described.outputs]

    def admits(self, inputs: Mapping[str, NDArray[Any]], exact: Mapping[str, NDArray[Any]]) -> bool:
        """Whether honest ways stay well within what typical inputs have shown to be needed.

        Some arrangements bias the roundings of one accumulator: for them no allowance is made, which all others would
        have too.
        """
        allowed = (one.relative for one in self.calibration().outputs)
        honest = self._honest_errors(inputs, exact)
        return all(error <= _WELL_WITHIN * most for error, most in zip(honest, allowed, strict=True))

    def _honest_errors(self, inputs: Mapping[str, NDArray[Any]], exact: Mapping[str, NDArray[Any]]) -> list[float]:
        tried = [self._errors(self._computed(inputs, how), exact) for how in HONEST]
        return [max(errors) for errors in zip(*tried, strict=True)]

    def _errors(self, found: Mapping[str, NDArray[Any]], exact: Mapping[str, NDArray[Any]]) -> list[float]:
        """The worst error of each output over its scale; infinite where a whole number or a finite value is not."""
        worst = []
        for at, facts in enumerate(self._described.outputs):
            value, actual = exact[f"value_{at}"], found[f"value_{at}"]
            if not facts.dtype.is_float:
                worst.append(0.0 if bool((value == actual).all()) else math.inf)
                continue
            with np.errstate(all="ignore"):
                admitted = absolute_of(facts) + half_step(facts) * np.abs(value)
                error = np.maximum(np.abs(actual.astype(np.float64) - value) - admitted, 0.0)
                ratio = error / np.maximum(exact[f"scale_{at}"], SMALLEST_NORMAL)
            worst.append(float(np.where(np.isfinite(ratio), ratio, np.inf).max()))
        return worst

    def calibration(self) -> Calibration:
        """What follows from all that was measured."""
        outputs = []
        for facts, honest in zip(self._described.outputs, self._honest, strict=True):
            derived = derived_relative(facts, self._described)
            if facts.dtype is DType.FLOAT32 and self._described.in_order:
                # Of terms of one sign the scale is the sum itself, and all orders are far better than the bound.
                derived = min(derived, max(EPSILON * _LEAST_ROUNDINGS, _ABOVE_IN_ORDER * honest))
            relative = max(derived, MARGIN * honest) if facts.dtype.is_float else 0.0
            outputs.append(OutputTolerance(relative, derived, honest))
        told = {
            name: min(
                error / one.relative
                for facts, one, error in zip(self._described.outputs, outputs, errors, strict=True)
                if name in LOWER_THAN.get(facts.dtype, ())
            )
            for name, errors in self._lower.items()
        }
        # JSON has no infinity: a lower precision whose range is too small is told as clearly as any.
        return Calibration(tuple(outputs), {name: min(times, _PLENTY) for name, times in told.items()})


def caveats_of_contents(described: Description, calibration: Calibration) -> Iterator[str]:
    """What the contents of a problem do not tell, in words."""
    for precision in calibration.untold:
        yield (
            f"this problem cannot tell {precision} from its own precision: with operands and results rounded to it "
            f"the answer is off by {calibration.told[precision]:.2g} times what is allowed"
        )
    if described.unordered:
        yield (
            "which of equal values comes first when they are sorted is not stated, so none are made equal on purpose"
        )
    for facts in described.inputs:
        if facts.kind == "argument" and facts.fixed and facts.draw.kind == "called":
            yield f"the file makes the input '{facts.name}' the same each time: a kernel may know it"
        elif facts.kind == "argument" and facts.fixed:
            yield f"the file fills the input '{facts.name}' with one value: here it draws {facts.drawn_in_words}"


_PLENTY: Final = 1e12


def in_roundings(relative: float) -> str:
    """`56`: how many roundings of float32 that is."""
    return f"{relative / EPSILON:.3g}"


def reason_of(described: Description, calibration: Calibration) -> str:
    """Why that much is allowed, in words."""
    said = []
    for facts, one in zip(described.outputs, calibration.outputs, strict=True):
        if one.relative == 0.0:
            said.append(f"'{facts.name}' is whole numbers, which are exact")
            continue
        why = (
            f"{MARGIN:g} times what PyTorch in the file's own type was off at most"
            if one.relative > one.derived
            else f"sums of {facts.longest_sum} terms in any order; PyTorch in the file's own type was off by "
            f"{in_roundings(one.honest)} at most"
        )
        last = f" beside half a step of {facts.dtype}" if half_step(facts) else ""
        said.append(f"'{facts.name}': {in_roundings(one.relative)} roundings of float32 of the scale{last}, {why}")
    lower = ", ".join(f"{name} {times:.3g}" for name, times in calibration.told.items())
    told = f" Lower precisions are off by so many times of it: {lower}." if lower else ""
    return (
        "The scale is how far an element moves when every operand and result moves by one rounding of float32. "
        f"{'; '.join(said)}.{told}"
    )
