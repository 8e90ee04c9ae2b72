"""What a submission's time is spent on: its own kernels, or those of libraries. As its own process says it."""

import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import Final

from common.contract import Phase, Status
from evaluator.errors import Ruling

Spent = Sequence[tuple[str, str, float]]
_MOST_NAMED: Final = 8
_TRITON: Final = re.compile(r"@triton\.jit[^\n]*\n(?:\s*@(?!triton\.jit)[^\n]*\n)*\s*def\s+(\w+)")
_BOUNDS: Final = re.compile(r"__(?:launch_bounds|cluster_dims|maxnreg)__\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
"""What may stand between the word and the name, and has parentheses of its own."""
_GLOBAL: Final = re.compile(r"__global__(?:(?!__global__)[^;{])*?\b(\w+)\s*\(")


@dataclass(frozen=True)
class Coverage:
    """Of a profiled call."""

    share: float | None
    """Of the time in kernels and copies, what the submission's own kernels took; None where nothing took any."""
    libraries: tuple[str, ...]
    """Operators and kernels of others, the one that took longest first."""


def kernels_of_text(text: str) -> frozenset[str]:
    """The names of the kernels that a text defines, in CUDA or in Triton."""
    return frozenset(_TRITON.findall(text)) | frozenset(_GLOBAL.findall(_BOUNDS.sub("", text)))


def coverage_of(spent: Spent, own: Set[str]) -> Coverage:
    """What a profile says. Where it has kernels, operators are but names; without any they stand for the time."""
    timed = [one for one in spent if one[1] != "operator"] or list(spent)
    total_us = sum(us for _, _, us in timed)
    own_us = sum(us for name, kind, us in timed if kind == "kernel" and _is_own(name, own))
    others = sorted(
        (one for one in spent if one[1] in ("kernel", "operator") and not _is_own(one[0], own)),
        key=lambda one: (one[1] != "operator", -one[2]),
    )
    names = tuple(dict.fromkeys(_short(name) for name, _, _ in others))[:_MOST_NAMED]
    return Coverage(round(min(1.0, own_us / total_us), 4) if total_us > 0 else None, names)


def ruling_on_coverage(coverage: Coverage, least: float | None) -> Ruling | None:
    """The ruling on a submission of which the caller asked for a share."""
    if least is None or (coverage.share is not None and coverage.share >= least):
        return None
    if coverage.share is None:
        return Ruling(
            Status.UNSUPPORTED,
            Phase.PROFILE,
            "How much of the time is spent in the submission's own kernels could not be measured.",
            "Leave settings.min_coverage out. It was not judged, so there is no reward.",
        )
    others = f", the rest in {', '.join(coverage.libraries)}" if coverage.libraries else ""
    return Ruling(
        Status.REJECTED,
        Phase.PROFILE,
        f"{coverage.share:.1%} of the time is spent in the submission's own kernels{others}; at least {least:.1%} "
        "was asked for (settings.min_coverage).",
        "Write kernels for what is left to libraries.",
    )


def _is_own(name: str, own: Set[str]) -> bool:
    return any(re.search(rf"\b{re.escape(one)}\b", name) for one in own)


def _short(name: str) -> str:
    return name.split("<")[0].removeprefix("void ").strip()[:80]
