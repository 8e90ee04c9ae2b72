"""From a file of someone else to a `Problem` that the pipeline takes; what was learned of a text is kept."""

import hashlib
import importlib.metadata
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from common.contract import OtherSizes, ProblemFace, foreign_problem_id
from common.wire import Json
from evaluator.cancellation import CancelToken
from evaluator.disk_cache import Cache, key_of
from evaluator.foreign.baselines import Subject
from evaluator.foreign.description import Description
from evaluator.foreign.learning import (
    RULES,
    File,
    Known,
    caveats_of_sizes,
    learn,
    origins,
    stated_problem,
)
from evaluator.foreign.reference import (
    ReferenceEndedError,
    ReferenceProcess,
    ReferenceRefusedError,
    RefusedAt,
    large_room,
)
from evaluator.foreign.sizes import constants_of
from evaluator.problems.problem import Problem
from evaluator.sandbox.sandbox import Sandbox

_LEARN_S: Final = 300.0
"""For all that is asked of a file to learn it; published ones take a few seconds, the largest a minute."""
_EVALUATION_S: Final = 300.0
"""For all answers of one evaluation. With the above it bounds how long one submission keeps a worker."""
_ENDED_KEPT_S: Final = 600.0
"""How long it is believed that a file takes too long or too much memory: a busy machine may have been why."""

_known: Final = Json(Known)


@dataclass(frozen=True)
class _Refusal:
    """Why a text can be no problem."""

    message: str
    """Without the file's name in front of it: others may give the same text another name, and are not to see it."""
    remedy: str | None
    at: RefusedAt
    ended_at: float
    """When its process ended or had to be ended, seconds since 1970; 0 where it answered."""


_refusal: Final = Json(_Refusal)


@contextmanager
def foreign_problem(
    text: bytes,
    name: str,
    sandbox: Sandbox,
    cache: Cache,
    other_sizes: OtherSizes = "reported",
    problem_id: str | None = None,
    cancel_token: CancelToken | None = None,
    backend: Literal["gpu", "sim"] = "sim",
) -> Iterator[Problem]:
    """The problem that a KernelBench file states. Its oracle works as long as the context lasts.

    `name`: the file's, for messages and the problem's id, unless `problem_id` gives that. `other_sizes`: whether a
    kernel must be right at sizes that the file does not state. What was learned of a text is kept, also why it is
    refused: that for a while only where its process had to be ended, which may go better on another day.

    `cancel_token`: that of the work that it is for. `backend`: on a GPU it is the problem at the sizes that the file
    states, on the simulator at smaller ones where those are too much for it.

    Raises ReferenceRefusedError, InfrastructureError, CancelledError.
    """
    process = ReferenceProcess(sandbox, text, name, cancel_token, large_room() if backend == "gpu" else None)
    try:
        file = File(process, text, problem_id or foreign_problem_id(name, text))
        known = _known_of(file, cache)
        process.start()  # it imports PyTorch while the kernel is compiled
        published = _published(file, known, cache) if backend == "gpu" else None
        yield _used(file, known, other_sizes, published)
    finally:
        process.close()


@contextmanager
def restated(origin: bytes, sandbox: Sandbox) -> Iterator[Problem]:
    """The problem that another process of ours stated, with a reference process of its own in `sandbox`.

    Raises ReferenceRefusedError, InfrastructureError.
    """
    told = origins.load(origin)
    process = ReferenceProcess(sandbox, told.text, told.name, room=large_room())
    try:
        process.start()
        file = File(process, told.text, told.problem_id)
        yield _used(file, told.known, told.other_sizes, told.published)
    finally:
        process.close()


def subject_of(origin: bytes) -> Subject:
    """What of such a problem is timed as its baseline."""
    told = origins.load(origin)
    described = told.published or told.known.description
    return Subject(told.text, constants_of(described, described.sizes))


def _used(file: File, known: Known, other_sizes: OtherSizes, published: Description | None) -> Problem:
    """The problem for one evaluation."""
    file.redrawn = known.redrawn
    file.remember(known.description)
    if published is not None:
        file.remember(published)
    file.process.grant(_EVALUATION_S)
    return stated_problem(file, known, other_sizes, published)


def _published(file: File, known: Known, cache: Cache) -> Description:
    """The file at the sizes that it states. Raises ReferenceRefusedError, InfrastructureError."""
    if not known.too_large:
        return known.description
    key = key_of(*_key_parts("foreign problem as published", file))
    made = cache.get_or_make(key, lambda: {"published": file.process.describe({}).to_json()})
    return Description.from_json(made[0]["published"])


@dataclass(frozen=True)
class SurveyedFile:
    """What can be promised of one file."""

    name: str
    refused: str = ""
    """Why it can be no problem; empty where it can."""
    refused_at: RefusedAt | None = None
    """None also where it is not the file that failed."""
    ended: bool = False
    """Whether it is refused since its process ended or had to be ended."""
    told: Mapping[str, float] = field(default_factory=dict)
    """How many times what is allowed each lower precision is off."""
    untold: tuple[str, ...] = ()
    """Lower precisions that it cannot tell from its own."""
    varies: tuple[str, ...] = ()
    """The sizes at which a kernel is tried beside those that the file states."""
    at_smaller_sizes: bool = False
    """Whether it is too large for the simulator at its own sizes."""
    caveats: tuple[str, ...] = ()
    """What a verdict cannot say, in words."""
    duration_s: float = 0.0
    face: ProblemFace | None = None
    """What the author of a kernel needs to know of it; None where it is refused."""


def survey_file(text: bytes, name: str, sandbox: Sandbox, cache: Cache) -> SurveyedFile:
    """Learn one file, or look up what is known of it. Raises InfrastructureError, UsageError without PyTorch."""
    begun_s = time.monotonic()
    try:
        process = ReferenceProcess(sandbox, text, name)
    except ReferenceRefusedError as refused:
        return SurveyedFile(name, str(refused), refused.at)
    try:
        file = File(process, text, foreign_problem_id(name, text))
        known = _known_of(file, cache)
    except ReferenceRefusedError as refused:
        ended = isinstance(refused, ReferenceEndedError)
        return SurveyedFile(name, str(refused), refused.at, ended, duration_s=time.monotonic() - begun_s)
    finally:
        process.close()
    return SurveyedFile(
        name,
        told=known.calibration.told,
        untold=known.calibration.untold,
        varies=tuple(known.varied.steps),
        at_smaller_sizes=bool(known.too_large),
        caveats=(*known.warnings, *caveats_of_sizes(known, "reported")),
        duration_s=time.monotonic() - begun_s,
        face=_used(file, known, "reported", None).face,
    )


def _known_of(file: File, cache: Cache) -> Known:
    """What is known of a file, learned now where it is not. Raises ReferenceRefusedError, InfrastructureError."""
    key = key_of(*_key_parts("foreign problem", file))
    entry, _ = cache.get_or_make(key, lambda: _learned(file))
    if "refused" in entry:
        refusal = _refusal.load(entry["refused"])
        if not refusal.ended_at or time.time() - refusal.ended_at < _ENDED_KEPT_S:
            kind = ReferenceEndedError if refusal.ended_at else ReferenceRefusedError
            refused = kind(f"{file.name}{refusal.message}", refusal.remedy)
            refused.at = refusal.at
            raise refused
        entry = cache.update(key, lambda _: _learned(file))
        if "refused" in entry:
            return _known_of(file, cache)
    return _known.load(entry["known"])


def _key_parts(kind: str, file: File) -> tuple[str | bytes, ...]:
    return kind, RULES, importlib.metadata.version("torch"), _own_digest(), file.text


def _learned(file: File) -> dict[str, bytes]:
    """What is to be kept of a file: `known`, or `refused`. Raises InfrastructureError."""
    file.process.grant(_LEARN_S)
    try:
        return {"known": _known.dump(learn(file))}
    except ReferenceRefusedError as refused:
        ended_at = time.time() if isinstance(refused, ReferenceEndedError) else 0.0
        message = str(refused).removeprefix(file.name)
        return {"refused": _refusal.dump(_Refusal(message, refused.remedy, refused.at, ended_at))}


def _own_digest() -> str:
    """Of the code that describes and calibrates: what another version of it said is not believed."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
