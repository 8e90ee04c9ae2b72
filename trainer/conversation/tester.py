"""The Tester: a verdict as a short report that a model can act on (requirements, R4; rule-based).

The most useful lines come first and the budget cuts from the end, so a report of any length says what happened.
Nothing is in it that is not in the verdict: what the evaluator keeps to itself stays there.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from common.contract import Severity, Status, Verdict
from trainer.conversation.conversation import Attempt

_MAX_DIAGNOSTICS: Final = 4
_MAX_PITFALLS: Final = 3
_MAX_LINE_CHARACTERS: Final = 400

_PIECE: Final = re.compile(r"[A-Za-z]{1,6}|\d|[^\w\s]|_+|\n|[^\W\dA-Za-z_]")

_GOOD_FROM: Final = 0.8
"""Efficiencies below are worth a word."""


@dataclass(frozen=True)
class ReportSettings:
    """How long a report may be."""

    report_tokens: int = 200
    """By `estimated_tokens`."""

    def __post_init__(self) -> None:
        if self.report_tokens < 16:
            raise ValueError(f"report_tokens is {self.report_tokens}; a report needs 16 at least")


def estimated_tokens(text: str) -> int:
    """How many tokens a tokenizer for code makes of a text, rather too many than too few."""
    return len(_PIECE.findall(text))


def shortened(lines: Iterator[str] | list[str], tokens: int) -> str:
    """The first lines that fit into `tokens`, the last of them cut where it must be."""
    kept: list[str] = []
    for line in lines:
        line = re.sub(r"\s+", " ", line).strip()
        if len(line) > _MAX_LINE_CHARACTERS:
            line = line[: _MAX_LINE_CHARACTERS - 2] + " …"
        if not line or line in kept:
            continue
        left = tokens - estimated_tokens("\n".join([*kept, ""]))
        if estimated_tokens(line) <= left:
            kept.append(line)
            continue
        words = line.split(" ")
        while words and estimated_tokens(" ".join([*words, "…"])) > left:
            words.pop()
        if len(words) > 3 or not kept:
            kept.append(" ".join([*words, "…"]))
        break
    return "\n".join(kept)


def format_report(problem: str, settings: ReportSettings) -> str:
    """About an answer without a kernel."""
    return shortened(["no kernel.", problem], settings.report_tokens)


def report(verdict: Verdict, best: Attempt | None, settings: ReportSettings) -> str:
    """About a kernel. `best`: the best kernel before it."""
    return shortened(_lines(verdict, best), settings.report_tokens)


def _lines(verdict: Verdict, best: Attempt | None) -> Iterator[str]:
    if verdict.status is Status.PASSED:
        yield from _about_a_right_kernel(verdict, best)
        return
    message = verdict.message.split("\n")
    yield f"{verdict.status}: {message[0]}"
    yield from _errors(verdict)
    if verdict.hint:
        yield f"Hint: {verdict.hint}"
    yield from (f"> {line}" for line in message[1:])
    yield from _wrong_element(verdict)
    yield from _fault(verdict)
    if verdict.correctness:
        yield from (f"warning: {said}" for said in verdict.correctness.warnings[:2])
        yield f"Arguments: {verdict.correctness.binding}." if verdict.correctness.binding else ""
    yield from _warnings(verdict)


def _about_a_right_kernel(verdict: Verdict, best: Attempt | None) -> Iterator[str]:
    yield f"passed: {_speed(verdict)}"
    if best is not None and best.speedup is not None and (now := _speedup(verdict)) is not None:
        word = "slower than" if now < best.speedup * 0.995 else "faster than" if now > best.speedup * 1.005 else "as"
        fast = "" if word != "as" else " fast as"
        yield f"That is {word}{fast} the best so far ({best.speedup:.3g})."
    profile = verdict.profile
    if profile is None:
        yield f"Hint: {verdict.hint}" if verdict.hint else ""
        return
    for pitfall in profile.pitfalls[:_MAX_PITFALLS]:
        where = f"line {pitfall.line}: " if pitfall.line else f"{pitfall.kernel}: "
        share = f" (about {pitfall.weight:.0%} of the time)" if pitfall.weight >= 0.01 else ""
        yield f"{pitfall.kind.replace('_', ' ')}, {where}{pitfall.cost}{share}. Try: {pitfall.remedy}"
    if not profile.pitfalls and verdict.hint:
        yield f"Hint: {verdict.hint}"
    if profile.estimate and profile.estimate.launches:
        estimate = profile.estimate
        slowest = max(estimate.launches, key=lambda launch: launch.latency_us)
        least = f", no right answer takes less than {estimate.floor_us:.4g} us" if estimate.floor_us > 0 else ""
        took = f"estimate: {estimate.latency_us:.4g} us on {estimate.gpu}{least}"
        yield f"Limited by {slowest.limited_by} ({took})."
    yield from _efficiency(verdict)
    yield from _warnings(verdict)


def _speedup(verdict: Verdict) -> float | None:
    if verdict.timing is not None:
        return verdict.timing.speedup_low
    return verdict.profile.estimated_speedup if verdict.profile else None


def _speed(verdict: Verdict) -> str:
    if verdict.timing is not None:
        timing = verdict.timing
        return (
            f"right, {timing.latency_us:.4g} us, {timing.speedup:.3g} times as fast as the baseline "
            f"({timing.speedup_low:.3g} at least)."
        )
    if (estimate := _speedup(verdict)) is not None:
        return f"right, about {estimate:.3g} times as fast as a simple kernel (an estimate)."
    return "right; its speed was not measured."


def _efficiency(verdict: Verdict) -> Iterator[str]:
    profile = verdict.profile
    if profile is None:
        return
    said = []
    if profile.memory_efficiency is not None and profile.memory_efficiency < _GOOD_FROM:
        said.append(f"{profile.memory_efficiency:.0%} of the bytes moved are used")
    if profile.lane_efficiency is not None and profile.lane_efficiency < _GOOD_FROM:
        said.append(f"{profile.lane_efficiency:.0%} of the lanes work")
    if profile.bank_conflict_ways is not None and profile.bank_conflict_ways > 1.1:
        said.append(f"shared memory needs {profile.bank_conflict_ways:.1f} passes where one would do")
    for launch in profile.occupancy:
        if launch.occupancy < 0.5:
            said.append(f"occupancy {launch.occupancy:.0%}, limited by {launch.limited_by}")
            break
    spilled = sum(k.spill_store_bytes + k.spill_load_bytes for k in verdict.compile.kernels) if verdict.compile else 0
    if spilled:
        said.append(f"{spilled} bytes of registers spill")
    if said:
        yield f"Measured: {'; '.join(said)}."


def _errors(verdict: Verdict) -> Iterator[str]:
    """The compiler's first errors, but for what the message has said already."""
    diagnostics = verdict.compile.diagnostics if verdict.compile else ()
    errors = [one for one in diagnostics if one.severity is Severity.ERROR and one.text not in verdict.message]
    for one in errors[:_MAX_DIAGNOSTICS]:
        yield f"{f'line {one.line}: ' if one.line else ''}error: {one.text}"
    if len(errors) > _MAX_DIAGNOSTICS:
        yield f"{len(errors) - _MAX_DIAGNOSTICS} more errors."


def _warnings(verdict: Verdict) -> Iterator[str]:
    diagnostics = verdict.compile.diagnostics if verdict.compile else ()
    for one in [one for one in diagnostics if one.severity is Severity.WARNING][:2]:
        yield f"{f'line {one.line}: ' if one.line else ''}warning: {one.text}"


def _wrong_element(verdict: Verdict) -> Iterator[str]:
    trials = verdict.correctness.trials if verdict.correctness else ()
    for mismatch in (trial.mismatch for trial in trials if trial.mismatch):
        place = ", ".join(map(str, mismatch.index))
        if mismatch.pattern not in verdict.message:
            wrong = f"{mismatch.wrong_count} of {mismatch.count} elements of {mismatch.output} are wrong"
            yield f"{wrong}: {mismatch.pattern}."
        if f"{mismatch.output}[{place}]" not in verdict.message:
            yield f"Worst: {mismatch.output}[{place}] is {mismatch.actual}, expected {mismatch.expected}."


def _fault(verdict: Verdict) -> Iterator[str]:
    fault = verdict.correctness.fault if verdict.correctness else None
    if fault is not None and fault.message not in verdict.message:
        yield f"{f'line {fault.line}: ' if fault.line else ''}{fault.message}"
