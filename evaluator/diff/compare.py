"""Two versions of one kernel side by side: what changed in the text, in what it needs and in what it does.

Both are graded with the same seed, so that they meet the same trials, and counted at the same sizes.
"""

import difflib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from common.contract import Status, Submission, Verdict
from common.contract.counters import Counts, Evidence
from common.source_lines import lines_of
from common.wire import Json
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.progress import ProgressCallback
from evaluator.pipeline.toolbox import Toolbox
from evaluator.problems.problem import Problem
from evaluator.report.terminal import named_as
from evaluator.seed import Seed

Kind: TypeAlias = Literal["same", "changed", "removed", "added"]
Better: TypeAlias = Literal["less", "more", "neither"]
_ALIKE: Final = 0.6
_NEAR: Final = 8
COUNTED: Final = ("instructions", "sectors", "conflicts")
"""What is counted for each line: warp-instructions, sectors that are asked of memory, passes that conflicts add."""


@dataclass(frozen=True)
class Quantity:
    """One number of both versions; null where it was not measured."""

    name: str
    unit: str
    before: float | None
    after: float | None
    better: Better

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after / self.before if self.before and self.after is not None else None

    @property
    def outcome(self) -> Literal["better", "worse", "other", "same", "unknown"]:
        """What the change is worth, beyond a thousandth; `other` where neither more nor less of it is."""
        if self.before is None or self.after is None:
            return "unknown"
        if abs(self.after - self.before) <= 1e-3 * abs(self.before):
            return "same"
        if self.better == "neither":
            return "other"
        return "better" if (self.after < self.before) == (self.better == "less") else "worse"


@dataclass(frozen=True)
class CountedLine:
    """One line of one version."""

    number: int
    text: str
    counts: Mapping[str, int]
    """By the names in `COUNTED`; empty where nothing was counted for the line."""


@dataclass(frozen=True)
class LinePair:
    """A line before and after; one is null where it was added or removed."""

    kind: Kind
    before: CountedLine | None
    after: CountedLine | None

    @property
    def differs(self) -> bool:
        """In its text, or in what it does."""
        return self.kind != "same" or (self.before and self.before.counts) != (self.after and self.after.counts)


@dataclass(frozen=True)
class ComparedVersion:
    """One of the two, at a glance."""

    name: str
    status: str
    message: str


@dataclass(frozen=True)
class Difference:
    """All that is said about the two."""

    problem: str
    before: ComparedVersion
    after: ComparedVersion
    counted_at: Mapping[str, int] | None
    """The sizes that the counts hold at; null where one of the two was not counted, or at other sizes."""
    quantities: tuple[Quantity, ...]
    lines: tuple[LinePair, ...]

    def to_json(self) -> bytes:
        """As `assay diff --json` prints it."""
        return _differences.dump(self)


Graded: TypeAlias = tuple[str, str, Verdict]
"""Name, source text, verdict."""


def grade_both(
    submissions: Sequence[Submission],
    raws: Sequence[bytes],
    toolbox: Toolbox,
    tell: ProgressCallback,
    problem: Problem | None = None,
) -> list[Verdict]:
    """The verdicts of both, on the same trials. `problem`: that of both, where the caller has looked it up.

    Raises UsageError as `evaluate` does.
    """
    seed = Seed.fresh()
    return [
        evaluate(one, toolbox, raw, tell, seed=seed, problem=problem)
        for one, raw in zip(submissions, raws, strict=True)
    ]


def compare(before: Graded, after: Graded) -> Difference:
    """What changed from one graded version to the next."""
    (name_a, source_a, a), (name_b, source_b, b) = before, after
    evidence_a, evidence_b = _evidence(a), _evidence(b)
    comparable = evidence_a is not None and evidence_b is not None and evidence_a.sizes == evidence_b.sizes
    return Difference(
        problem=a.problem,
        before=ComparedVersion(name_a, a.status, named_as(_said(a), name_a)),
        after=ComparedVersion(name_b, b.status, named_as(_said(b), name_b)),
        counted_at=evidence_a.sizes if evidence_a is not None and comparable else None,
        quantities=tuple(
            Quantity(name, unit_a if one is not None else unit_b, one, other, better)
            for (name, unit_a, better, one), (_, unit_b, _, other) in zip(_measured(a), _measured(b), strict=True)
            if one is not None or other is not None
        ),
        lines=tuple(_lines(source_a, source_b, _by_line(evidence_a), _by_line(evidence_b))),
    )


def _said(verdict: Verdict) -> str:
    """The message, and what qualifies it: a quick verification, and what nothing promises."""
    seen = verdict.correctness if verdict.status is Status.PASSED else None
    if seen is None:
        return verdict.message
    quick = ["Verified quickly, at no size above the published ones."] if seen.verification == "quick" else []
    ran = verdict.compile.host if verdict.compile else None
    quick += [f"Its host code ran ({ran.entry})."] if ran is not None else []
    return " ".join((verdict.message, *quick, *(f"Warning: {hazard.message}." for hazard in seen.hazards)))


def _evidence(verdict: Verdict) -> Evidence | None:
    return verdict.profile.evidence if verdict.profile else None


_Row: TypeAlias = tuple[str, str, Better, float | None]


def _measured(verdict: Verdict) -> Iterator[_Row]:
    """Every quantity in a fixed order, None where this verdict does not have it."""
    kernels = verdict.compile.kernels if verdict.compile else ()
    occupancy = verdict.profile.occupancy if verdict.profile else ()
    yield "registers", "a thread", "less", max((k.registers for k in kernels), default=None)
    spills = sum(k.spill_store_bytes + k.spill_load_bytes for k in kernels) if kernels else None
    yield "spills", "bytes a thread", "less", spills
    yield "shared memory", "bytes a block", "neither", max((o.shared_bytes for o in occupancy), default=None)
    yield "occupancy", "of the most", "more", min((o.occupancy for o in occupancy), default=None)
    yield from _counted(_evidence(verdict))
    estimate = verdict.profile.estimate if verdict.profile else None
    yield (
        "estimated time",
        f"us on {estimate.gpu}" if estimate else "us",
        "less",
        estimate.latency_us if estimate else None,
    )
    timing = verdict.timing
    # A time by the referee's clock has the host code in it: it is no measure for one of kernels alone.
    by_referee = timing is not None and timing.clock == "referee"
    yield "measured time", "us", "less", timing.latency_us if timing and not by_referee else None
    yield "measured time, host code included", "us", "less", timing.latency_us if timing and by_referee else None
    coverage = verdict.profile.coverage if verdict.profile else None
    yield "time in own kernels", "of all", "neither", coverage
    yield (
        "measured speedup",
        f"over {timing.compared_with}" if timing else "",
        "more",
        timing.speedup if timing else None,
    )
    reward = verdict.reward
    yield "reward", reward.name if reward else "", "more", reward.value if reward else None


def _counted(evidence: Evidence | None) -> Iterator[_Row]:
    launches = evidence.launches if evidence else ()

    def total(count: Callable[[Counts], int]) -> int | None:
        return sum(map(count, launches)) if launches else None

    instructions, threads = total(lambda c: c.warp_instructions), total(lambda c: c.thread_instructions)
    moved, requests = total(lambda c: c.global_sectors), total(lambda c: c.loads.requests + c.stores.requests)
    useful = total(lambda c: c.loads.useful_bytes + c.stores.useful_bytes)
    yield "launches", "", "neither", len(launches) or None
    yield "warp instructions", "", "less", instructions
    yield "sectors", "of 32 bytes", "less", total(lambda c: c.sectors)
    yield "sectors per request", "", "less", moved / requests if moved and requests else None
    yield (
        "useful bytes",
        "of those moved",
        "more",
        min(useful / (32 * moved), 1) if useful and moved else None,
    )
    yield "bank conflicts", "extra passes", "less", total(lambda c: c.conflict_wavefronts)
    yield "lanes at work", "of all", "more", threads / (32 * instructions) if threads and instructions else None
    yield "divergent branches", "", "less", total(lambda c: c.divergent_branches)
    yield "atomic turns", "one after another", "less", total(lambda c: c.atomics.turns)
    yield "barriers", "", "neither", total(lambda c: c.barriers)


def _by_line(evidence: Evidence | None) -> dict[int, Counter[str]]:
    found: dict[int, Counter[str]] = {}
    for launch in evidence.launches if evidence else ():
        for line in launch.lines:
            counts = (line.warp_instructions, line.sectors, line.conflict_wavefronts)
            found.setdefault(line.line, Counter()).update(dict(zip(COUNTED, counts, strict=True)))
    return found


def _lines(
    before: str, after: str, counts_before: Mapping[int, Counter[str]], counts_after: Mapping[int, Counter[str]]
) -> Iterator[LinePair]:
    one = [CountedLine(n, text, dict(counts_before.get(n, {}))) for n, text in enumerate(lines_of(before), 1)]
    two = [CountedLine(n, text, dict(counts_after.get(n, {}))) for n, text in enumerate(lines_of(after), 1)]
    matcher = difflib.SequenceMatcher(None, [line.text.strip() for line in one], [line.text.strip() for line in two])
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            yield from (LinePair("same", *pair) for pair in zip(one[a_from:a_to], two[b_from:b_to], strict=True))
        else:
            yield from _replaced(one[a_from:a_to], two[b_from:b_to])


def _replaced(before: Sequence[CountedLine], after: Sequence[CountedLine]) -> Iterator[LinePair]:
    """Lines side by side where they are alike, in their order; else those that went, then those that came."""
    waiting = list(after)
    for line in before:
        alike = next((n for n, other in enumerate(waiting[:_NEAR]) if _alike(line.text, other.text)), None)
        if alike is None:
            yield LinePair("removed", line, None)
            continue
        yield from (LinePair("added", None, other) for other in waiting[:alike])
        yield LinePair("changed", line, waiting[alike])
        del waiting[: alike + 1]
    yield from (LinePair("added", None, other) for other in waiting)


def _alike(one: str, two: str) -> bool:
    matcher = difflib.SequenceMatcher(None, one.strip(), two.strip())
    return matcher.real_quick_ratio() >= _ALIKE and matcher.quick_ratio() >= _ALIKE and matcher.ratio() >= _ALIKE


_differences = Json(Difference)
