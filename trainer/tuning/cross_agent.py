"""What agents learn from each other: conversations of the tuned agents, of which both learn what went well.

From every conversation that ends with a right kernel (requirements document, "Cross-Agent Compatibility Training"):

- the Generator learns, as its answer to the task, the kernel that the Optimizer made of its own; where the Optimizer
  made nothing better, its own kernel, if that is right;
- the Optimizer learns each of its answers that is better than all before it, where it stood in the conversation; and
  for a Generator's kernel that was worse, the best kernel that the Generator wrote for the same problem elsewhere.

Which kernel is better is the evaluator's word alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.contract import Verdict
from trainer.conversation import prompts
from trainer.conversation.conversation import AgentName, Attempt, Conversation, Message
from trainer.conversation.episode import EpisodeSettings
from trainer.policies.sft import Lesson
from trainer.tuning.examples import answered, improvement, is_better


@dataclass(frozen=True)
class LearnedTogether:
    """What conversations have to teach."""

    generator: tuple[Lesson, ...]
    optimizer: tuple[Lesson, ...]
    conversations: int
    successful: int
    """Of these, with a right kernel."""
    improved: int
    """Of these, in which the Optimizer's kernel is the best."""


def learned_together(
    conversations: Sequence[Conversation], settings: EpisodeSettings, *, factor: float
) -> LearnedTogether:
    """The lessons of both agents, each once. `factor`: as for `is_better`. Conversations about held-out tasks are the
    caller's to leave out: raises ValueError for one.
    """
    if held_out := next((one.id for one in conversations if one.task.held_out), None):
        raise ValueError(f"conversation {held_out} is about a task that is held out")
    ends = [(one, _best(one, factor)) for one in conversations]
    successful = [(one, best) for one, best in ends if best is not None and best.passed]
    generator = [lesson for one, best in successful for lesson in _for_the_generator(one, best, settings)]
    optimizer = [lesson for one, _ in successful for lesson in _own_improvements(one, factor)]
    optimizer += _by_the_generator(conversations, settings, factor)
    return LearnedTogether(
        tuple(dict.fromkeys(generator)),
        tuple(dict.fromkeys(optimizer)),
        len(conversations),
        len(successful),
        sum(best.written.agent is AgentName.OPTIMIZER for _, best in successful),
    )


def _best(conversation: Conversation, factor: float) -> Attempt | None:
    """The last kernel that was better than the best before it: a change of less than `factor` is none. One that could
    not be judged is none either.
    """
    best: Attempt | None = None
    for attempt in conversation.attempts:
        verdict = _judged(attempt)
        if verdict is not None and (
            best is None or (best.verdict is not None and is_better(verdict, best.verdict, factor))
        ):
            best = attempt
    return best


def _judged(attempt: Attempt) -> Verdict | None:
    return attempt.verdict if attempt.verdict and attempt.verdict.status.carries_reward else None


def _for_the_generator(conversation: Conversation, best: Attempt, settings: EpisodeSettings) -> Iterator[Lesson]:
    if best.written.source is not None:
        asked = prompts.opening(AgentName.GENERATOR, conversation.task, settings.wording)
        yield Lesson((*asked, answered(best.written.source)))


def _own_improvements(conversation: Conversation, factor: float) -> Iterator[Lesson]:
    best: Attempt | None = None
    view: tuple[Message, ...] = ()
    for attempt in conversation.attempts:
        written, verdict = attempt.written, _judged(attempt)
        if written.agent is AgentName.OPTIMIZER and written.response is not None:
            # Of an answer only its text is learned: its tokens may be those of another tokenizer's state.
            view = (*view, *written.messages, Message("assistant", written.response.text))
        if verdict is None or (best is not None and best.verdict and not is_better(verdict, best.verdict, factor)):
            continue
        if best is not None and written.agent is AgentName.OPTIMIZER:
            yield Lesson(view, last_only=True)
        best = attempt


def _by_the_generator(
    conversations: Sequence[Conversation], settings: EpisodeSettings, factor: float
) -> Iterator[Lesson]:
    """For each first kernel the best first kernel of the same problem, where it is better."""
    first = [one.attempts[0] if one.attempts else None for one in conversations]
    for conversation, old in zip(conversations, first, strict=True):
        if old is None or old.verdict is None or old.written.source is None:
            continue
        best = old
        for other, new in zip(conversations, first, strict=True):
            if other.task.problem == conversation.task.problem and new is not None and new.verdict is not None:
                assert best.verdict is not None
                best = new if is_better(new.verdict, best.verdict, 1.0 + 1e-9) else best
        if best.verdict is None or best.written.source is None or not is_better(best.verdict, old.verdict, factor):
            continue
        yield improvement(conversation.task, old.written.source, old.verdict, best.written.source, settings)
