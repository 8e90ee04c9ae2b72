"""From a conversation to what verl trains on: for each agent one token sequence, a mask, and rewards at turns' ends.

    prompt_ids | answer 0 | what was said then | answer 1 | …
                 1 1 1 1    0 0 0 0 0 0 0 0      1 1 1       response_mask
                       r0                            r1      rewards
                 1 1 1 1   -1 …                      3 3 3   attempts (of the conversation, here 2 is another's)

Pure: nothing of verl is known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import AgentName, Conversation, Response
from trainer.conversation.rewards import credit_settings, credits_of
from trainer.errors import PolicyError


@dataclass(frozen=True)
class TokenSequence:
    """All that one agent read and wrote in one conversation."""

    agent: AgentName
    prompt_ids: tuple[int, ...]
    """What it was asked first."""
    response_ids: tuple[int, ...]
    """All that came after: its answers exactly as generated, and the messages between them."""
    response_mask: tuple[int, ...]
    """1 where a token of `response_ids` was generated and counts, else 0."""
    log_probs: tuple[float, ...] | None
    """Of `response_ids` when they were generated; 0 where they were not. None where a policy gives none."""
    rewards: tuple[float, ...]
    """For each of `response_ids`: a turn's reward on its last token, else 0."""
    attempts: tuple[int, ...]
    """For each of `response_ids`: the attempt of the conversation that it was generated for; -1 where the mask is 0.
    An answer that could not be judged leaves a gap: what is compared by attempt is the same one everywhere."""
    turns: int
    """Answers that count."""


def credited(conversation: Conversation, config: TrainingConfig) -> tuple[float | None, ...]:
    """What each attempt of a conversation that is over counts for where its author learns: its credit less what its
    length costs. None where nothing is to be learned: no verdict, or no tokens.
    """
    algorithm = config.algorithm
    most = algorithm.overlong_penalty
    if most is None:
        most = 1.0 if algorithm.name == "dapo" else 0.0
    values: list[float | None] = []
    credits = credits_of(conversation, credit_settings(config.flow))
    for attempt, credit in zip(conversation.attempts, credits, strict=False):
        length = len(attempt.written.response.token_ids) if attempt.written.response else 0
        less = overlong_penalty(length, config.rollout.turn_tokens, algorithm.overlong_tokens, most)
        values.append(credit.value - less if credit is not None and length else None)
    # An attempt that nobody judged any more, because there was no room, is nothing to learn from.
    return (*values, *[None] * (len(conversation.attempts) - len(values)))


def sequence_of(
    conversation: Conversation, agent: AgentName, credits: Sequence[float | None]
) -> TokenSequence | None:
    """One agent's sequence; None where it has no answer that counts.

    `credits` has a reward for each attempt of the conversation; None leaves that answer out of the loss: it could not
    be judged. Raises PolicyError where an answer's prompt does not begin with all that came before it.
    """
    attempts = conversation.attempts
    if len(credits) != len(attempts):
        raise ValueError(f"{len(credits)} credits for {len(attempts)} attempts")
    own = [
        (attempt.number, attempt.written.response, credit)
        for attempt, credit in zip(attempts, credits, strict=True)
        if attempt.written.agent is agent and attempt.written.response is not None
    ]
    counting = [credit is not None and len(response.token_ids) > 0 for _, response, credit in own]
    if not any(counting):
        return None
    # Behind the last answer that counts nothing is left to learn from.
    own = own[: max(i for i, counts in enumerate(counting) if counts) + 1]
    first = own[0][1]
    ids: list[int] = list(first.prompt_token_ids)
    mask: list[int] = []
    rewards: list[float] = []
    numbers: list[int] = []
    log_probs: list[float] = []
    for (number, response, credit), counts in zip(own, counting, strict=False):
        between = _appended(ids, response, agent)
        ids += [*between, *response.token_ids]
        here = [*response.token_ids]
        mask += [0] * len(between) + [int(counts)] * len(here)
        numbers += [-1] * len(between) + [number if counts else -1] * len(here)
        log_probs += [0.0] * len(between) + list(response.log_probs or [0.0] * len(here))
        earned = [0.0] * (len(between) + len(here))
        if counts and credit is not None:
            earned[-1] = credit
        rewards += earned
    known = all(response.log_probs is not None for _, response, _ in own)
    return TokenSequence(
        agent,
        first.prompt_token_ids,
        tuple(ids[len(first.prompt_token_ids) :]),
        tuple(mask),
        tuple(log_probs) if known else None,
        tuple(rewards),
        tuple(numbers),
        sum(counting),
    )


def _appended(before: list[int], response: Response, agent: AgentName) -> tuple[int, ...]:
    prompt = response.prompt_token_ids
    if list(prompt[: len(before)]) != before:
        raise PolicyError(
            f"The {agent}'s next prompt does not begin with the {len(before)} tokens that came before it.",
            "A policy must take earlier answers as they were generated (Message.response), not from their text.",
        )
    return prompt[len(before) :]


def overlong_penalty(length: int, limit: int, soft: int, most: float) -> float:
    """What is taken from the reward of an answer of `length` tokens: nothing up to `soft` tokens before `limit`,
    growing from there to `most` at the limit (DAPO, Yu et al. 2025, section 3.4).
    """
    soft = min(soft, limit)
    return most * min(max((length - (limit - soft)) / soft, 0.0), 1.0)
