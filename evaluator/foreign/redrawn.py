"""Inputs drawn otherwise than a file draws them, where its answer says nothing for its own; and caveats."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from evaluator.foreign.description import Description, TensorFacts

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


def drawn_in_words(facts: TensorFacts) -> str:
    """How a uniform or normal input is drawn."""
    if facts.draw.kind == "uniform":
        return f"'{facts.name}' from {facts.draw.low:g} to {facts.draw.high:g}"
    centred = f" around {facts.draw.mean:g}" * (facts.draw.mean != 0.0)
    return f"'{facts.name}'{centred} with a standard deviation of {facts.draw.std:g}"


def caveats_of_contents(described: Description, untold: Sequence[str], told: Mapping[str, float]) -> Iterator[str]:
    """What its contents do not tell."""
    for precision in untold:
        yield (
            f"this problem cannot tell {precision} from its own precision: with operands and results rounded to it "
            f"the answer is off by {told[precision]:.2g} times what is allowed"
        )
    if described.unordered:
        yield (
            "which of equal values comes first when they are sorted is not stated, so none are made equal on purpose"
        )
    yield from (_of_fixed(facts) for facts in described.inputs if facts.kind == "argument" and facts.fixed)


def _of_fixed(facts: TensorFacts) -> str:
    """What is to be said of an input that the file makes without drawing."""
    if facts.draw.kind == "called":
        return f"the file makes the input '{facts.name}' the same each time: a kernel may know it"
    return f"the file fills the input '{facts.name}' with one value: here it draws {drawn_in_words(facts)}"


def sizes_in_words(sizes: Mapping[str, int]) -> str:
    """`n=3, m=4`."""
    return ", ".join(f"{name}={size}" for name, size in sizes.items())
