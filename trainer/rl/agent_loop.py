"""Conversations as verl's agent loop: `trainer.conversation.episode.play`, with verl's servers as the policies.

One worker (a Ray actor) plays all conversations of a step at the same time, so that kernels are judged while others
are still being written. What an agent wrote goes into verl's queue of samples (TransferQueue) as one token sequence;
the conversation itself goes back to the runner. A conversation whose evaluation failed on our side is left out; an
exception in the loop, which verl would swallow, comes back as an outcome to be counted.
"""

import asyncio
import os
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import ray
import torch
import transfer_queue
from omegaconf import DictConfig
from ray.exceptions import RayActorError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.trainer.ppo.v1 import AgentLoopWorkerTQ

from common.client import AsyncClient
from trainer.config.schema import AgentRole, TrainingConfig
from trainer.conversation.conversation import AgentName, Conversation, Message, Response
from trainer.conversation.episode import EpisodeSettings, Oracle, Policy, episode_settings, play
from trainer.conversation.tokens import token_ids
from trainer.data.tasks import Task
from trainer.errors import ConfigurationError, ContextFullError, OracleError, OracleLostError, TrainerError
from trainer.evaluator import oracle
from trainer.policies.local_policy import model_tester
from trainer.rl.ray_session import process_lost
from trainer.rl.sequences import TokenSequence, credited, sequence_of
from trainer.rl.settings import LOOP

PARTITION = "train"
"""Where verl's trainers look for samples in the queue; those of different agents differ by their uid."""
ATTEMPTS = "attempts"
"""The field of a sample that says which attempt each of its tokens was generated for."""


@dataclass(frozen=True)
class AgentSlot:
    """One conversation that is to be played."""

    uid: str
    """Of the task within its step: conversations of one uid are compared with each other. No underscores."""
    candidate: int
    task: Task
    seed: int
    step: int
    """The weights that play it are those after so many steps less one."""
    evaluating: bool = False
    """Whether it only measures: sampled at the temperature for evaluations, and nothing is learned from it."""


@dataclass(frozen=True)
class ConversationResult:
    """What came of it."""

    seat: AgentSlot
    conversation: Conversation | None = None
    """None where it was left out or failed."""
    keys: Mapping[AgentRole, str] | None = None
    """Where each agent's sequence lies in the queue; an agent with nothing to learn from has none."""
    left_out: str | None = None
    """Why the evaluator has no verdict, where it has none by its own fault."""
    failure: str | None = None
    """The exception that ended it, with its stack."""
    fatal: TrainerError | None = None
    """Set where the run cannot go on: no further evaluation will be made, or a policy or a setting is broken."""


class BusyTimer:
    """How long anything at all was being generated, however much of it at a time. `with` around each request."""

    def __init__(self) -> None:
        self._inside = 0
        self._since_s = 0.0
        self._total_s = 0.0

    def __enter__(self) -> None:
        if self._inside == 0:
            self._since_s = time.monotonic()
        self._inside += 1

    def __exit__(self, *error: object) -> None:
        self._inside -= 1
        if self._inside == 0:
            self._total_s += time.monotonic() - self._since_s

    def taken_s(self) -> float:
        """Seconds so far; counts from 0 again."""
        total_s, self._total_s = self._total_s, 0.0
        return total_s


class ServerPolicy:
    """A policy whose answers come from one of verl's servers."""

    def __init__(self, client: Any, tokenizer: Any, config: TrainingConfig, seat: AgentSlot, busy: BusyTimer) -> None:
        """`client`: verl's LLMServerClient; `config`: as the agent sees it."""
        self._client, self._tokenizer, self._seat, self._busy = client, tokenizer, seat, busy
        self._rollout = config.rollout

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """As `trainer.conversation.episode.Policy`."""
        rollout = self._rollout
        prompt = token_ids(self._tokenizer, messages)
        if len(prompt) + max_tokens > rollout.sequence_tokens:
            raise ContextFullError(
                f"{len(prompt)} tokens are there, and an answer may have {max_tokens}; rollout.sequence_tokens is "
                f"{rollout.sequence_tokens}"
            )
        temperature = rollout.evaluation_temperature if self._seat.evaluating else rollout.temperature
        with self._busy:
            output = await self._client.generate(
                # The same for all turns: verl sends what has one id to one server, which still has the prefix. An
                # agent waits for its turn's answer before it asks again, so that no id is under way twice.
                request_id=f"{self._seat.uid}.{self._seat.candidate}",
                prompt_ids=list(prompt),
                sampling_params={
                    "temperature": temperature,
                    "top_p": rollout.top_p,
                    "max_tokens": max_tokens,
                    "logprobs": True,
                    "sampling_seed" if rollout.name == "sglang" else "seed": seed,
                },
            )
        ids = tuple(output.token_ids)
        return Response(
            text=self._tokenizer.decode(ids, skip_special_tokens=True),
            prompt_token_ids=prompt,
            token_ids=ids,
            log_probs=tuple(output.log_probs) if output.log_probs is not None else None,
            cut=ids[-1:] != (self._tokenizer.eos_token_id,) and len(ids) >= max_tokens,
        )


class AgentPool:
    """Who takes part in the conversations of one worker: a server and a tokenizer for each agent, and the oracle."""

    def __init__(
        self,
        config: TrainingConfig,
        clients: Mapping[AgentRole, Any],
        tokenizers: Mapping[AgentRole, Any],
        tester: Policy | None = None,
    ) -> None:
        """`tester`: the model that reviews kernels, if there is one."""
        self.config, self._clients, self._tokenizers, self._tester = config, clients, tokenizers, tester
        self._seen = {role: config.for_agent(role) for role in config.roles}
        self.oracle: Oracle | None = None
        self.busy = BusyTimer()

    def policies(self, seat: AgentSlot) -> dict[AgentName, Policy]:
        """The policies of one conversation."""
        tester: dict[AgentName, Policy] = {AgentName.TESTER: self._tester} if self._tester else {}
        return {AgentName(role): self._policy(role, seat) for role in self.config.roles} | tester

    def _policy(self, role: AgentRole, seat: AgentSlot) -> Policy:
        return ServerPolicy(self._clients[role], self._tokenizers[role], self._seen[role], seat, self.busy)


class ConversationOutput(AgentLoopOutput):
    """One agent's sequence, as verl takes it: rewards lie on the last tokens of turns."""

    rewards: list[float]
    attempts: list[int]

    def as_dict(self) -> dict[str, Any]:
        """Of itself verl 0.9.1 would put one reward on the very last token."""
        fields: dict[str, Any] = super().as_dict()
        fields["rm_scores"] = torch.tensor(fields.pop("rewards"), dtype=torch.float32)
        fields[ATTEMPTS] = torch.tensor(fields.pop("attempts"), dtype=torch.int64)
        return fields


@dataclass(frozen=True)
class FinishedConversation:
    """A conversation that is over, and what is to be learned from it."""

    conversation: Conversation
    sequences: tuple[TokenSequence, ...]


class ConversationLoop(AgentLoopBase):
    """verl makes one for each conversation."""

    def __init__(self, server_manager: AgentPool, **_: Any) -> None:
        # Nothing of verl's own loop is set up: prompts, tokens and turns are made by the trainer's modules.
        self._company = server_manager

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> FinishedConversation:
        """Play one conversation; what it earned becomes the rewards of its sequences."""
        company, seat = self._company, row["seat"]
        config = company.config
        if company.oracle is None:
            raise ConfigurationError("A conversation was to be played before there was an evaluator.")
        conversation = await play(
            seat.task,
            company.policies(seat),
            company.oracle,
            settings_of(config, seat),
            seat.seed,
            conversation_id=f"{seat.uid}.{seat.candidate}",
        )
        return FinishedConversation(conversation, sequences(conversation, config))


def settings_of(config: TrainingConfig, seat: AgentSlot) -> EpisodeSettings:
    """How a conversation goes: in the first `flow.single_turn_steps` steps with one kernel of each agent."""
    settings = episode_settings(config)
    if seat.evaluating or seat.step > config.flow.single_turn_steps:
        return settings
    turns = min(config.flow.max_turns, len(config.roles))
    return replace(settings, flow=replace(settings.flow, max_turns=turns))


def sequences(conversation: Conversation, config: TrainingConfig) -> tuple[TokenSequence, ...]:
    """What each agent of a configuration is to learn from a conversation that is over."""
    values = credited(conversation, config)
    found = (sequence_of(conversation, AgentName(role), values) for role in config.roles)
    return tuple(sequence for sequence in found if sequence is not None)


def failed_result(seat: AgentSlot, error: Exception) -> ConversationResult:
    """What came of a conversation that ended in an exception. verl swallows what an agent loop raises; here it is
    counted, and shown with the counts.
    """
    if isinstance(error, RayTaskError) and isinstance(error.cause, TrainerError | RayActorError):
        # What a server raised. Of Ray's the text is the whole stack.
        error = error.cause
    if isinstance(error, RayActorError):
        error = process_lost(error)
    if isinstance(error, OracleError):
        return ConversationResult(
            seat, left_out=str(error), fatal=error if isinstance(error, OracleLostError) else None
        )
    if isinstance(error, TrainerError):
        return ConversationResult(seat, failure=str(error), fatal=error)
    return ConversationResult(seat, failure="".join(traceback.format_exception(error, limit=-6)))


_Worker: Any = AgentLoopWorkerTQ.__ray_metadata__.modified_class


class ConversationWorker(_Worker):  # type: ignore[misc,valid-type,unused-ignore]
    """verl's worker of agent loops, which plays conversations of several agents; a Ray actor."""

    def __init__(
        self,
        config: TrainingConfig,
        verl_configs: Mapping[AgentRole, DictConfig],
        clients: Mapping[AgentRole, Any],
        key: str | None,
        ran_on: Mapping[str, oracle.Place],
    ) -> None:
        """`key`: the evaluator's. The environment of a cluster's processes lacks it, and Ray shows what it adds.
        `ran_on`: where right kernels counted before this start.
        """
        first = config.roles[0]
        super().__init__(verl_configs[first], clients[first], None, None)
        self._config, self._key, self._ran_on = config, key, ran_on
        # Each agent may have a model of its own, and with it a tokenizer.
        tokenizers = {role: _tokenizer(verl_configs[role]) for role in config.roles}
        self._company = AgentPool(config, clients, tokenizers, model_tester(config))
        self.llm_client = self._company
        self._oracle: oracle.EvaluatorOracle | None = None
        self._room = asyncio.Semaphore(config.rollout.concurrency)

    async def play(
        self, seats: Sequence[AgentSlot]
    ) -> tuple[list[ConversationResult], dict[str, float], dict[str, oracle.Place]]:
        """Play conversations side by side. With them come what the oracle has counted so far and the seconds in
        which something was generated (`generating`) and the evaluator alone was waited for (`waiting`), and where
        the right kernels of each problem count.
        """
        if self._oracle is None:
            section = self._config.evaluator
            client = AsyncClient(section.url, self._key, patience_s=section.patience_s)
            self._oracle = oracle.EvaluatorOracle(client, oracle.oracle_settings(section), self._ran_on)
            self._company.oracle = self._oracle
        began_s = time.monotonic()
        outcomes = await asyncio.gather(*(self._one(seat) for seat in seats))
        generating_s, all_s = self._company.busy.taken_s(), time.monotonic() - began_s
        times = {"generating": generating_s, "waiting": max(all_s - generating_s, 0.0)}
        return list(outcomes), {**asdict(self._oracle.counts), **times}, self._oracle.ran_on

    async def _one(self, seat: AgentSlot) -> ConversationResult:
        trajectory = {"step": seat.step, "sample_index": 0, "rollout_n": seat.candidate, "validate": seat.evaluating}
        try:
            async with self._room:
                done = await self._run_agent_loop({}, trajectory, agent_name=LOOP, trace=False, seat=seat)
        except Exception as error:
            return failed_result(seat, error)
        conversation, keys = done
        return ConversationResult(seat, conversation, keys)

    async def _agent_loop_postprocess(
        self, output: FinishedConversation, validate: bool, **row: Any
    ) -> tuple[Conversation, dict[str, str]]:
        seat: AgentSlot = row["seat"]
        keys = {}
        for sequence in () if validate else output.sequences:
            uid = f"{sequence.agent}.{seat.uid}"
            fields = {"uid": uid, "session_id": seat.candidate, "global_steps": seat.step}
            await super()._agent_loop_postprocess(_output(sequence, seat), validate, **fields)
            keys[str(sequence.agent)] = f"{uid}_{seat.candidate}_0"
        return output.conversation, keys

    async def _compute_score(self, outputs: Any, kwargs: Any) -> None:
        """The rewards are there already."""

    async def close(self) -> None:
        """Close the connections to the evaluator."""
        if self._oracle is not None:
            await self._oracle.close()


def _output(sequence: TokenSequence, seat: AgentSlot) -> ConversationOutput:
    return ConversationOutput(
        prompt_ids=list(sequence.prompt_ids),
        response_ids=list(sequence.response_ids),
        response_mask=list(sequence.response_mask),
        response_logprobs=list(sequence.log_probs) if sequence.log_probs is not None else None,
        rewards=list(sequence.rewards),
        attempts=list(sequence.attempts),
        num_turns=sequence.turns,
        metrics=AgentLoopMetrics(),
        extra_fields={
            "min_global_steps": seat.step - 1,
            "max_global_steps": seat.step - 1,
            "reward_extra_info": {},
        },
    )


def _tokenizer(config: DictConfig) -> Any:
    from verl.utils.config import omega_conf_to_dataclass

    return omega_conf_to_dataclass(config.actor_rollout_ref.model).tokenizer


def start_worker(
    config: TrainingConfig,
    verl_configs: Mapping[AgentRole, DictConfig],
    clients: Mapping[AgentRole, Any],
    ran_on: Mapping[str, oracle.Place],
) -> Any:
    """The Ray actor that plays a run's conversations.

    It is on the machine of this process: an embedded evaluator listens there and nowhere else.
    """
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    actor = ray.remote(ConversationWorker).options(
        num_cpus=0, max_concurrency=max(1000, config.rollout.concurrency + 16), scheduling_strategy=here
    )
    key = os.environ.get(config.evaluator.key_variable)
    return actor.remote(config, dict(verl_configs), dict(clients), key, dict(ran_on))


@contextmanager
def samples(verl_config: DictConfig) -> Iterator[None]:
    """The queue of samples, until the end of the block."""
    transfer_queue.init(verl_config.transfer_queue)
    try:
        yield
    finally:
        transfer_queue.close()


def forget(keys: Sequence[str]) -> None:
    """Take samples out of the queue that nothing is to be learned from."""
    if keys:
        transfer_queue.kv_clear(keys=list(keys), partition_id=PARTITION)
