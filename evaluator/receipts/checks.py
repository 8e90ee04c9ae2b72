"""Checking a verdict that someone shows: whether it is what was signed, and whether it fits itself and its seed.

Nothing here compiles or runs anything; `replay` does. Every check says what it found and what that means.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from pydantic import ValidationError

from common.contract import CONTRACT_VERSION, Evaluation, Receipt, Settings, Submission, Verdict, is_foreign_problem
from common.facts import Measure, facts_of, measures_of, measures_of_host_code
from common.launch_directives import parse_directives
from common.launch_plan import LaunchPlan, PlanError
from common.reward import REWARD_VERSION, reward
from common.signature import NotCanonicalError, is_genuine, key_id, read_json, signed_text
from evaluator import __version__
from evaluator.backends.peaks import peaks_of
from evaluator.errors import UnknownProblemError, UsageError
from evaluator.pipeline.receipt import plan_sha256
from evaluator.pipeline.timing import larger
from evaluator.problems.catalogue import find_problem
from evaluator.problems.problem import Problem
from evaluator.seed import Seed
from evaluator.stages.screen.cleaning import clean
from evaluator.stages.time.roofline import Roofline, precision_of
from evaluator.stages.time.statistics import recomputed
from evaluator.stages.verify.trials import PlannedTrial, asked_sizes, plan_trials, rehearsal, unlike
from evaluator.validation_messages import in_plain_words

Model = TypeVar("Model", Evaluation, Verdict)
MAX_BYTES: Final = 64 << 20
"""Largest text that is read as a verdict."""
_EQUAL: Final = 1e-9
"""Relative; other versions of libraries may round differently."""


class CheckOutcome(StrEnum):
    """What a check found."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "not checked"


@dataclass(frozen=True)
class Check:
    """One check, and what it found in words."""

    name: str
    outcome: CheckOutcome
    detail: str


@dataclass(frozen=True)
class Expectations:
    """What is given beside the verdict, to hold it against."""

    source: bytes | None = None
    plan: LaunchPlan | None = None
    keys: Mapping[str, str] = field(default_factory=dict)
    """Public keys that are trusted, and whose they are, in words."""
    problem: Problem | None = None
    """What the verdict is about, where that is a problem of others."""


@dataclass(frozen=True)
class ParsedReceipt:
    """A verdict that someone shows."""

    members: Mapping[str, Any]
    """The verdict's JSON as it came, which is what a signature is about."""
    verdict: Verdict
    receipt: Receipt
    submission: Submission | None
    """Where a whole evaluation was given."""
    stated: Problem | None = None
    """The problem, where it is one of others and was given beside the verdict."""

    @property
    def problem(self) -> Problem:
        """Raises UnknownProblemError."""
        return self.stated or find_problem(self.verdict.problem)

    @property
    def lacks_its_problem(self) -> bool:
        """Whether it is about a problem of others, which was not given."""
        return self.stated is None and is_foreign_problem(self.verdict.problem)

    @property
    def seed(self) -> Seed:
        """Raises ValueError where the receipt reveals none."""
        return Seed(bytes.fromhex(self.receipt.seed or "none"))


class _CheckFailedError(Exception):
    """A check failed; the text says how."""


class _CheckSkippedError(Exception):
    """A check cannot be made; the text says why."""


def examine_verdict(text: bytes, beside: Expectations) -> tuple[ParsedReceipt | None, tuple[Check, ...]]:
    """Make every check that can be made without a compiler. `text`: JSON of a verdict or of a whole evaluation.

    None and one failed check where it is neither.
    """
    try:
        shown = replace(_read(text), stated=beside.problem)
    except (_CheckFailedError, NotCanonicalError) as wrong:
        return None, (Check("form", CheckOutcome.FAILED, f"This is no verdict with a receipt: {wrong}."),)
    form = Check("form", CheckOutcome.OK, f"A verdict on {shown.verdict.problem}: {shown.verdict.status}.")
    return shown, (form, *(_made(name, check, shown, beside) for name, check in _CHECKS))


def verified(checks: Sequence[Check]) -> bool:
    """Whether nothing speaks against the verdict; what was not checked does not."""
    return all(check.outcome is not CheckOutcome.FAILED for check in checks)


def differences(shown: Any, computed: Any, path: str = "") -> Iterator[str]:
    """Where two JSON values differ, in words; numbers may differ by rounding."""
    if isinstance(shown, Mapping) and isinstance(computed, Mapping):
        for name in dict.fromkeys((*shown, *computed)):
            yield from differences(shown.get(name), computed.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(shown, list) and isinstance(computed, list) and len(shown) == len(computed):
        for index, pair in enumerate(zip(shown, computed, strict=True)):
            yield from differences(*pair, f"{path}[{index}]")
    elif _is_number(shown) and _is_number(computed):
        if not math.isclose(shown, computed, rel_tol=_EQUAL, abs_tol=1e-12):
            yield f"{path} is {shown!r}, and should be {computed!r}"
    elif shown != computed:
        yield f"{path} is {_short(shown)}, and should be {_short(computed)}"


# ---- reading ----


def _read(text: bytes) -> ParsedReceipt:
    """Raises _CheckFailedError, NotCanonicalError."""
    if len(text) > MAX_BYTES:
        raise _CheckFailedError(f"it has more than {MAX_BYTES >> 20} MiB")
    given = read_json(text)
    if not isinstance(given, dict):
        raise _CheckFailedError("it is no JSON object")
    submission, members = None, given
    if "verdict" in given:
        members = given["verdict"]
        if members is None:
            raise _CheckFailedError("this evaluation is not judged yet")
        submission = _modelled(Evaluation, given).submission
    elif "seed_commitment" in given:
        raise _CheckFailedError(
            "it is a receipt without its verdict; the signature covers both, so give the whole verdict"
        )
    verdict = _modelled(Verdict, members)
    if verdict.receipt is None:
        raise _CheckFailedError(
            f"this verdict ({verdict.status}) has no receipt: nothing was tried that one could be about"
        )
    return ParsedReceipt(members, verdict, verdict.receipt, submission)


def _modelled(model: type[Model], members: Any) -> Model:
    try:
        return model.model_validate_json(json.dumps(members))
    except ValidationError as error:
        receipt = members.get("receipt") if isinstance(members, dict) else None
        version = receipt.get("contract_version") if isinstance(receipt, dict) else None
        other = f" It is of contract {_short(version)}, and this is {CONTRACT_VERSION}." if version else ""
        raise _CheckFailedError(
            in_plain_words(error).rstrip(".") + ("." + other if version != CONTRACT_VERSION else "")
        ) from None


# ---- the checks ----


def _made(
    name: str, check: "Callable[[ParsedReceipt, Expectations], str]", shown: ParsedReceipt, beside: Expectations
) -> Check:
    try:
        return Check(name, CheckOutcome.OK, check(shown, beside))
    except _CheckFailedError as wrong:
        return Check(name, CheckOutcome.FAILED, str(wrong))
    except _CheckSkippedError as why:
        return Check(name, CheckOutcome.SKIPPED, str(why))


def _signature(shown: ParsedReceipt, beside: Expectations) -> str:
    signature = shown.receipt.signature
    if signature is None:
        raise _CheckFailedError(
            "It is not signed: its grader was older than signatures, or had no place to keep a key. No one vouches "
            "for what it says."
        )
    if key_id(signature.public_key) != signature.key_id:
        raise _CheckFailedError(f"The key's short name {signature.key_id} is not that of its public key.")
    try:
        text = signed_text(shown.members)
    except NotCanonicalError as error:
        raise _CheckFailedError(f"Nothing like this can have been signed: {error}.") from None
    if not is_genuine(text, signature.value, signature.public_key):
        raise _CheckFailedError(
            f"This is not what key {signature.key_id} signed: something of the verdict was changed, or the signature."
        )
    return f"Key {signature.key_id} signed exactly this verdict."


def _key(shown: ParsedReceipt, beside: Expectations) -> str:
    signature = shown.receipt.signature
    if signature is None:
        raise _CheckSkippedError("There is no signature.")
    owner = beside.keys.get(signature.public_key)
    if owner is None:
        raise _CheckFailedError(
            f"Signed by an unknown key, {signature.key_id}: anyone can make a key and sign anything with it. Get the "
            "grader's public key from the grader (`assay keys signing`, or GET /version of a service) and give it "
            "with --key."
        )
    return f"The key is {owner}."


def _versions(shown: ParsedReceipt, beside: Expectations) -> str:
    receipt = shown.receipt
    problem = receipt.problem_version if shown.lacks_its_problem else _problem(shown).version
    pairs = {
        "contract": (receipt.contract_version, CONTRACT_VERSION),
        "grader": (receipt.grader_version, __version__),
        "problem": (receipt.problem_version, problem),
    }
    if shown.verdict.reward is not None:
        pairs["reward"] = (str(shown.verdict.reward.version), str(REWARD_VERSION))
    other = [f"{name} {theirs} (here {ours})" for name, (theirs, ours) in pairs.items() if theirs != ours]
    if other:
        raise _CheckFailedError(
            f"It was made with other versions: {', '.join(other)}. What follows from seed and samples may be other "
            "there, so this cannot be checked here; verify with those versions."
        )
    return f"contract {CONTRACT_VERSION}, grader {__version__}, problem {problem}, as here."


def _source(shown: ParsedReceipt, beside: Expectations) -> str:
    hashed = shown.receipt.source_sha256
    source = _source_of(shown, beside)
    if source is None:
        raise _CheckSkippedError(
            f"No source was given: this is about the one with SHA-256 {hashed}. --source FILE compares."
        )
    found = hashlib.sha256(source).hexdigest()
    if found != hashed:
        raise _CheckFailedError(
            f"The source is another one: its SHA-256 is {found}, and the verdict is about {hashed}."
        )
    return "The source has the hash that the verdict is about."


_MADE: Final = {
    "inferred": "inferred from the compiled kernel",
    "recorded": "recorded from the host code",
    "host": "a call of host code, which ran",
}


def _plan(shown: ParsedReceipt, beside: Expectations) -> str:
    hashed, correctness = shown.receipt.plan_sha256, shown.verdict.correctness
    plan = beside.plan or (shown.submission.plan if shown.submission else None)
    source = _source_of(shown, beside)
    where = "The plan"
    if plan is None and source is not None:
        try:
            plan, where = parse_directives(clean(source).source), "The plan in the source"
        except PlanError:
            plan = None
    if plan is None:
        made = _MADE.get(correctness.plan_source or "") if correctness is not None else None
        raise _CheckSkippedError(f"It was {made}; --rerun does so again." if made else "None is given.")
    if hashed is None:
        raise _CheckSkippedError("The verdict was given before there was a plan.")
    if plan_sha256(plan) != hashed:
        raise _CheckFailedError(
            f"{where} is another one: its hash is {plan_sha256(plan)}, and the verdict is about {hashed}."
        )
    return f"{where} has the hash that the verdict is about."


def _submission(shown: ParsedReceipt, beside: Expectations) -> str:
    submission, verdict = shown.submission, shown.verdict
    if submission is None:
        raise _CheckSkippedError("No evaluation was given, only a verdict.")
    found = list(differences(_dumped(submission.settings), _dumped(shown.receipt.settings), "settings"))
    if submission.problem != verdict.problem:
        found.append(f"problem is {_short(submission.problem)}, and should be {_short(verdict.problem)}")
    if submission.backend not in ("auto", verdict.backend):
        found.append(f"backend is {submission.backend!r}, and should be {verdict.backend!r}")
    if found:
        raise _CheckFailedError(f"The verdict belongs to another submission: {_few(found)}.")
    return "Problem, backend and settings of the submission are those of the verdict."


def _parts(shown: ParsedReceipt, beside: Expectations) -> str:
    verdict, receipt = shown.verdict, shown.receipt
    found = []
    compiled = verdict.compile
    if compiled is not None and compiled.succeeded is not None:
        for name in ("toolchain", "arch"):
            if getattr(compiled, name) != getattr(receipt, name):
                found.append(
                    f"compile.{name} is {getattr(compiled, name)!r}, in the receipt {getattr(receipt, name)!r}"
                )
    by_plan = compiled is not None and compiled.tier == "device"
    if compiled is not None and by_plan and compiled.succeeded and not (receipt.ptx_sha256 and receipt.cubin_sha256):
        found.append("it compiled, and there is no hash of what came of that")
    timing = verdict.timing
    if timing is not None and timing.device.uuid is not None and timing.device.uuid not in receipt.device:
        found.append(f"the times are of {timing.device.uuid}, and the receipt is of {receipt.device!r}")
    if found:
        raise _CheckFailedError(f"The verdict contradicts its receipt: {_few(found)}.")
    return "The verdict and its receipt speak of the same compiler, program and device."


def _seed(shown: ParsedReceipt, beside: Expectations) -> str:
    try:
        seed = shown.seed
    except ValueError:
        raise _CheckFailedError("The seed is not revealed, or is no hexadecimal text.") from None
    if seed.commitment != shown.receipt.seed_commitment:
        raise _CheckFailedError(
            f"The seed is not the one that was committed to: its SHA-256 is {seed.commitment}, and the commitment "
            f"{shown.receipt.seed_commitment}."
        )
    return "The revealed seed has the hash that was fixed before the first run."


def _trials(shown: ParsedReceipt, beside: Expectations) -> str:
    correctness = shown.verdict.correctness
    if correctness is None:
        raise _CheckSkippedError("Nothing was run.")
    _needs_versions(shown)
    problem, settings = _problem(shown), shown.receipt.settings
    timed = shown.verdict.backend == "gpu" and settings.timing
    try:
        planned = plan_trials(problem, settings, shown.seed.generator(), timed_too=timed)
        rehearsed = rehearsal(problem, plan_trials(problem, settings, shown.seed.generator()))
        sizes = asked_sizes(problem, settings.sizes) if settings.sizes else problem.timing_sizes
    except (UsageError, ValueError) as error:
        raise _CheckFailedError(f"No trials follow from this seed and these settings: {error}") from None
    if correctness.verification != settings.verification:
        raise _CheckFailedError(
            f"The settings ask for {settings.verification} verification, and the verdict says "
            f"{correctness.verification}."
        )
    why = unlike(correctness, planned, _afterwards(shown.verdict.backend, problem, planned, sizes))
    if why is not None and shown.verdict.backend == "gpu" and not correctness.passed and settings.rehearse:
        # What the simulator found before the GPU's turn, in a few of the trials.
        why = unlike(correctness, rehearsed, _afterwards("sim", problem, rehearsed, sizes)) and why
    if why is not None:
        raise _CheckFailedError(f"The trials are not those that follow from the seed: {why}.")
    return f"All {len(correctness.trials)} trials have the sizes, scalars and distributions that the seed gives."


def _timing(shown: ParsedReceipt, beside: Expectations) -> str:
    timing = shown.verdict.timing
    if timing is None:
        raise _CheckSkippedError("Nothing was timed.")
    _needs_versions(shown)
    problem, peaks = _problem(shown), peaks_of(timing.device)
    if timing.launches != len(timing.samples_us) or not timing.baseline_samples_us:
        raise _CheckFailedError(f"It claims {timing.launches} launches, and has {len(timing.samples_us)} samples.")
    bounded = peaks is not None and problem.work_is_least and timing.clock == "device"
    roofline = Roofline(problem.work(timing.sizes), precision_of(problem), peaks) if peaks and bounded else None
    try:
        again = recomputed(timing, roofline)
    except (ValueError, ArithmeticError) as error:
        raise _CheckFailedError(f"No statistics follow from these samples: {error}") from None
    found = list(differences(_dumped(timing, notes=False), _dumped(again, notes=False), "timing"))
    missing = [note for note in again.notes if note not in timing.notes]
    if missing:
        found.append(f"timing.notes lacks {missing[0]!r}")
    if found:
        raise _CheckFailedError(f"The statistics are not those of the samples: {_few(found)}.")
    return (
        f"Medians, bootstrap interval and speedup follow from {len(timing.samples_us)} samples of this evaluation"
        + (f" and {timing.pooled_evaluations - 1} others that were pooled." if timing.pooled_evaluations > 1 else ".")
    )


def _reward(shown: ParsedReceipt, beside: Expectations) -> str:
    verdict, settings = shown.verdict, shown.receipt.settings
    if verdict.reward is None:
        raise _CheckSkippedError(f"A verdict that is {verdict.status} carries none.")
    _needs_versions(shown)
    version = verdict.reward.version
    if not 1 <= version <= REWARD_VERSION:
        raise _CheckFailedError(f"It is a reward of version {version}; here is version {REWARD_VERSION}.")
    facts = facts_of(
        status=verdict.status,
        compilation=verdict.compile,
        correctness=verdict.correctness,
        timing=verdict.timing,
        profile=verdict.profile,
        settings=settings,
        measurable=_measurable(verdict, settings),
    )
    found = list(
        differences(_dumped(verdict.reward), _dumped(reward(settings.reward, facts, version=version)), "reward")
    )
    if found:
        raise _CheckFailedError(f"The reward is not that of the facts: {_few(found)}.")
    older = "" if version == REWARD_VERSION else f", a reward of version {version}; here is version {REWARD_VERSION}"
    return f"The reward ({verdict.reward.name}{older}) follows from the facts, term by term."


def _measurable(verdict: Verdict, settings: Settings) -> frozenset[Measure]:
    if verdict.compile is not None and verdict.compile.tier == "host":
        return measures_of_host_code(settings, verdict.status, verdict.timing, verdict.profile)
    return measures_of(verdict.backend, settings, verdict.status, verdict.profile)


_CHECKS: Final = (
    ("signature", _signature),
    ("key", _key),
    ("versions", _versions),
    ("source", _source),
    ("plan", _plan),
    ("submission", _submission),
    ("receipt", _parts),
    ("seed", _seed),
    ("trials", _trials),
    ("timing", _timing),
    ("reward", _reward),
)


# ---- trials ----


def _afterwards(
    backend: str, problem: Problem, planned: Sequence[PlannedTrial], timed: Mapping[str, int]
) -> tuple[PlannedTrial, ...]:
    """Which trials may come after all planned ones: the one that failed there is the verdict's."""
    typical = problem.distributions[0]
    if backend == "sim":  # once more with blocks in another order
        return tuple(PlannedTrial(trial.sizes, typical, problem.tolerance, True) for trial in planned)
    # Timed launches that were verified in secret, at the timed size and at the larger one.
    return tuple(PlannedTrial(sizes, typical, problem.tolerance, False) for sizes in (timed, larger(timed)))


# ---- common ground ----


def _problem(shown: ParsedReceipt) -> Problem:
    if shown.lacks_its_problem:
        raise _CheckSkippedError("It is about a problem of others: give the file that states it with --reference.")
    try:
        return shown.problem
    except UnknownProblemError as error:
        raise _CheckFailedError(f"{error} So it cannot be checked here.") from None


def _needs_versions(shown: ParsedReceipt) -> None:
    """Raises _CheckSkippedError where what follows from a seed or from samples need not be what follows here."""
    receipt = shown.receipt
    problem = receipt.problem_version if shown.lacks_its_problem else _problem(shown).version
    theirs = (receipt.contract_version, receipt.grader_version, receipt.problem_version)
    if theirs != (CONTRACT_VERSION, __version__, problem):
        raise _CheckSkippedError("It was made with other versions.")


def _source_of(shown: ParsedReceipt, beside: Expectations) -> bytes | None:
    if beside.source is not None:
        return beside.source
    return shown.submission.source.encode(errors="surrogatepass") if shown.submission else None


def _dumped(model: Any, notes: bool = True) -> Any:
    return model.model_dump(mode="json", exclude=None if notes else {"notes"})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


def _few(found: Sequence[str]) -> str:
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
