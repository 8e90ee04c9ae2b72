"""Kernels with the verdict that an evaluator gave about each: what models are tuned on, without anything said twice.

A data set is a folder: `kernels.jsonl` holds a kernel a line, `rejected.jsonl` what was not kept and why, and
`card.json` what is in it. A kernel is on the side of its problem, training or held out, and a problem is on one side
for good: which one hangs on its id alone, or is named. `trainer.tuning.collection` fills data sets.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final, Literal, TypeVar

from common.contract import Status, Verdict
from common.file_replacement import replace_file
from common.wire import Json
from trainer.data.tasks import HELD_OUT_SHARE, is_held_out
from trainer.errors import ConfigurationError

KERNELS: Final = "kernels.jsonl"
REJECTED: Final = "rejected.jsonl"
BY_DATA_SET: Final = "the data set"
"""What a rejection hangs on that no evaluator has to do with."""
CARD: Final = "card.json"

_T = TypeVar("_T")

_FLAW: Final = ": "
"""Between a style and its flaw."""


@dataclass(frozen=True)
class Provenance:
    """Where a kernel comes from."""

    origin: Literal["template", "rollout", "archive"]
    """`template`: a style of `trainer.data.corpus` or of an operation; `rollout`: an answer of an agent; `archive`: a
    row of a file of the AI CUDA Engineer's."""
    place: str
    """The style, and the flaw in it; or the file of transcripts, the conversation and the turn."""
    author: str = ""
    """The agent that wrote it; empty for a template."""

    @classmethod
    def of_template(cls, style: str, flaw: str | None) -> "Provenance":
        """Of a style with a flaw in it, or without."""
        return cls("template", style if flaw is None else f"{style}{_FLAW}{flaw}")

    @property
    def style(self) -> str | None:
        """The style of a template."""
        return self.place.partition(_FLAW)[0] if self.origin == "template" else None

    @property
    def flaw(self) -> str | None:
        """What is wrong with it, where that is known: in a template with a flaw."""
        return (self.place.partition(_FLAW)[2] or None) if self.origin == "template" else None


@dataclass(frozen=True)
class GradedKernel:
    """One kernel and how its evaluation ended."""

    problem: str
    source: str
    """The whole text, launch lines included."""
    fingerprint: str
    """Equal for kernels that differ only in comments, white space and the names of their `__global__` functions."""
    provenance: Provenance
    verdict: Verdict
    """Without heat maps and counts by line."""
    evaluation_id: str | None = None

    @property
    def passed(self) -> bool:
        """Whether the kernel is right."""
        return self.verdict.status is Status.PASSED

    @property
    def speedup(self) -> float | None:
        """As `speedup_of` its verdict."""
        return speedup_of(self.verdict)


@dataclass(frozen=True)
class RejectedKernel:
    """A kernel that was graded, or not even that, and is not kept."""

    problem: str
    fingerprint: str
    provenance: Provenance
    reason: str
    """Why, in words that can be counted."""
    decided_by: str = ""
    """What the reason hangs on: while a collection finds the same words for it, the kernel is not graded again. None
    for a reason that may be gone the next time."""


@dataclass(frozen=True)
class DataCard:
    """What a data set holds, and what was left out."""

    held_out_problems: tuple[str, ...]
    grading: str = ""
    """Backend and settings that every kernel was graded with."""
    evaluators: tuple[str, ...] = ()
    """Versions of the evaluators, as the receipts have them."""
    kernels: int = 0
    training: int = 0
    held_out: int = 0
    problems: dict[str, dict[str, int]] = field(default_factory=dict)
    """Kernels by problem and status."""
    origins: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    """Candidates that were there already."""
    faults: int = 0
    """Candidates without a verdict by the evaluator's own fault; the next collection asks for them again."""
    rejected: dict[str, int] = field(default_factory=dict)
    """By reason."""
    evaluations: int = 0
    """Of the newest collection."""
    seconds: float = 0.0
    """Of the newest collection."""


def speedup_of(verdict: Verdict) -> float | None:
    """Over the baseline, as measured (lower end of the interval), else as estimated; None for a kernel that is not
    right, or whose speed is not known.
    """
    if verdict.status is not Status.PASSED:
        return None
    if verdict.timing is not None:
        return verdict.timing.speedup_low
    return verdict.profile.estimated_speedup if verdict.profile else None


def faster_by(new: Verdict, old: Verdict) -> float | None:
    """How many times as fast a kernel is as another of its problem: by the speedups of both, else by the times that
    are estimated of both for one GPU at the same sizes; None where that is not known, or one of them is not right. A
    speedup that was measured is over another baseline than one that was estimated, and says nothing beside it.
    """
    now, before = speedup_of(new), speedup_of(old)
    if now is not None and before is not None:
        if (new.timing is None) != (old.timing is None):
            return None
        return now / before if before else None
    if new.status is not Status.PASSED or old.status is not Status.PASSED:
        return None
    one = new.profile.estimate if new.profile else None
    other = old.profile.estimate if old.profile else None
    if one is None or other is None or (one.gpu, one.sizes) != (other.gpu, other.sizes) or not one.latency_us:
        return None
    return other.latency_us / one.latency_us


def sides(problems: Iterable[str], named: Collection[str] = (), share: float = HELD_OUT_SHARE) -> frozenset[str]:
    """Those of the problems whose kernels are only ever evaluated on: the named ones, else `share` of all ids.

    Raises ConfigurationError for a named problem that is not among them, and where nothing is left to train on.
    """
    known = tuple(problems)
    if unknown := [name for name in named if name not in known]:
        raise ConfigurationError(
            f"There are no kernels for {', '.join(unknown)}, and so none to hold out.",
            f"Name some of {', '.join(known)} in sft.held_out_problems.",
        )
    held_out = frozenset(named) or frozenset(problem for problem in known if is_held_out(problem, share))
    if known and held_out >= set(known):
        raise ConfigurationError(
            f"All of {', '.join(known)} are held out: no kernel is left to learn from.",
            "Name fewer in sft.held_out_problems, or more problems in tasks.problems.",
        )
    return held_out


@dataclass(frozen=True)
class GradedData:
    """The kernels of a data set, and which problems are held out."""

    kernels: tuple[GradedKernel, ...]
    held_out_problems: frozenset[str]

    @property
    def training(self) -> tuple[GradedKernel, ...]:
        """Kernels that may be learned from: of problems that are not held out."""
        return tuple(one for one in self.kernels if one.problem not in self.held_out_problems)

    @property
    def held_out(self) -> tuple[GradedKernel, ...]:
        """Kernels of the problems that are held out."""
        return tuple(one for one in self.kernels if one.problem in self.held_out_problems)

    def without_copies(self) -> tuple["GradedData", tuple[RejectedKernel, ...]]:
        """Each kernel once for its problem, and no kernel on both sides: what is held out goes before; and what was
        taken out. A kernel that several problems of one side have stays with each: it may be right for one only.
        """
        evaluated_on = {one.fingerprint for one in self.held_out}
        seen: set[tuple[str, str]] = set()
        kept, out = [], []
        for one in self.kernels:
            if (one.problem, one.fingerprint) in seen:
                continue
            seen.add((one.problem, one.fingerprint))
            if one.problem not in self.held_out_problems and one.fingerprint in evaluated_on:
                reason = "also a kernel of a problem that is held out"
                out.append(RejectedKernel(one.problem, one.fingerprint, one.provenance, reason, BY_DATA_SET))
            else:
                kept.append(one)
        return replace(self, kernels=tuple(kept)), tuple(out)


_KERNELS = Json(GradedKernel)
_REJECTED = Json(RejectedKernel)
_CARD = Json(DataCard)


def read_data(folder: Path) -> GradedData:
    """A data set. Raises ConfigurationError where there is none, or a line of it is no graded kernel."""
    card = read_card(folder)
    if card is None:
        raise ConfigurationError(
            f"There is no data set in {folder}: it has no {CARD}.", "Make one with `assay-train data`."
        )
    return GradedData(read_kernels(folder / KERNELS), frozenset(card.held_out_problems))


def read_card(folder: Path) -> DataCard | None:
    """The card of a data set; None where there is none. Raises ConfigurationError for a card of another form."""
    path = folder / CARD
    if not path.is_file():
        return None
    try:
        return _CARD.load(path.read_bytes())
    except ValueError as error:
        raise ConfigurationError(
            f"{path} is not the card of a data set: {error}", "Collect into another folder, or delete this one."
        ) from error


def read_kernels(path: Path) -> tuple[GradedKernel, ...]:
    """The kernels of a file, none where there is no file. Raises ConfigurationError, which names the line."""
    return tuple(_lines(path, _KERNELS))


def read_rejected(path: Path) -> tuple[RejectedKernel, ...]:
    """As `read_kernels`."""
    return tuple(_lines(path, _REJECTED))


def _lines(path: Path, form: Json[_T]) -> list[_T]:
    """A last line whose writing was interrupted is passed over."""
    found: list[_T] = []
    for number, line in enumerate(path.read_bytes().splitlines(keepends=True) if path.is_file() else (), 1):
        try:
            found.append(form.load(line))
        except ValueError as error:
            if not line.endswith(b"\n"):
                break
            raise ConfigurationError(
                f"{path}, line {number} does not belong into a data set of this version: {error}",
                "Collect into another folder.",
            ) from error
    return found


def kernel_line(kernel: GradedKernel) -> bytes:
    """A line of `kernels.jsonl`, with its end."""
    return _KERNELS.dump(kernel) + b"\n"


def rejected_line(kernel: RejectedKernel) -> bytes:
    """A line of `rejected.jsonl`, with its end."""
    return _REJECTED.dump(kernel) + b"\n"


def write_data(folder: Path, data: GradedData, rejected: Sequence[RejectedKernel], card: DataCard) -> DataCard:
    """Write a whole data set in an order of its own; returns the card with everything counted.

    The card comes last: where there is one, what it counts is there.
    """
    by_problem: dict[str, Counter[str]] = {}
    for one in data.kernels:
        by_problem.setdefault(one.problem, Counter())[one.verdict.status] += 1
    receipts = [one.verdict.receipt for one in data.kernels if one.verdict.receipt]
    counted = replace(
        card,
        held_out_problems=tuple(sorted(data.held_out_problems)),
        evaluators=tuple(sorted({receipt.grader_version for receipt in receipts})),
        kernels=len(data.kernels),
        training=len(data.training),
        held_out=len(data.held_out),
        problems={name: dict(sorted(counts.items())) for name, counts in sorted(by_problem.items())},
        origins=dict(sorted(Counter(one.provenance.origin for one in data.kernels).items())),
        rejected=dict(sorted(Counter(one.reason for one in rejected).items())),
    )
    ordered = sorted(data.kernels, key=lambda one: (one.problem, one.provenance.origin, one.fingerprint))
    out = sorted(rejected, key=lambda one: (one.problem, one.reason, one.fingerprint))
    replace_file(folder / KERNELS, b"".join(map(kernel_line, ordered)), on_disk=True)
    replace_file(folder / REJECTED, b"".join(map(rejected_line, out)), on_disk=True)
    replace_file(folder / CARD, json.dumps(asdict(counted), indent=1).encode() + b"\n", on_disk=True)
    return counted
