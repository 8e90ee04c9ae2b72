"""What the outputs of a problem of someone else should be, asked of the file's process for the inputs of each trial.

A scale takes eight runs of the file beside the one that gives the value. Of millions of elements that is nearly all
that a verdict costs, and a right answer needs it only where terms cancel. So after a first answer at such sizes the
value alone is asked for, with the least that each scale can be; what is not right by that is held against all of it.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evaluator.foreign.calibration import Calibration, derived_relative, half_step
from evaluator.foreign.contents import digest_of, in_described_shapes
from evaluator.foreign.description import Description, TensorFacts
from evaluator.foreign.reference import ReferenceEndedError, ReferenceProcess, ReferenceRefusedError
from evaluator.foreign.sizes import constants_of
from evaluator.problems.arrays import Array, largest, on_device_of, to_numpy
from evaluator.problems.problem import Arrays, Expected, Sizes, sizes_in_words

NOT_FINITE: Final = "the answer is not finite, or does not fit in its type, for inputs as the file draws them"
_VALUE_FIRST: Final = 1 << 22
"""Elements of all inputs and outputs. More are judged on a GPU alone; a scale takes seconds there."""

_Answer: TypeAlias = Mapping[str, NDArray[Any]]


class ReferenceAnswers:
    """Of one problem, whose process must last as long."""

    def __init__(
        self,
        process: ReferenceProcess,
        described_at: Callable[[Sizes], Description],
        stated: Description,
        calibrated: Description,
        calibration: Calibration,
    ) -> None:
        """`stated`: at the problem's own sizes; `calibrated`: where `calibration` was measured. `described_at`: with
        these constants.
        """
        self._process, self._described_at = process, described_at
        self._stated, self._calibrated, self._calibration = stated, calibrated, calibration
        self._base = max(one.relative for one in calibration.outputs)
        self._kept: dict[bytes, tuple[_Answer, bool]] = {}
        """And whether it is whole."""
        self._whole_at: set[tuple[tuple[str, int], ...]] = set()
        """Large sizes at which there was a whole answer."""
        self._scale_decides = False
        """Whether a value alone was not enough."""

    def has_answer(self, given: Arrays, at: Sizes) -> bool:
        """Whether it is finite. Raises ReferenceEndedError, InfrastructureError."""
        self._kept.clear()
        whole = not self._value_is_enough(at)
        try:
            answer = self._answered(given, at) if whole else self._valued_if_finite(given, at)
        except ReferenceEndedError:
            raise
        except ReferenceRefusedError:
            return False
        if answer is None or not is_finite(self._described_at(constants_of(self._stated, at)), answer):
            return False
        # What is drawn is mostly asked for next, and one answer is as much as may be kept.
        self._kept[digest_of(given, at)] = answer, whole
        return True

    def oracle(self, given: Arrays, at: Sizes) -> dict[str, Expected]:
        """As a `Problem` has it. Raises ReferenceRefusedError, InfrastructureError."""
        here = self._described_at(constants_of(self._stated, at))
        # Of hundreds of megabytes a digest takes a second: typical draws, of which none is kept, need none.
        kept = self._kept.pop(digest_of(given, at), None) if self._kept else None
        if kept is None:
            whole_too = not self._value_is_enough(at)
            kept = self._answered(given, at) if whole_too else self._valued(given, at), whole_too
        answer, is_whole = kept
        if is_whole:
            if sum(math.prod(facts.shape) for facts in (*here.inputs, *here.outputs)) > _VALUE_FIRST:
                self._whole_at.add(_key(self._stated, at))
            return self._expected(here, given, answer)

        @functools.cache
        def whole() -> dict[str, Expected]:
            self._scale_decides = True
            found = self._answered(given, at)
            if not is_finite(here, found):  # a scale that no answer could be wrong by
                raise ReferenceRefusedError(f"{self._process.name} at {sizes_in_words(at)}: {NOT_FINITE}.")
            return self._expected(here, given, found)

        return self._expected(here, given, answer, whole)

    def _value_is_enough(self, at: Sizes) -> bool:
        """Whether there was a whole answer at these sizes, which are large, and no scale decided so far."""
        return not self._scale_decides and _key(self._stated, at) in self._whole_at

    def _answered(self, given: Arrays, at: Sizes) -> _Answer:
        constants, on_host = constants_of(self._stated, at), _on_host(given)
        answer = self._process.answered(on_host, constants)
        return in_described_shapes(self._process.name, self._described_at(constants), answer)

    def _valued(self, given: Arrays, at: Sizes) -> _Answer:
        return self._with_least_scales(at, self._process.valued(_on_host(given), constants_of(self._stated, at)))

    def _valued_if_finite(self, given: Arrays, at: Sizes) -> _Answer | None:
        values = self._process.valued_if_finite(_on_host(given), constants_of(self._stated, at))
        return None if values is None else self._with_least_scales(at, values)

    def _with_least_scales(self, at: Sizes, values: _Answer) -> _Answer:
        """With the least that each scale can be: the element itself, and 0 of a whole number."""
        here = self._described_at(constants_of(self._stated, at))
        scales = {
            f"scale_{number}": np.abs(one) if facts.dtype.is_float else np.zeros(one.shape)
            for number, facts in enumerate(here.outputs)
            if (one := values.get(f"value_{number}")) is not None
        }
        return in_described_shapes(self._process.name, here, {**values, **scales})

    def _expected(
        self,
        here: Description,
        given: Arrays,
        answer: _Answer,
        whole: Callable[[], Mapping[str, Expected]] | None = None,
    ) -> dict[str, Expected]:
        if here.sizes != self._calibrated.sizes and not is_finite(here, answer):
            at = sizes_in_words(here.sizes)
            raise ReferenceRefusedError(f"{self._process.name} at {at}: {NOT_FINITE}.")
        found: dict[str, Expected] = {}
        for number, (facts, one) in enumerate(zip(here.outputs, self._calibration.outputs, strict=True)):
            value, scale = answer[f"value_{number}"], answer[f"scale_{number}"]
            found[facts.name] = Expected(
                _beside(given, _as_compared(value, facts)),
                _beside(given, scale),
                longer=_longer(facts, self._calibrated) * (one.relative / self._base if self._base else 1.0),
                beyond=_beyond(given, value, scale, facts),
                whole=None if whole is None else functools.partial(_one_of, whole, facts.name),
            )
        return found


def _key(stated: Description, at: Sizes) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(constants_of(stated, at).items()))


def _one_of(expected: Callable[[], Mapping[str, Expected]], name: str) -> Expected:
    return expected()[name]


def _on_host(given: Arrays) -> dict[str, NDArray[Any]]:
    return {one: to_numpy(values) for one, values in given.items()}


def is_finite(described: Description, answer: _Answer) -> bool:
    """Whether all of it is, and fits in its type."""
    for at, facts in enumerate(described.outputs):
        most = largest(facts.dtype) if facts.dtype.is_float else math.inf
        for part in ("value", "scale"):
            if not bool((np.abs(answer[f"{part}_{at}"]) <= most).all()):
                return False
    return True


def _beyond(given: Arrays, value: NDArray[Any], scale: NDArray[Any], facts: TensorFacts) -> Array | float:
    """What the last rounding to 16 bits takes; of whole numbers how far honest ways were seen to be apart."""
    if not facts.dtype.is_float:
        return _beside(given, scale) if scale.any() else 0.0
    return _beside(given, half_step(facts) * np.abs(value)) if half_step(facts) else 0.0


def _beside(given: Arrays, values: NDArray[Any]) -> Array:
    """The same where the inputs are."""
    return on_device_of(next(iter(given.values())), values) if given else values


def _longer(facts: TensorFacts, base: Description) -> float:
    """How much more longer sums than those of the calibration may be off."""
    (calibrated,) = (one for one in base.outputs if one.name == facts.name)
    if facts.longest_sum <= calibrated.longest_sum or not facts.dtype.is_float:
        return 1.0
    return derived_relative(facts, base) / derived_relative(calibrated, base)


def _as_compared(values: NDArray[Any], facts: TensorFacts) -> Array:
    return values.astype(np.float64 if facts.dtype.is_float else np.int64)
