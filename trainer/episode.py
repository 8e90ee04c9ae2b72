"""One episode: agents write, the evaluator judges, until the conversation is over; whoever generates."""

from dataclasses import dataclass
from typing import Protocol

from common.contract import Submission, Verdict
from trainer.conversation import Message, Response


@dataclass(frozen=True)
class Judged:
    """A verdict, and the evaluation that it is from."""

    verdict: Verdict
    evaluation_id: str | None = None


class Policy(Protocol):
    """Whoever writes kernels: a model, or a script."""

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """The answer to a view that ends in a user's message.

        Of earlier answers of its own (`Message.response`) the token ids are taken as they are. The same view, seed
        and weights give the same answer in the deterministic mode.
        Raises ContextFull where what is asked leaves no room for an answer; PolicyFault where the policy is broken.
        """
        ...


class Oracle(Protocol):
    """Whoever judges kernels."""

    async def evaluate(self, submission: Submission) -> Judged:
        """The verdict about one submission. Raises OracleFault for every fault of ours."""
        ...
