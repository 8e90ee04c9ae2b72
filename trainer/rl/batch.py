"""Whether what was played for a step is enough to go on with, and which of its groups teach anything. Pure.

An outcome is `trainer.rl.agent_loop.Outcome`, which is not imported here: it brings verl along.
"""

from collections.abc import Sequence
from typing import Any, Final

from trainer.errors import OracleLost

_FEWEST: Final = 20
"""Conversations before a share of them means anything."""


def refuse_without_verdicts(outcomes: Sequence[Any], fault_share: float) -> None:
    """Raise OracleLost where no conversation came to its end, or more than `fault_share` of them were left out, by
    the evaluator's own fault. The oracle counts evaluations, of which a conversation has several.
    """
    left_out = [outcome.left_out for outcome in outcomes if outcome.left_out is not None]
    many = len(outcomes) >= _FEWEST and len(left_out) > fault_share * len(outcomes)
    if left_out and (many or all(outcome.conversation is None for outcome in outcomes)):
        raise OracleLost(
            f"{len(left_out)} of {len(outcomes)} conversations of step {outcomes[0].seat.step} were left out because "
            f"an evaluation failed on the evaluator's side; evaluator.fault_share allows {fault_share:.0%}, and "
            f"never all. The last one: {left_out[-1]}",
            "Look at the logs of the evaluator. Then go on from the last checkpoint.",
        )
