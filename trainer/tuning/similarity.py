"""Kernels that are nearly the same, by the pieces of five tokens that they share.

The similarity of two kernels is the Jaccard index of their sets of five tokens in a row, comments, white space and
the names of `__global__` functions aside (A. Broder, "On the resemblance and containment of documents", 1997).
"""

import re
from dataclasses import dataclass, replace
from typing import Final

from trainer.conversation.extraction import nameless_source
from trainer.data.graded import GradedData, GradedKernel, RejectedKernel

NEAR: Final = 0.95
"""Similarity from which two kernels are near copies: a changed token touches five pieces of some hundreds."""
_PIECE_TOKENS: Final = 5
_TOKEN: Final = re.compile(r"\w+|[^\w\s]")

Pieces = frozenset[int]


def pieces_of(source: str) -> Pieces:
    """The hashes of a kernel's pieces; good within one process."""
    tokens = _TOKEN.findall(nameless_source(source))
    return frozenset(
        hash(tuple(tokens[at : at + _PIECE_TOKENS])) for at in range(max(1, len(tokens) - _PIECE_TOKENS + 1))
    )


def similarity(one: Pieces, other: Pieces) -> float:
    """From 0 to 1."""
    shared = len(one & other)
    return shared / (len(one) + len(other) - shared) if one or other else 1.0


@dataclass(frozen=True)
class Contamination:
    """What the kernels to learn from share with those that are evaluated on."""

    exact: int
    """Kernels that are also held out, but for comments, white space and names; none is learned from."""
    near: int
    """Near copies of held-out ones; none is learned from."""
    highest: float
    """Similarity of the most alike pair that is left, from 0 to 1."""
    prompts: int = 0
    """Texts that are both learned from and evaluated on."""


def without_near_copies(data: GradedData) -> tuple[GradedData, tuple[RejectedKernel, ...]]:
    """Of the kernels of one problem that end alike, with the same words but for numbers, one of each near copies: the
    first by fingerprint; and what was taken out. Two faults in one kernel end otherwise, and both stay.
    """
    kept: dict[tuple[str, str, str], list[Pieces]] = {}
    chosen, out = [], []
    for one in sorted(data.kernels, key=lambda kernel: kernel.fingerprint):
        said = re.sub(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?", "0", one.verdict.message.split("\n")[0])
        pieces = pieces_of(one.source)
        known = kept.setdefault((one.problem, one.verdict.status, said if not one.passed else ""), [])
        if any(_near(pieces, other) for other in known):
            out.append(_rejected(one, "a near copy of another kernel of its problem"))
        else:
            known.append(pieces)
            chosen.append(one)
    return replace(data, kernels=tuple(chosen)), tuple(out)


def without_contamination(data: GradedData) -> tuple[GradedData, tuple[RejectedKernel, ...], Contamination]:
    """No kernel to learn from that is held out too, or nearly; what was taken out; and how alike the rest is."""
    held_out = data.held_out
    fingerprints = {one.fingerprint for one in held_out}
    evaluated_on = [pieces_of(one.source) for one in held_out]
    chosen: list[GradedKernel] = list(held_out)
    out: list[RejectedKernel] = []
    exact, highest = 0, 0.0
    alike: dict[str, float] = {}
    for one in data.training:
        if one.fingerprint in fingerprints:
            exact += 1
            out.append(_rejected(one, "also a kernel of a problem that is held out"))
            continue
        if one.fingerprint not in alike:
            pieces = pieces_of(one.source)
            alike[one.fingerprint] = max((_at_most(pieces, other, highest) for other in evaluated_on), default=0.0)
        if alike[one.fingerprint] >= NEAR:
            out.append(_rejected(one, "a near copy of a kernel of a problem that is held out"))
        else:
            highest = max(highest, alike[one.fingerprint])
            chosen.append(one)
    return replace(data, kernels=tuple(chosen)), tuple(out), Contamination(exact, len(out) - exact, highest)


def _near(one: Pieces, other: Pieces) -> bool:
    return _at_most(one, other, NEAR) >= NEAR


def _at_most(one: Pieces, other: Pieces, least: float) -> float:
    """The similarity, or 0 where the lengths alone keep it below `least`."""
    short, long = sorted((len(one), len(other)))
    return similarity(one, other) if not long or short / long >= least else 0.0


def _rejected(one: GradedKernel, reason: str) -> RejectedKernel:
    return RejectedKernel(one.problem, one.fingerprint, one.provenance, reason)
