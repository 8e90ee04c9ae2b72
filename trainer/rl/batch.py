"""Whether what was played for a step is enough to go on with, and which of its groups teach anything. Pure.

An outcome is `trainer.rl.agent_loop.ConversationResult`, which is not imported here: it brings verl along.
"""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, Final

from common.contract import Status
from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import AgentName
from trainer.errors import OracleLostError
from trainer.evaluator.oracle import too_many
from trainer.rl.sequences import credited

_FEWEST_UNSUPPORTED: Final = 20
"""Verdicts in a row, over whole steps: a few kernels that use what is not supported are what an agent may write."""
_SAME: Final = 1e-6
"""Credits that differ by no more teach nothing: verl has them as float32."""


def refuse_without_verdicts(outcomes: Sequence[Any], fault_share: float) -> None:
    """Raise OracleLostError where no conversation came to its end, or more than `fault_share` of them were left out,
    by the evaluator's own fault. The oracle counts evaluations, of which a conversation has several.
    """
    left_out = [outcome.left_out for outcome in outcomes if outcome.left_out is not None]
    many = too_many(len(left_out), len(outcomes), fault_share)
    if left_out and (many or all(outcome.conversation is None for outcome in outcomes)):
        raise OracleLostError(
            f"{len(left_out)} of {len(outcomes)} conversations of step {outcomes[0].seat.step} were left out because "
            f"an evaluation failed on the evaluator's side; evaluator.fault_share allows {fault_share:.0%}, and "
            f"never all. The last one: {left_out[-1]}",
            "Look at the logs of the evaluator. Then go on from the last checkpoint.",
        )


def unsupported_in_a_row(outcomes: Sequence[Any], before: int, url: str) -> int:
    """How many verdicts have come one after another that are `unsupported`, those of this step included: `before` are
    those of the steps before it. 0 where this step has another one.

    Raises OracleLostError, with what the evaluator at `url` says of the first, where they are too many to be what an
    agent wrote now and then: nothing is learned from them, and a model that is not at fault would go on for ever.
    """
    tried = [
        (outcome.conversation.task, attempt)
        for outcome in outcomes
        if outcome.conversation is not None
        for attempt in outcome.conversation.attempts
        if attempt.verdict is not None and attempt.repeats is None
    ]
    if any(attempt.verdict.status is not Status.UNSUPPORTED for _, attempt in tried):
        return 0
    if not tried or before + len(tried) < _FEWEST_UNSUPPORTED:
        return before + len(tried)
    task, first = tried[0]
    evaluation_id = first.tested.evaluation_id
    said = " ".join(filter(None, (first.verdict.message, first.verdict.hint)))
    raise OracleLostError(
        f"The evaluator at {url} ran none of the {len(tried)} kernels of step {outcomes[0].seat.step}"
        f"{f', nor of the {before} before them' if before else ''}: every verdict is unsupported, and nothing can be "
        f"learned from that. Of the first, for {task.problem} on the backend {first.verdict.backend}"
        f"{f' (evaluation {evaluation_id})' if evaluation_id else ''}, it says: {said}",
        "Fix what it says (`assay doctor` on its machine tells more), or set evaluator.backend or evaluator.url to "
        "where these kernels can run. Then go on from the last checkpoint.",
        evaluation_id,
    )


def told_apart(outcomes: Sequence[Any], config: TrainingConfig) -> set[str]:
    """The uids of tasks from whose conversations at least one agent learns something (DAPO, section 3.2): what its
    answers count for is not the same in all candidates. It is compared as the advantage compares it: attempt by
    attempt for `turn` and `leave_one_out`, else by the mean of the agent's attempts.
    """
    by_attempt = config.algorithm.advantage in ("turn", "leave_one_out")
    compared: dict[tuple[str, AgentName, int | None], list[float]] = {}
    for outcome in outcomes:
        if outcome.conversation is None:
            continue
        own: dict[tuple[AgentName, int | None], list[float]] = {}
        values = credited(outcome.conversation, config)
        for attempt, value in zip(outcome.conversation.attempts, values, strict=True):
            if value is not None:
                place = attempt.number if by_attempt else None
                own.setdefault((attempt.written.agent, place), []).append(value)
        for (agent, place), found in own.items():
            compared.setdefault((outcome.seat.uid, agent, place), []).append(fmean(found))
    return {uid for (uid, _, _), found in compared.items() if max(found) - min(found) > _SAME}
