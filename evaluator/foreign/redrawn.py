"""Inputs drawn otherwise than a file draws them, where its answer says nothing for its own, or hardly tells.

A ReLU far below 0 or a clamp far beyond its ends lets a kernel pass that computes what comes before it wrongly. To
leave the file's range may ask a kernel for what its author never meant, so it is done only there.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from common.wire import DType
from evaluator.foreign.calibration import Calibration, absolute_of, half_step
from evaluator.foreign.contents import Called, distributions_of
from evaluator.foreign.description import Description, TensorFacts
from evaluator.problems.arrays import largest
from evaluator.problems.linter import HARDLY, telling_share
from evaluator.problems.problem import Distribution, Expected, Sizes, Tolerance

Redrawn: TypeAlias = Literal["as stated", "both signs", "fixed", "both signs and fixed"]
"""`both signs`: what the file draws from 0 up is drawn from both sides of it. `fixed`: what it makes the same under
every seed is drawn in its range."""
_WIDER: Final = 3.0
"""How far beyond a published range that begins at 0: beyond 1, where functions that clamp begin to."""


def drawn_otherwise(described: Description, redrawn: Redrawn) -> Description:
    """The same with uniform arguments from 0 up drawn from both sides of it, or fixed ones drawn in their range."""

    def moved(facts: TensorFacts) -> TensorFacts:
        draw = facts.draw
        if facts.kind == "argument" and "fixed" in redrawn and facts.instead is not None:
            return replace(facts, draw=facts.instead)
        if facts.kind == "argument" and "both" in redrawn and draw.kind == "uniform" and draw.low == 0.0:
            return replace(facts, draw=replace(draw, low=-_WIDER * draw.high, high=_WIDER * draw.high))
        return facts

    return replace(described, inputs=tuple(moved(facts) for facts in described.inputs))


def scaled(facts: TensorFacts, times: float) -> TensorFacts:
    """An argument that is drawn so many times as large."""
    draw = facts.draw
    if facts.kind != "argument" or draw.kind not in ("uniform", "normal"):
        return facts
    low, high, mean, std = (times * value for value in (draw.low, draw.high, draw.mean, draw.std))
    return replace(facts, draw=replace(draw, low=low, high=high, mean=mean, std=std))


Answer: TypeAlias = Mapping[str, NDArray[Any]]

_TELLING: Final = 0.05
"""An output of which a larger share differs tells enough: of a wrong tile of 16 by 16 a dozen elements show it. Also
what is the rest of a ReLU at two standard deviations below 0 has less, and is drawn wider."""
_REACH: Final = 8.0
"""Standard deviations that a normal value stays within."""
_ROOM: Final = 16.0
"""Between the largest input and what its type holds."""


@dataclass(frozen=True)
class Wider:
    """A range beyond the file's own."""

    times: float
    both_signs: bool = False
    """Whether what the file draws from 0 up is drawn from both sides of it, three times as far."""

    def of(self, described: Description) -> Description:
        """The same with its arguments drawn in that range."""
        signed = drawn_otherwise(described, "both signs") if self.both_signs else described
        return replace(signed, inputs=tuple(scaled(facts, self.times) for facts in signed.inputs))


WAYS: Final = (Wider(4.0), Wider(16.0), Wider(1.0, True), Wider(4.0, True))
"""In the order in which they are tried: the sign, which a root or a logarithm may need, is kept first. Further than
16 times as far an exponential of what was near 6 does not fit in float32."""


def wider_distribution(
    wider: Wider, described: Description, described_at: Callable[[Sizes], Description], called: Called
) -> Distribution:
    """The file's own way to draw, in that range. `described_at`: the file at these sizes."""
    inputs = wider.of(described).inputs
    typical = distributions_of(inputs, lambda at: wider.of(described_at(at)).inputs, called)[0]
    reason = "drawn as in the file and in a wider range, since within its own the answer is nearly one number"
    return replace(typical, name="wider_range", reason=reason)


class Telling:
    """How much the answers of a file tell, by output."""

    def __init__(self, described: Description, calibration: Calibration) -> None:
        self._described, self._calibration = described, calibration
        self._own = [0.0] * len(described.outputs)
        """The share of the elements that differ, of the distribution in which most do."""
        self._wider: tuple[Wider, list[float]] | None = None
        self._tried: list[str] = []

    def saw(self, exact: Answer) -> None:
        """Take account of an answer to inputs in the file's range."""
        self._own = [max(*pair) for pair in zip(self._own, self._shares(exact), strict=True)]

    def wider(self, answer_of: Callable[[Wider], Answer | None]) -> Wider | None:
        """The first of the wider ranges in which an output tells that does not in the file's own.

        `answer_of` gives the answer to inputs drawn there; None where honest kernels may have none.
        """
        untold = [at for at, share in enumerate(self._own) if share < _TELLING]
        for way in WAYS if untold else ():
            moved = way.of(self._described)
            changed = [one for one, own in zip(moved.inputs, self._described.inputs, strict=True) if one != own]
            if not changed or (way.both_signs and moved == Wider(way.times).of(self._described)):
                continue
            if not all(map(_has_room, changed)):
                continue
            self._tried.append(", ".join(one.drawn_in_words for one in changed))
            exact = answer_of(way)
            shares = self._shares(exact) if exact is not None else self._own
            if any(shares[at] >= _TELLING for at in untold):
                self._wider = way, shares
                return way
        return None

    @property
    def caveats(self) -> Iterator[str]:
        """What is to be said of outputs that hardly tell in the file's range."""
        for at, facts in enumerate(self._described.outputs):
            own = self._own[at]
            said = (
                f"for inputs as the file draws them at least {100 * (1 - own):.4g} % of the elements of "
                f"'{facts.name}' are one number"
            )
            if self._wider is not None and own < _TELLING <= self._wider[1][at]:
                yield f"{said}: so it also draws {self._tried[-1]}"
            elif own < HARDLY:
                tried = f", also {' or '.join(self._tried)}" if self._tried else ""
                yield f"{said}{tried}: a wrong kernel can be right there"

    def _shares(self, exact: Answer) -> list[float]:
        shares = []
        outputs = zip(self._described.outputs, self._calibration.outputs, strict=True)
        for at, (facts, one) in enumerate(outputs):
            value, scale = exact[f"value_{at}"], exact[f"scale_{at}"]
            beyond = half_step(facts) * np.abs(value) if facts.dtype.is_float else scale
            tolerance = Tolerance(one.relative, absolute_of(facts), "")
            share = telling_share(Expected(value, scale, beyond=beyond), tolerance)
            shares.append(1.0 if share is None else share)
        return shares


def _has_room(facts: TensorFacts) -> bool:
    """Whether its type holds more, and float32, in which products are added, its square."""
    draw = facts.draw
    ends = (draw.low, draw.high) if draw.kind == "uniform" else (abs(draw.mean) + _REACH * draw.std,)
    most = max(map(abs, ends))
    return most * _ROOM <= largest(facts.dtype) and most <= math.sqrt(largest(DType.FLOAT32) / _ROOM)
