"""The verdict of an evaluation that came to no result: nothing was tried, or nothing of it is known any more."""

from common.contract import Verdict
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
