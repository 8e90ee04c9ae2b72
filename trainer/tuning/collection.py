"""Data sets filled: kernels of templates and of agents' conversations, each judged by the evaluator over HTTP.

Nothing is kept on its author's word. A template says how its evaluation should end, and one that ends otherwise is
not kept; a conversation has a verdict about each kernel, and yet each is judged again, so that all kernels of a data
set were judged by one evaluator with one set of settings. What a stopped collection has graded is not graded again.
What was not kept is graded again once another version of the evaluator or of the problem judges it, or its author
says otherwise.
"""

import asyncio
import hashlib
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Final

from common.contract import Reference, Status
from common.file_replacement import append_to_file
from trainer.conversation.conversation import AgentName
from trainer.conversation.episode import EpisodeSettings, Oracle
from trainer.conversation.extraction import nameless_source
from trainer.data import corpus, graded
from trainer.data.graded import DataCard, GradedData, GradedKernel, Provenance, RejectedKernel
from trainer.data.operations import Operation
from trainer.errors import ConfigurationError, OracleError, OracleLostError
from trainer.reporting.transcripts import read_transcripts

_CONCURRENCY: Final = 64
"""Candidates under way at one time: as many as the oracle sends by default."""
_TOLD_EVERY: Final = 50
_PASSING: Final = (Status.TIMEOUT, Status.OUT_OF_MEMORY)
"""Ends that a kernel may come to because the machine had too much else to do."""
_OF_A_PROBLEM: Final = 8
"""Kernels of each problem that a part of all candidates has."""


@dataclass(frozen=True)
class UngradedKernel:
    """A kernel that nobody has judged yet."""

    problem: str
    source: str
    provenance: Provenance
    expected: Status | None = None
    """How its author says that its evaluation ends; None where nobody says so."""
    reference: Reference | None = None
    """What states the problem, where the evaluator does not know it."""


@dataclass
class _Graded:
    """What a collection has found so far."""

    kernels: list[GradedKernel]
    rejected: list[RejectedKernel]
    duplicates: int = 0
    faults: int = 0
    evaluations: int = 0
    seen: set[tuple[str, str]] = field(default_factory=set)


def fingerprint_of(source: str) -> str:
    """Equal for kernels that differ only in comments, white space and the names of their `__global__` functions."""
    return hashlib.sha256(nameless_source(source).encode("utf-8", "replace")).hexdigest()[:32]


def template_candidates(problems: Iterable[str]) -> Iterator[UngradedKernel]:
    """Each style of `trainer.data.corpus` for these problems once right and once with each of its flaws."""
    for one in corpus.everything(frozenset(problems)):
        yield UngradedKernel(one.problem, one.source, Provenance.of_template(one.style, one.flaw), one.status)


def operation_candidates(operations: Iterable[Operation]) -> Iterator[UngradedKernel]:
    """As `template_candidates`, for operations: problem by problem, since each is learned by the evaluator when it is
    met first. A shape that is only asked has none.
    """
    for operation in operations:
        for style in () if operation.shape_is_held_out else operation.family.styles:
            for flaw in (None, *corpus.flaws(style)):
                one = corpus.render_prompt(style, flaw)
                provenance = Provenance.of_template(one.style, one.flaw)
                yield UngradedKernel(operation.name, one.source, provenance, one.status, operation.reference)


def drawn(candidates: Sequence[UngradedKernel], most: int | None, seed: int) -> tuple[UngradedKernel, ...]:
    """At most so many of the candidates, in their order, so that those of a problem stay together.

    Problems are drawn by the seed, each with `_OF_A_PROBLEM` kernels, or more where there are too few problems: right
    and wrong ones in turn, since a pair is what an Optimizer learns from, and a new problem costs the evaluator more
    than a kernel.
    """
    if most is None or most >= len(candidates):
        return tuple(candidates)
    by_problem: dict[str, list[int]] = {}
    for number, one in enumerate(candidates):
        by_problem.setdefault(one.problem, []).append(number)
    rng = random.Random(seed)
    columns: list[list[int]] = []
    for numbers in by_problem.values():
        shuffled = rng.sample(numbers, len(numbers))
        right = [number for number in shuffled if candidates[number].expected is Status.PASSED]
        wrong = [number for number in shuffled if candidates[number].expected is not Status.PASSED]
        columns.append([one for pair in zip_longest(right, wrong) for one in pair if one is not None])
    rng.shuffle(columns)
    each = max(_OF_A_PROBLEM, -(-most // len(columns)))
    first = [number for column in columns for number in column[:each]]
    rest = [number for column in columns for number in column[each:]]
    return tuple(candidates[number] for number in sorted([*first, *rest][:most]))


def rollout_candidates(folder: Path) -> Iterator[UngradedKernel]:
    """Each kernel in the transcripts below a run's folder, evaluations on held-out prompts left out.

    Raises ConfigurationError for a folder without transcripts, TranscriptError for a file that holds something else.
    """
    files = sorted(path for path in folder.rglob("*.jsonl") if path.parent.name == "transcripts")
    if not files:
        raise ConfigurationError(
            f"There are no transcripts below {folder}.",
            "Name the folder of a run that was made with logging.transcripts_share above 0.",
        )
    for path in files:
        for line in read_transcripts(path):
            conversation = line.conversation
            for attempt in conversation.attempts if not conversation.task.held_out else ():
                written = attempt.written
                if written.source is not None:
                    place = f"{path.relative_to(folder)}, {conversation.id}, turn {written.index}"
                    provenance = Provenance("rollout", place, written.agent)
                    task = conversation.task
                    yield UngradedKernel(task.problem, written.source, provenance, reference=task.reference)


async def collect(
    candidates: Iterable[UngradedKernel],
    into: Path,
    oracle: Oracle,
    settings: EpisodeSettings,
    *,
    held_out_problems: frozenset[str],
    versions: Mapping[str, str] = MappingProxyType({}),
    tell: Callable[[str], None] = print,
) -> DataCard:
    """Have every candidate judged that the data set `into` does not hold yet, and write the set anew.

    `held_out_problems`: of these candidates. `versions`: of each problem, what its verdicts hang on beside the
    settings; a kernel that was rejected under another one is judged anew. A set that is there keeps its sides and
    takes in more problems: refused is what would hold out a problem that models may have learned from, or learn from
    one that was held out. A template that does not end as it says is not kept, nor is a kernel that could not be
    judged, nor one for training that is also one of a problem that is held out.
    Raises ConfigurationError, OracleLostError: what was graded until then is kept.
    """
    grading = f"{settings.backend} {settings.grading.model_dump_json()}"
    before = graded.read_card(into)
    candidates = list(candidates)
    _refuse_other(before, held_out_problems, {one.problem for one in candidates}, grading, into)
    held_out_problems |= frozenset(before.held_out_problems) if before else frozenset()
    into.mkdir(parents=True, exist_ok=True)
    found = _Graded(
        list(graded.read_kernels(into / graded.KERNELS)), list(graded.read_rejected(into / graded.REJECTED))
    )
    card = before or DataCard(tuple(sorted(held_out_problems)), grading)
    found.seen = {(one.problem, one.fingerprint) for one in found.kernels}
    new = _new(candidates, found, versions)
    again = {(one.problem, fingerprint) for one, fingerprint in new}
    found.rejected = [one for one in found.rejected if (one.problem, one.fingerprint) not in again]
    began_s = time.monotonic()
    # Both files end in whole lines before anything is appended, and the card says what that was graded with.
    graded.write_data(into, GradedData(tuple(found.kernels), held_out_problems), found.rejected, card)
    try:
        await _grade(new, found, into, oracle, settings, versions, tell)
    finally:
        data, copies = GradedData(tuple(found.kernels), held_out_problems).without_copies()
        found.rejected += copies
        written = graded.write_data(
            into,
            data,
            found.rejected,
            DataCard(
                tuple(sorted(held_out_problems)),
                grading,
                duplicates=found.duplicates,
                faults=found.faults,
                evaluations=found.evaluations,
                seconds=time.monotonic() - began_s,
            ),
        )
    return written


def _refuse_other(
    before: DataCard | None, held_out: frozenset[str], asked: set[str], grading: str, into: Path
) -> None:
    if before is None:
        return
    known = set(before.held_out_problems)
    learned_now, held_out_now = known & asked - held_out, held_out & before.problems.keys() - known
    if learned_now or held_out_now:
        raise ConfigurationError(
            f"The data set in {into} holds out {', '.join(before.held_out_problems) or 'no problem'}, and this "
            f"collection would hold out {', '.join(sorted(held_out)) or 'none'}: "
            f"{', '.join(sorted(learned_now | held_out_now))} would be on the other side.",
            "Name the same problems in sft.held_out_problems, or collect into another folder.",
        )
    if before.grading != grading:
        raise ConfigurationError(
            f"The kernels in {into} were graded with other settings: {before.grading}",
            "Set evaluator.* and reward.target_speedup as then, or collect into another folder.",
        )


def _new(
    candidates: Iterable[UngradedKernel], found: _Graded, versions: Mapping[str, str]
) -> list[tuple[UngradedKernel, str]]:
    """Candidates that are not there yet, each kernel once for its problem, with their fingerprints."""
    new = []
    rejected = {(one.problem, one.fingerprint): one.decided_by for one in found.rejected}
    for one in candidates:
        fingerprint = fingerprint_of(one.source)
        key = (one.problem, fingerprint)
        stands = rejected.get(key) in (graded.BY_DATA_SET, _decided_by(one, versions))
        if stands or key in found.seen:
            found.duplicates += 1
        else:
            new.append((one, fingerprint))
        found.seen.add(key)
    return new


def _decided_by(candidate: UngradedKernel, versions: Mapping[str, str]) -> str:
    """What it hangs on whether a candidate is kept, beside the settings of its data set."""
    return f"{versions.get(candidate.problem, 'unknown')}; said to end as {candidate.expected or 'anything'}"


async def _grade(
    new: list[tuple[UngradedKernel, str]],
    found: _Graded,
    into: Path,
    oracle: Oracle,
    settings: EpisodeSettings,
    versions: Mapping[str, str],
    tell: Callable[[str], None],
) -> None:
    places = asyncio.Semaphore(_CONCURRENCY)

    async def one(candidate: UngradedKernel, fingerprint: str) -> None:
        rewards = settings.reward_of(AgentName.GENERATOR)
        submission = settings.submission(candidate.problem, candidate.source, rewards, candidate.reference)
        async with places:
            try:
                judged = await oracle.evaluate(submission)
            except OracleLostError:
                raise
            except OracleError:
                found.faults += 1
                return
        found.evaluations += 1
        status = judged.verdict.status
        reason = None
        if not status.carries_reward:
            reason = f"could not be judged: {status}"
        elif candidate.expected not in (None, status):
            reason = f"said to end as {candidate.expected}, ended as {status}"
        if reason is not None:
            decided_by = "" if status in _PASSING else _decided_by(candidate, versions)
            out = RejectedKernel(candidate.problem, fingerprint, candidate.provenance, reason, decided_by)
            found.rejected.append(out)
            append_to_file(into / graded.REJECTED, graded.rejected_line(out))
        else:
            kernel = GradedKernel(
                candidate.problem,
                candidate.source,
                fingerprint,
                candidate.provenance,
                judged.verdict,
                judged.evaluation_id,
            )
            found.kernels.append(kernel)
            append_to_file(into / graded.KERNELS, graded.kernel_line(kernel))
        if found.evaluations % _TOLD_EVERY == 0:
            tell(f"{found.evaluations} of {len(new)} kernels graded, {len(found.kernels)} kept.")

    grading = [asyncio.create_task(one(*each)) for each in new]
    try:
        await asyncio.gather(*grading)
    finally:
        for task in grading:
            task.cancel()
        await asyncio.gather(*grading, return_exceptions=True)
