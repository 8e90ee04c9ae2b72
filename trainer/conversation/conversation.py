"""One conversation: agents write kernels in turn, a tester judges each. Immutable and pure: every rule is a property.

    Generator, Tester, Optimizer, Tester, Optimizer, Tester …

At most `max_turns` kernels; the end comes early where a kernel earns `stop_at` of its reward's maximum, or where it
is the same as one before (requirements R7, R8, C11). In single-agent mode the Generator writes all kernels.

What an agent sees is its *view*: a chat that is only ever appended to, so that one conversation is one token sequence
for each agent, whose response tokens are exactly those that were generated.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal

from common.contract import Compilation, Diagnostic, Reward, Status, Verdict
from common.launch_plan import LaunchPlan
from common.reward import share_of_maximum
from trainer.conversation.extraction import canonical_source, strategies
from trainer.data.tasks import Task
from trainer.errors import PolicyError


class AgentName(StrEnum):
    """Who can have a turn."""

    GENERATOR = "generator"
    OPTIMIZER = "optimizer"
    TESTER = "tester"


class ConversationPhase(StrEnum):
    """What is due next (status document, T3)."""

    GENERATION = "generation"
    EVALUATION = "evaluation"
    OPTIMISATION = "optimisation"
    ENDED = "ended"


class EndReason(StrEnum):
    """Why a conversation is over."""

    MAX_TURNS = "max_turns"
    GOOD_ENOUGH = "good_enough"
    """The last kernel earned `Flow.stop_at` of its reward's maximum."""
    REPEATED = "repeated"
    """The last kernel is one that was there before, up to comments and white space."""
    NO_ROOM = "no_room"
    """The next turn does not fit into the model's context, and where there is none yet, not even the first prompt."""


@dataclass(frozen=True)
class Response:
    """What a policy generated. `log_probs`: natural logarithms, one for each of `token_ids`, or None."""

    text: str
    prompt_token_ids: tuple[int, ...] = ()
    """All that came before, earlier responses of this agent included exactly as they were generated."""
    token_ids: tuple[int, ...] = ()
    """What was generated, with the token that ended it, if any."""
    log_probs: tuple[float, ...] | None = None
    cut: bool = False
    """Whether the length limit ended it."""

    def __post_init__(self) -> None:
        # Half of a surrogate pair is no text that a file or a request could hold.
        object.__setattr__(self, "text", self.text.encode("utf-8", "replace").decode("utf-8"))
        if self.log_probs is None:
            return
        if len(self.log_probs) != len(self.token_ids):
            raise PolicyError(
                f"A policy gave {len(self.log_probs)} log-probabilities for {len(self.token_ids)} tokens.",
                "Give one for each token that was generated, or none at all.",
            )
        wrong = next((i for i, value in enumerate(self.log_probs) if not math.isfinite(value)), None)
        if wrong is not None:
            raise PolicyError(
                f"The log-probability of token {wrong} of a response is {self.log_probs[wrong]}.",
                "The model's weights are probably no numbers any more: go back to the last checkpoint and lower the "
                "learning rate.",
            )


@dataclass(frozen=True)
class Message:
    """One entry of an agent's view."""

    role: Literal["system", "user", "assistant"]
    text: str
    response: Response | None = None
    """For `assistant`: what was generated, so that its tokens need not be made again from the text."""


@dataclass(frozen=True)
class Turn:
    """What one agent did. The Generator's and the Optimizer's turns write kernels, the Tester's judge them."""

    index: int
    agent: AgentName
    messages: tuple[Message, ...] = ()
    """What was newly said to the agent; empty for a Tester that follows rules."""
    response: Response | None = None
    """None for a Tester that follows rules."""
    source: str | None = None
    """The kernel's source text; its launch plan is in it."""
    plan: LaunchPlan | None = None
    """The launch plan that the source's directives spell; None where it leaves it to be inferred."""
    format_problem: str | None = None
    """Why there is no kernel in the response; None where there is one."""
    verdict: Verdict | None = None
    """Of the kernel of the turn before; a repeated kernel has the one that it had before. None in a Tester's turn
    where there was no kernel."""
    evaluation_id: str | None = None
    report: str | None = None
    """What the Tester says about it, for a model to read."""
    reward: Reward | None = None
    """The immediate reward. None in a Tester's turn: the kernel could not be judged (`unsupported`)."""
    other_values: Mapping[AgentName, float] = field(default_factory=dict)
    """What the kernel is worth by the reward of each agent that is paid otherwise than its author."""
    started_s: float = 0.0
    """Seconds since 1970-01-01, UTC."""
    duration_s: float = 0.0
    oracle_s: float = 0.0
    """Seconds of `duration_s` spent waiting for the evaluator."""

    def __post_init__(self) -> None:
        kernel = (self.source is None) != (self.format_problem is None)
        if (self.agent is not AgentName.TESTER) != kernel or (kernel and self.response is None):
            raise ValueError(f"turn {self.index} is not what a turn of the {self.agent} is")


@dataclass(frozen=True)
class Flow:
    """When a conversation ends, and who writes. Raises ValueError for limits that make no sense."""

    max_turns: int = 5
    """Most kernels."""
    stop_at: float = 0.8
    """Share of a reward's maximum at which a kernel is good enough; above 1 never stops early."""
    single_agent: bool = False
    """The Generator writes all kernels."""

    def __post_init__(self) -> None:
        if self.max_turns < 1 or not self.stop_at > 0:
            raise ValueError(f"max_turns is {self.max_turns} and stop_at {self.stop_at}: both must be positive")

    def author(self, number: int) -> AgentName:
        """Who writes kernel `number`, from 0."""
        return AgentName.GENERATOR if number == 0 or self.single_agent else AgentName.OPTIMIZER

    @property
    def improves_its_own(self) -> bool:
        """Whether the Generator is asked for first kernels and for better ones."""
        return self.single_agent and self.max_turns > 1


@dataclass(frozen=True)
class Attempt:
    """One kernel and, once it is there, the Tester's turn about it."""

    number: int
    """From 0."""
    written: Turn
    tested: Turn | None
    repeats: int | None
    """Number of the earlier attempt with the same kernel."""

    @property
    def verdict(self) -> Verdict | None:
        """What the evaluator said of it."""
        return self.tested.verdict if self.tested else None

    @property
    def reward(self) -> Reward | None:
        """The immediate reward."""
        return self.tested.reward if self.tested else None

    @property
    def value(self) -> float | None:
        """The immediate reward's value; None where there is none."""
        return self.reward.value if self.reward else None

    def value_to(self, agent: AgentName) -> float | None:
        """The value by the reward of `agent`, whose kernel or not: only values by one reward can be compared."""
        return self.tested.other_values.get(agent, self.value) if self.tested else None

    @property
    def passed(self) -> bool:
        """Whether the kernel is right."""
        return self.verdict is not None and self.verdict.status is Status.PASSED

    @property
    def speedup(self) -> float | None:
        """Over the baseline, as measured (lower end of the interval), else as estimated; None for a kernel that is
        not right.
        """
        if self.verdict is None or not self.passed:
            return None
        if self.verdict.timing is not None:
            return self.verdict.timing.speedup_low
        return self.verdict.profile.estimated_speedup if self.verdict.profile else None


@dataclass(frozen=True)
class FailedAttempt:
    """A failed attempt and what was said about it (critique, C3)."""

    number: int
    status: Status | None
    """None where there was no kernel in the response."""
    message: str
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Conversation:
    """All that has happened about one task. A new turn makes a new conversation."""

    id: str
    task: Task
    flow: Flow
    seed: int
    turns: tuple[Turn, ...] = ()
    stopped: EndReason | None = None
    """Set where something outside the flow ended it."""

    def __post_init__(self) -> None:
        for index, turn in enumerate(self.turns):
            wanted = AgentName.TESTER if index % 2 else self.flow.author(index // 2)
            if turn.index != index or turn.agent is not wanted:
                raise ValueError(f"turn {turn.index} of the {turn.agent} stands where turn {index} is the {wanted}'s")

    def with_turn(self, turn: Turn) -> "Conversation":
        """The conversation with one turn more. Raises ValueError where it is not this turn's turn."""
        if turn.agent is not self.next_agent:
            raise ValueError(f"a turn of the {turn.agent} where {self.next_agent or 'nobody'} is next")
        return replace(self, turns=(*self.turns, turn))

    def stop(self, reason: EndReason) -> "Conversation":
        """The conversation, ended from outside; as it is where it had ended already."""
        return self if self.ended else replace(self, stopped=reason)

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        """The kernels so far, answers without one included."""
        return tuple(self._attempts())

    def _attempts(self) -> Iterator[Attempt]:
        first: dict[str, int] = {}
        for number, written in enumerate(self.turns[::2]):
            tested = self.turns[2 * number + 1] if len(self.turns) > 2 * number + 1 else None
            repeats = None
            if written.source is not None:
                earlier = first.setdefault(canonical_source(written.source), number)
                repeats = earlier if earlier != number else None
            yield Attempt(number, written, tested, repeats)

    @cached_property
    def ended(self) -> EndReason | None:
        """Why it is over; None while it goes on."""
        if self.stopped is not None:
            return self.stopped
        if not self.attempts or self.attempts[-1].tested is None:
            return None
        last = self.attempts[-1]
        if last.repeats is not None:
            return EndReason.REPEATED
        share = share_of_maximum(last.reward) if last.reward else None
        if share is not None and share >= self.flow.stop_at:
            return EndReason.GOOD_ENOUGH
        return EndReason.MAX_TURNS if len(self.attempts) >= self.flow.max_turns else None

    @property
    def next_agent(self) -> AgentName | None:
        """Whose turn it is; None where it is over."""
        if self.ended:
            return None
        return AgentName.TESTER if len(self.turns) % 2 else self.flow.author(len(self.turns) // 2)

    @property
    def phase(self) -> ConversationPhase:
        """What is due next."""
        if self.next_agent is None:
            return ConversationPhase.ENDED
        if self.next_agent is AgentName.TESTER:
            return ConversationPhase.EVALUATION
        return ConversationPhase.OPTIMISATION if self.turns else ConversationPhase.GENERATION

    def view(self, agent: AgentName) -> tuple[Message, ...]:
        """All that was said to an agent and by it, in order. A later view begins with an earlier one. Nothing of a
        Tester's: it is asked about each kernel anew.
        """
        said: list[Message] = []
        for turn in self.turns if agent is not AgentName.TESTER else ():
            if turn.agent is agent and turn.response is not None:
                said += [*turn.messages, Message("assistant", turn.response.text, turn.response)]
        return tuple(said)

    @property
    def current(self) -> Attempt | None:
        """The latest attempt with a kernel in it."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.written.source is not None), None)

    @cached_property
    def best(self) -> Attempt | None:
        """The kernel that is worth most by the Generator's reward, the earliest of equals; None before one is worth
        anything.
        """
        return max(
            (attempt for attempt in self.attempts if attempt.written.source and _worth(attempt) > 0),
            key=_worth,
            default=None,
        )

    @property
    def best_speedup(self) -> float | None:
        """The highest speedup so far; None before a kernel was right and its speed known."""
        return max((attempt.speedup for attempt in self.attempts if attempt.speedup is not None), default=None)

    @property
    def compile_results(self) -> tuple[Compilation | None, ...]:
        """What the compiler said to each attempt; None where it was not asked."""
        return tuple(attempt.verdict.compile if attempt.verdict else None for attempt in self.attempts)

    @property
    def trajectory(self) -> tuple[float | None, ...]:
        """The speedup of each attempt; None for one that is not right, or whose speed is not known."""
        return tuple(attempt.speedup for attempt in self.attempts)

    @property
    def failures(self) -> tuple[FailedAttempt, ...]:
        """The attempts that failed, with their diagnostics."""
        return tuple(_failure(attempt) for attempt in self.attempts if attempt.tested and not attempt.passed)

    @property
    def strategies_tried(self) -> tuple[str, ...]:
        """What the kernels so far have tried to be fast, each named once, in order."""
        sources = [attempt.written.source for attempt in self.attempts if attempt.written.source is not None]
        return tuple(dict.fromkeys(name for source in sources for name in strategies(source)))

    @property
    def final_reward(self) -> float | None:
        """What the conversation was good for by the Generator's reward: it takes part in every conversation."""
        return self.final_reward_to(AgentName.GENERATOR)

    def final_reward_to(self, agent: AgentName) -> float | None:
        """What the conversation was good for to an agent: the value of the best kernel by its own reward, once it is
        over. 0 where no kernel earned anything; None before the end, and where nothing could be judged.
        """
        values = [value for attempt in self.attempts if (value := attempt.value_to(agent)) is not None]
        return max(values) if self.ended and values else None


def _worth(attempt: Attempt) -> float:
    return attempt.value_to(AgentName.GENERATOR) or 0.0


def _failure(attempt: Attempt) -> FailedAttempt:
    verdict = attempt.verdict
    if verdict is None:
        return FailedAttempt(attempt.number, None, attempt.written.format_problem or "", ())
    compilation = verdict.compile
    return FailedAttempt(
        attempt.number, verdict.status, verdict.message, compilation.diagnostics if compilation else ()
    )
