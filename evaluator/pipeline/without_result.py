"""The verdict of an evaluation that came to no result: nothing was tried, or nothing of it is known any more."""

from typing import Literal

from common.contract import Compilation, Screening, Submission, Verdict
from common.facts import facts_of, measures_of
from common.reward import reward
from evaluator.errors import Ruling


def verdict_without_result(problem: str, backend: str, ruling: Ruling) -> Verdict:
    """Not even a receipt can be given. `problem` is its id; where no `backend` is chosen yet it says sim."""
    return Verdict(
        status=ruling.status,
        phase=ruling.phase,
        message=ruling.message,
        hint=ruling.hint,
        backend="gpu" if backend == "gpu" else "sim",
        problem=problem,
        compile=None,
        correctness=None,
        timing=None,
        profile=None,
        reward=None,
        receipt=None,
    )


def verdict_before_grading(submission: Submission, ruling: Ruling) -> Verdict:
    """Nothing had to be tried to rule on this submission. It has its reward, as if a worker had ruled; no receipt,
    since nobody is there who could sign one.
    """
    backend: Literal["gpu", "sim"] = "gpu" if submission.backend == "gpu" else "sim"
    compilation = Compilation(succeeded=None, screening=Screening())
    facts = facts_of(
        status=ruling.status,
        compilation=compilation,
        correctness=None,
        timing=None,
        profile=None,
        settings=submission.settings,
        measurable=measures_of(backend, submission.settings, ruling.status, None),
    )
    return Verdict(
        status=ruling.status,
        phase=ruling.phase,
        message=ruling.message,
        hint=ruling.hint,
        backend=backend,
        problem=submission.problem,
        compile=compilation,
        correctness=None,
        timing=None,
        profile=None,
        reward=reward(submission.settings.reward, facts) if ruling.status.carries_reward else None,
        receipt=None,
    )
