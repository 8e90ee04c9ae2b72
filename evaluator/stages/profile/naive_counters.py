"""Counts of the problems' naive kernels, which an estimated speedup is over: kept beside the code, not counted anew.

`naive_counters.json` is written by `python -m scripts.count_naive_kernels`; a count is of one source text, by its
SHA-256.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from common.contract import KernelResources
from common.contract.counters import Evidence
from common.wire import Wire
from evaluator.problems.problem import Problem, Sizes

FILE = Path(__file__).with_name("naive_counters.json")


class NaiveCounts(Wire):
    """What the estimate of one naive kernel at one size needs."""

    source_sha256: str
    evidence: Evidence
    resources: tuple[KernelResources, ...]
    moved_bytes: tuple[int, ...]
    """Of each fill and each copy of its plan."""


def naive_counts(problem: Problem, sizes: Sizes) -> NaiveCounts | None:
    """Those of `problem` at `sizes`; None where the kernel is another one than was counted, or the sizes are."""
    digest = source_sha256(problem) if problem.naive else ""
    kept = (counts for counts in _kept().get(problem.id, ()) if counts.source_sha256 == digest)
    return next((counts for counts in kept if counts.evidence.sizes == sizes), None)


def source_sha256(problem: Problem) -> str:
    """What counts of the problem's naive kernel are known by."""
    assert problem.naive is not None
    return hashlib.sha256(problem.naive.source.encode()).hexdigest()


@cache
def _kept() -> Mapping[str, tuple[NaiveCounts, ...]]:
    found = json.loads(FILE.read_text(encoding="utf-8"))
    return {problem: tuple(NaiveCounts.model_validate(one) for one in counts) for problem, counts in found.items()}
