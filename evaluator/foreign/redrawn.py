"""Inputs drawn otherwise than a file draws them, where its answer says nothing for its own."""

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
