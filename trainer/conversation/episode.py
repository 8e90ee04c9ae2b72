"""One episode: agents write and the evaluator judges until the conversation is over, with any kind of policy."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Literal, Protocol

from common.contract import Reference, Settings, Submission, Verdict
from trainer.config.schema import TrainingConfig
from trainer.conversation import prompts
from trainer.conversation.conversation import (
    AgentName,
    Attempt,
    Conversation,
    EndReason,
    Flow,
    Message,
    Response,
    Turn,
)
from trainer.conversation.extraction import extract
from trainer.conversation.rewards import (
    RewardSettings,
    format_reward,
    immediate_reward,
    repeat_reward,
    reward_settings,
)
from trainer.conversation.tester import ReportSettings, format_report, report, shortened
from trainer.data.tasks import Task
from trainer.errors import ConfigurationError, ContextFullError, OracleError, OracleLostError


@dataclass(frozen=True)
class Judged:
    """A verdict, and the evaluation that it is from."""

    verdict: Verdict
    evaluation_id: str | None = None


class Policy(Protocol):
    """What writes kernels: a model, or a script."""

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """The answer to a view that ends in a user's message.

        Of earlier answers of its own (`Message.response`) the token ids are taken as they are. The same view, seed
        and weights give the same answer in the deterministic mode.
        Raises ContextFullError where what is asked leaves no room for an answer; PolicyError where the policy is
        broken.
        """
        ...


class Oracle(Protocol):
    """What judges kernels."""

    async def evaluate(self, submission: Submission) -> Judged:
        """The verdict about one submission. Raises OracleError for every fault of ours."""
        ...


@dataclass(frozen=True)
class EpisodeSettings:
    """How an episode goes."""

    flow: Flow = field(default_factory=Flow)
    rewards: Mapping[AgentName, RewardSettings] = field(default_factory=dict)
    """By the author of a kernel; who is not named is paid as the Generator is, since two agents may be played with
    the configuration of one."""
    grading: Settings = field(default_factory=Settings)
    """Sent with every submission."""
    backend: Literal["auto", "gpu", "sim"] = "auto"
    """Where kernels run: `auto`, `gpu` or `sim`."""
    wording: prompts.Wording = "full"
    tester: ReportSettings = field(default_factory=ReportSettings)
    turn_tokens: int = 512
    """Most new tokens of one answer."""
    update_tokens: int = 512
    """Most tokens that a later turn is told of what has happened since, by `trainer.conversation.prompts.due`."""

    def reward_of(self, agent: AgentName) -> RewardSettings:
        """The reward that an agent works for."""
        return self.rewards.get(agent) or self.rewards.get(AgentName.GENERATOR) or RewardSettings()

    def submission(
        self,
        problem: str,
        source: str,
        rewards: RewardSettings,
        reference: Reference | None = None,
        sizes: Mapping[str, int] | None = None,
    ) -> Submission:
        """One kernel as it is sent; `sizes`: of its task. Of a problem that a reference states it must be right at
        other sizes as well: the agents are told that it is tried at such.
        """
        grading = self.grading.model_copy(update={"reward": rewards.name})
        if sizes is not None:
            grading = grading.model_copy(update={"sizes": dict(sizes)})
        if reference is None:
            return Submission(problem=problem, source=source, backend=self.backend, settings=grading)
        grading = grading.model_copy(update={"other_sizes": "required"})
        return Submission(
            problem=reference.problem_id, source=source, backend=self.backend, settings=grading, reference=reference
        )

    def paid_otherwise(self, agent: AgentName) -> dict[AgentName, RewardSettings]:
        """Who else writes kernels, and for another reward."""
        writers = [self.flow.author(0), self.flow.author(1)]
        return {one: self.reward_of(one) for one in writers if self.reward_of(one) != self.reward_of(agent)}


def episode_settings(config: TrainingConfig) -> EpisodeSettings:
    """How episodes go in a training run. Raises ConfigurationError for shaping that no reward knows."""
    asked = config.evaluator
    return EpisodeSettings(
        flow=Flow(config.flow.max_turns, config.flow.early_stop_share, single_agent=len(config.roles) == 1),
        rewards={AgentName(role): reward_settings(config.for_agent(role).reward) for role in config.roles},
        grading=Settings(
            target_speedup=config.reward.target_speedup,
            compile_timeout_s=asked.compile_timeout_s,
            run_timeout_s=asked.run_timeout_s,
            memory_bytes=asked.memory_bytes,
            verification=asked.verification,
            profile=asked.profile,
            timing_precision=asked.timing_precision,
            reward_precision=asked.reward_precision,
        ),
        backend=asked.backend,
        wording=config.tasks.wording,
        tester=ReportSettings(config.flow.report_tokens),
        turn_tokens=config.rollout.turn_tokens,
        update_tokens=config.rollout.update_tokens,
    )


def turn_seed(seed: int, turn: int) -> int:
    """The seed of one turn of a conversation, below 2^31: the same on every machine."""
    return int.from_bytes(blake2b(f"{seed}/{turn}".encode(), digest_size=4).digest(), "big") >> 1


async def play(
    task: Task,
    policies: Mapping[AgentName, Policy],
    oracle: Oracle,
    settings: EpisodeSettings,
    seed: int,
    *,
    conversation_id: str | None = None,
    must_fit: bool = True,
    clock: Callable[[], float] = time.time,
) -> Conversation:
    """Play one conversation to its end. `policies`: for every agent that the flow lets write. `must_fit`: that the
    first prompt leaves room for an answer; else the conversation ends before its first turn where it does not.

    The Tester follows rules; a policy for it, where there is one, is shown each kernel that was judged and the report
    by the rules, and what it answers is added to the report's first line. Verdict and reward are the evaluator's in
    any case.

    Raises OracleError where an evaluation failed on our side: then there is no conversation to learn from. Raises
    PolicyError, and ConfigurationError where a policy is missing or what must fit does not.
    """
    conversation = Conversation(conversation_id or f"{task.id}-{seed}", task, settings.flow, seed)
    while (agent := conversation.next_agent) is not None:
        if agent is AgentName.TESTER:
            turn = await _test(conversation, oracle, settings, clock)
            if agent in policies and conversation.with_turn(turn).ended is None:
                turn = await _reviewed(conversation, turn, policies[agent], settings)
        else:
            if agent not in policies:
                raise ConfigurationError(
                    f"There is no policy for the {agent}.", "Give it one, or let the Generator write all kernels."
                )
            try:
                turn = await _write(conversation, agent, policies[agent], settings, clock)
            except ContextFullError as full:
                if must_fit and not conversation.turns:
                    raise ConfigurationError(
                        f"The prompt of task {task.id} leaves no room for an answer: {full}",
                        "Raise rollout.prompt_tokens and rollout.sequence_tokens, or set tasks.wording to brief.",
                    ) from full
                return conversation.stop(EndReason.NO_ROOM)
        conversation = conversation.with_turn(turn)
    return conversation


async def _write(
    conversation: Conversation,
    agent: AgentName,
    policy: Policy,
    settings: EpisodeSettings,
    clock: Callable[[], float],
) -> Turn:
    index, started_s, began_s = len(conversation.turns), clock(), time.monotonic()
    said = prompts.due(
        conversation,
        settings.wording,
        target_speedup=settings.grading.target_speedup,
        update_tokens=settings.update_tokens,
    )
    response = await policy.respond(
        (*conversation.view(agent), *said), seed=turn_seed(conversation.seed, index), max_tokens=settings.turn_tokens
    )
    found = extract(response.text, cut=response.cut)
    return Turn(
        index=index,
        agent=agent,
        messages=said,
        response=response,
        source=found.source,
        plan=found.plan,
        format_problem=found.problem,
        started_s=started_s,
        duration_s=time.monotonic() - began_s,
    )


async def _test(
    conversation: Conversation, oracle: Oracle, settings: EpisodeSettings, clock: Callable[[], float]
) -> Turn:
    attempt, began_s = conversation.attempts[-1], time.monotonic()
    turn = Turn(index=len(conversation.turns), agent=AgentName.TESTER, started_s=clock())
    author = attempt.written.agent
    rewards = settings.reward_of(author)
    if attempt.written.source is None:
        problem = str(attempt.written.format_problem)
        return replace(turn, report=format_report(problem, settings.tester), reward=format_reward(problem, rewards))
    if attempt.repeats is not None:
        return _repeated(turn, conversation.attempts[attempt.repeats], rewards)
    task = conversation.task
    submission = settings.submission(task.problem, attempt.written.source, rewards, task.reference, task.sizes)
    judged = await oracle.evaluate(submission)
    waited_s = time.monotonic() - began_s
    earned = {
        agent: immediate_reward(judged.verdict, one, submission.settings, conversation.best_speedup)
        for agent, one in {author: rewards, **settings.paid_otherwise(author)}.items()
    }
    return replace(
        turn,
        verdict=judged.verdict,
        evaluation_id=judged.evaluation_id,
        report=report(judged.verdict, conversation.best, settings.tester),
        reward=earned.pop(author),
        other_values={agent: one.value for agent, one in earned.items() if one and one.value is not None},
        duration_s=time.monotonic() - began_s,
        oracle_s=waited_s,
    )


async def _reviewed(conversation: Conversation, turn: Turn, policy: Policy, settings: EpisodeSettings) -> Turn:
    """The Tester's turn with a model's words after the first line by the rules, which says what is certain; as it is
    where there is nothing to diagnose, or no room for it.
    """
    source = conversation.attempts[-1].written.source
    if source is None or turn.verdict is None or not turn.verdict.status.carries_reward:
        return turn
    began_s, findings = time.monotonic(), str(turn.report)
    said = prompts.review(conversation.task, source, findings, settings.wording)
    try:
        # What is longer than a report would be cut from it.
        response = await policy.respond(
            said, seed=turn_seed(conversation.seed, turn.index), max_tokens=settings.tester.report_tokens
        )
    except ContextFullError:
        return turn
    words = shortened([findings.split("\n")[0], *response.text.split("\n")], settings.tester.report_tokens)
    took_s = turn.duration_s + time.monotonic() - began_s
    return replace(turn, messages=said, response=response, report=words, duration_s=took_s)


def _repeated(turn: Turn, first: Attempt, rewards: RewardSettings) -> Turn:
    """The Tester's turn about a kernel that was there before: what is known need not be asked again."""
    return replace(
        turn,
        verdict=first.verdict,
        evaluation_id=first.tested.evaluation_id if first.tested else None,
        report=first.tested.report if first.tested else None,
        reward=repeat_reward(first.number, rewards) if first.reward is not None else None,
    )


@dataclass(frozen=True)
class Played:
    """Many conversations, in the order in which they were asked for."""

    conversations: tuple[Conversation | OracleError, ...]
    """A fault stands in the place of a conversation in which an evaluation failed on our side."""

    @property
    def whole(self) -> tuple[Conversation, ...]:
        """Those that can be learned from."""
        return tuple(one for one in self.conversations if isinstance(one, Conversation))

    @property
    def faults(self) -> int:
        """How many were left out."""
        return len(self.conversations) - len(self.whole)


async def play_many(
    asked: Iterable[tuple[Task, int]],
    policies: Mapping[AgentName, Policy],
    oracle: Oracle,
    settings: EpisodeSettings,
    *,
    concurrency: int = 64,
    must_fit: bool = True,
    done: Callable[[int, Conversation | OracleError], None] | None = None,
) -> Played:
    """Play a conversation for each task and seed, `concurrency` at a time, so that evaluations overlap generation.

    `done` gets each as it ends; `must_fit` as of `play`. Raises what ends a run (OracleLostError, PolicyError,
    ConfigurationError) as soon as it happens; what is under way then is cancelled.
    """
    places = asyncio.Semaphore(concurrency)

    async def one(index: int, task: Task, seed: int) -> Conversation | OracleError:
        async with places:
            found: Conversation | OracleError
            try:
                found = await play(task, policies, oracle, settings, seed, must_fit=must_fit)
            except OracleLostError:
                raise
            except OracleError as fault:
                found = fault
        if done:
            done(index, found)
        return found

    playing = [asyncio.create_task(one(index, task, seed)) for index, (task, seed) in enumerate(asked)]
    try:
        return Played(tuple(await asyncio.gather(*playing)))
    finally:
        for task in playing:
            task.cancel()
        await asyncio.gather(*playing, return_exceptions=True)
