"""Grading again what a verdict is about, with its seed and its settings, and comparing what comes of it.

On the simulator everything must come out the same, but for how long it took. On a GPU the outcome of every trial
must, and the intervals of the speedup must meet.
"""

from typing import Any, Final

from common.contract import Status, Submission, Verdict
from common.launch_plan import LaunchPlan
from evaluator.errors import UsageError
from evaluator.pipeline.grading_job import source_bytes
from evaluator.pipeline.pipeline import evaluate
from evaluator.pipeline.progress import ProgressCallback, unheard
from evaluator.pipeline.toolbox import Toolbox
from evaluator.receipts.checks import Check, CheckOutcome, ParsedReceipt, differences

_PASSING: Final = frozenset(
    {"duration_s", "phases_s", "graded_at", "signature", "device", "sandbox", "sandbox_image", "seed_commitment"}
)
"""Members of a receipt that differ from one run to the next, or between machines."""
_BY_THE_CLOCK: Final = frozenset({Status.TIMEOUT, Status.OUT_OF_MEMORY})
_NOT_JUDGED: Final = frozenset({Status.CANCELLED, Status.INTERNAL_ERROR})


def replay(
    shown: ParsedReceipt,
    source: bytes | None,
    plan: LaunchPlan | None,
    toolbox: Toolbox,
    progress: ProgressCallback = unheard,
) -> tuple[Check, ...]:
    """Grade again and compare. `source`, `plan`: where no whole evaluation was given.

    Raises UsageError where this machine cannot grade it, InfrastructureError where it fails to.
    """
    if shown.lacks_its_problem:
        raise UsageError(
            f"--rerun needs the file that states {shown.verdict.problem}.", "Add --reference FILE, or --torch TEXT."
        )
    submission, raw = _submission(shown, source, plan)
    again = evaluate(submission, toolbox, raw, progress, seed=shown.seed, problem=shown.stated)
    if again.status in _NOT_JUDGED:
        return (
            Check(
                "rerun",
                CheckOutcome.FAILED,
                f"It could not be graded again: {again.message} That proves nothing.",
            ),
        )
    return (_outcome(shown.verdict, again), _trials(shown.verdict, again), _rest(shown.verdict, again))


def _submission(shown: ParsedReceipt, source: bytes | None, plan: LaunchPlan | None) -> tuple[Submission, bytes]:
    verdict, known = shown.verdict, shown.submission
    if verdict.status in _NOT_JUDGED:
        raise UsageError(f"A verdict that is {verdict.status} says nothing that a second run could show.")
    if known is None and source is None:
        raise UsageError("--rerun needs the source.", "Add --source kernel.cu, or give the whole evaluation.")
    raw = source if source is not None else source_bytes(known) if known else b""
    plan = plan or (known.plan if known else None)
    by_json = verdict.correctness is not None and verdict.correctness.plan_source == "json"
    if by_json and plan is None:
        raise UsageError("--rerun needs the launch plan: it was not in the source.", "Add --plan plan.json.")
    submission = Submission(
        problem=verdict.problem,
        source=raw.decode(errors="replace"),
        dialect=verdict.compile.dialect if verdict.compile else None,
        plan=plan,
        backend=verdict.backend,
        settings=shown.receipt.settings,
    )
    return submission, raw


def _outcome(before: Verdict, after: Verdict) -> Check:
    if (before.status, before.phase) != (after.status, after.phase):
        by_the_clock = _BY_THE_CLOCK & {before.status, after.status}
        why = " It may be the machine: this depends on how fast and how large it is." if by_the_clock else ""
        return Check(
            "rerun",
            CheckOutcome.FAILED,
            f"Graded again it is {after.status} in phase {after.phase}, and the verdict says {before.status} in "
            f"phase {before.phase}: {after.message}{why}",
        )
    return Check(
        "rerun", CheckOutcome.OK, f"Graded again, with the same seed, it is {after.status} in phase {after.phase}."
    )


def _trials(before: Verdict, after: Verdict) -> Check:
    name = "rerun: trials"
    if before.correctness is None or after.correctness is None:
        if before.correctness is after.correctness:
            return Check(name, CheckOutcome.SKIPPED, "Nothing was run, neither then nor now.")
        return Check(name, CheckOutcome.FAILED, f"It ran {'now' if after.correctness else 'then'} only.")
    if _BY_THE_CLOCK & {before.status, after.status}:
        return Check(
            name, CheckOutcome.SKIPPED, "How far a run comes that is ended by a limit differs from run to run."
        )
    kept = {"sizes", "scalars", "distribution", "hidden", "passed"}
    shown, computed = (
        [trial.model_dump(mode="json", include=kept) for trial in one.correctness.trials]
        for one in (before, after)
        if one.correctness is not None
    )
    found = list(differences(shown, computed, "trials"))
    if found:
        return Check(name, CheckOutcome.FAILED, f"The trials went otherwise: {_few(found)}.")
    return Check(name, CheckOutcome.OK, f"All {len(shown)} trials gave what the verdict says.")


def _rest(before: Verdict, after: Verdict) -> Check:
    if before.backend == "gpu":
        return _speed(before, after)
    name = "rerun: rest"
    if _BY_THE_CLOCK & {before.status, after.status}:
        return Check(name, CheckOutcome.SKIPPED, "What a limit ended in the middle differs from run to run.")
    if before.receipt and after.receipt and before.receipt.toolchain != after.receipt.toolchain:
        return Check(
            name,
            CheckOutcome.SKIPPED,
            f"Compiled by {after.receipt.toolchain} here and {before.receipt.toolchain} there: programs and their "
            "resources may differ.",
        )
    if _left_out(before) != _left_out(after):
        return Check(name, CheckOutcome.SKIPPED, "How far a large trial comes in its time differs between machines.")
    # What went in explains what came out, so the receipt's part comes first.
    found = sorted(differences(_lasting(before), _lasting(after)), key=lambda said: not said.startswith("receipt."))
    if found:
        return Check(name, CheckOutcome.FAILED, f"Graded again, other things came out: {_few(found)}.")
    return Check(name, CheckOutcome.OK, "Everything else is the same to the bit, program and reward included.")


def _speed(before: Verdict, after: Verdict) -> Check:
    name, one, two = "rerun: speed", before.timing, after.timing
    if one is None or two is None:
        return Check(name, CheckOutcome.SKIPPED, "Nothing was timed in one of the two.")
    if one.device.name != two.device.name:
        return Check(name, CheckOutcome.SKIPPED, f"Timed on {two.device.name} here and {one.device.name} there.")
    said = (
        f"{two.speedup:.3g} ({two.speedup_low:.3g} to {two.speedup_high:.3g}) here, {one.speedup:.3g} "
        f"({one.speedup_low:.3g} to {one.speedup_high:.3g}) in the verdict"
    )
    if two.speedup_low > one.speedup_high or one.speedup_low > two.speedup_high:
        return Check(name, CheckOutcome.FAILED, f"The intervals of the speedups do not overlap: {said}.")
    return Check(name, CheckOutcome.OK, f"The intervals of the speedups overlap: {said}.")


def _left_out(verdict: Verdict) -> tuple[str, ...]:
    return verdict.correctness.left_out if verdict.correctness else ()


def _lasting(verdict: Verdict) -> Any:
    """What must come out the same each time."""
    dumped = verdict.model_dump(mode="json")
    if dumped["correctness"] and (smallest := dumped["correctness"].pop("smallest")):
        # How far the search for something smaller comes depends on how fast the machine is.
        dumped["message"] = dumped["message"].removesuffix(f" {smallest['said']}")
    if dumped["correctness"]:
        kept = [said for said in dumped["correctness"]["warnings"] if not said.startswith("not shrunk: ")]
        dumped["correctness"]["warnings"] = kept
    if dumped["compile"]:
        dumped["compile"] = {k: v for k, v in dumped["compile"].items() if k not in ("cached", "duration_s")}
        if dumped["compile"]["lifting"]:
            dumped["compile"]["lifting"].pop("duration_s")
    if dumped["receipt"]:
        dumped["receipt"] = {k: v for k, v in dumped["receipt"].items() if k not in _PASSING}
    return dumped


def _few(found: list[str]) -> str:
    return "; ".join(found[:3]) + (f"; and {len(found) - 3} more" if len(found) > 3 else "")
