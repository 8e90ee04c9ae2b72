"""The warm start: plain supervised steps on templated kernels, just far enough that a small model is often wrong.

The lessons are conversations as the agents will have them: scripted authors draw kernels from `trainer.data.corpus`,
right ones and wrong ones, and the real evaluator judges them, so that the reports which a later turn answers are real
ones. Training tasks only: what is held out is not in a lesson.
"""

import asyncio
import hashlib
import json
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from common.client import AsyncClient
from trainer.config.schema import AgentRole, TrainingConfig
from trainer.config.supervised import WarmStartSection
from trainer.conversation.conversation import AgentName, Message, Response
from trainer.conversation.episode import EpisodeSettings, Oracle, Policy, episode_settings, play_many
from trainer.conversation.extraction import wrapped
from trainer.conversation.prompts import opening
from trainer.conversation.tokens import harmless, token_ids
from trainer.data import corpus
from trainer.data.tasks import Task
from trainer.errors import CheckpointError, ConfigurationError, ContextFullError
from trainer.evaluator.oracle import EvaluatorOracle
from trainer.evaluator.oracle import oracle_settings as oracle_settings
from trainer.policies import models

_CONVERSATIONS: Final = 256
"""Conversations that lessons are taken from; more steps see them again."""
_RAMP_STEPS: Final = 10
_DRAWS: Final = 1000
"""Of a kernel that was not there before; then any of those that are left."""


Row = tuple[tuple[int, ...], tuple[int, ...]]
"""The ids of a lesson, and the places of those that are learned."""


@dataclass(frozen=True)
class Lesson:
    """What an agent was asked, and what it answered, in turn; it ends with an answer."""

    messages: tuple[Message, ...]
    last_only: bool = False
    """Whether only the last answer is learned: the earlier ones are what it improves on."""


@dataclass(frozen=True)
class _Author:
    """A scripted policy: draws from the corpus what it has not said before; raises ContextFullError, which ends a
    conversation, where it has said all.
    """

    tasks: dict[str, str]
    """Problem of each task, by the first user's message."""
    right_share: float

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """A kernel, in the form that agents are asked for."""
        asked = next(message.text for message in messages if message.role == "user")
        problem = next(problem for text, problem in self.tasks.items() if asked.startswith(text))
        said = {message.text for message in messages}
        left = sorted(self._answers(problem) - said)
        if not left:
            raise ContextFullError(f"All kernels that are known for {problem} have been written.")
        rng = random.Random(seed)
        for _ in range(_DRAWS):
            answer = wrapped(corpus.draw_tasks(rng, problem, self.right_share).source)
            if answer not in said:
                return Response(answer)
        return Response(rng.choice(left))

    def _answers(self, problem: str) -> set[str]:
        """All that may be drawn."""
        every = corpus.everything((problem,))
        return {wrapped(one.source) for one in every if one.flaw is None or self.right_share < 1}


async def lessons(
    tasks: Sequence[Task],
    agent: AgentName,
    settings: EpisodeSettings,
    oracle: Oracle,
    *,
    right_share: float,
    seed: int,
    count: int = _CONVERSATIONS,
) -> tuple[Lesson, ...]:
    """Lessons for one agent, the same for the same arguments. Where every conversation is one kernel long nothing
    needs to be judged, and the evaluator is not asked.

    Raises ConfigurationError for tasks that the corpus has no kernels for, OracleLostError.
    """
    rng = random.Random(seed)
    known = [task for task in tasks if task.problem in corpus.PROBLEMS and not task.held_out]
    if not known:
        raise ConfigurationError(
            "There is nothing to warm up with: the templated kernels are for other problems.",
            f"Name some of {', '.join(corpus.PROBLEMS)} in tasks.problems, or set model.warm_start.steps to 0.",
        )
    asked = [(rng.choice(known), rng.getrandbits(31)) for _ in range(count)]
    author = _Author({task.text: task.problem for task in known}, right_share)
    if settings.flow.max_turns == 1:
        views = []
        for task, its_seed in asked:
            said = opening(agent, task, settings.wording)
            answer = await author.respond(said, seed=its_seed, max_tokens=settings.turn_tokens)
            views.append((*said, Message("assistant", answer.text)))
    else:
        policies: dict[AgentName, Policy] = {AgentName.GENERATOR: author, AgentName.OPTIMIZER: author}
        # Right kernels do not end a lesson, or nobody would learn what to do after one.
        longer = replace(settings, flow=replace(settings.flow, stop_at=2.0))
        played = await play_many(asked, policies, oracle, longer)
        views = [view for conversation in played.whole if (view := conversation.view(agent))]
    return tuple(Lesson(view) for view in views)


def warm_up(
    start: Path,
    into: Path,
    taught: Sequence[Lesson],
    settings: WarmStartSection,
    *,
    seed: int,
    told: Callable[[int, float], None] | None = None,
) -> tuple[float, ...]:
    """Supervised steps on the answers of lessons, from one folder into another; the losses, nats a token.

    What the agent was asked is not learned. Lengths are masked by number, since the token that pads may be the one
    that ends an answer. `told` gets each step. The same arguments give the same weights on the same machine.
    """
    loaded, tokenizer = models.load_model(start)
    model: Any = loaded.train()
    rows = [tokens_of(tokenizer, lesson) for lesson in taught]
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.learning_rate, weight_decay=0.0)
    losses: list[float] = []
    for step in range(settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * min(1.0, (step + 1) / _RAMP_STEPS)
        loss = answer_loss(model, [rng.choice(rows) for _ in range(settings.batch_size)])
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if told:
            told(step + 1, losses[-1])
    models.save(into, model.eval(), tokenizer)
    return tuple(losses)


def answer_loss(model: Any, batch: Sequence[Row]) -> torch.Tensor:
    """Cross-entropy of the learned tokens of some rows, nats a token, on the model's device.

    Only places whose next token is learned go through the head, which is most of a small model's work.
    """
    longest = max(len(ids) for ids, _ in batch)
    ids = torch.tensor([[*ids, *[0] * (longest - len(ids))] for ids, _ in batch], device=model.device)
    mask = torch.tensor([[1] * len(ids) + [0] * (longest - len(ids)) for ids, _ in batch], device=model.device)
    row = torch.tensor([at for at, (_, learned) in enumerate(batch) for _ in learned], device=model.device)
    place = torch.tensor([place for _, learned in batch for place in learned], device=model.device)
    hidden = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
    scores = model.get_output_embeddings()(hidden[row, place - 1])
    return torch.nn.functional.cross_entropy(scores.float(), ids[row, place])


def tokens_of(tokenizer: Any, lesson: Lesson) -> Row:
    """The ids of a lesson, and the places of those that are learned: the answers, with the token that ends each."""
    ids: tuple[int, ...] = ()
    learned: list[int] = []
    view: list[Message] = []
    for message in lesson.messages:
        if message.role != "assistant":
            view.append(message)
            continue
        ids = token_ids(tokenizer, view)
        said = harmless(tokenizer, message.text)
        answer = (*tokenizer.encode(said, add_special_tokens=False), int(tokenizer.eos_token_id))
        places = range(len(ids), len(ids) + len(answer))
        learned = [*places] if lesson.last_only else [*learned, *places]
        ids = (*ids, *answer)
        view.append(replace(message, response=Response(message.text, token_ids=answer)))
    return ids, tuple(learned)


def prepare_policy(
    config: TrainingConfig,
    role: AgentRole,
    tasks: Sequence[Task],
    folder: Path,
    *,
    told: Callable[[int, float], None] | None = None,
) -> Path | str:
    """What an agent starts from: a Hugging Face folder, or the name of a model that is not made here.

    Makes `tiny`, fetches `smollm2-135m`, and warms up as `model.warm_start` says, on those of the tasks that are for
    training; the evaluator is asked where conversations have several turns. What is finished is kept below `folder`
    and used again. `told` gets each supervised step and its loss. Raises ConfigurationError, OracleLostError.
    """
    config = config.for_agent(role)
    name, start = config.model.name, config.model.warm_start
    if name != models.TINY and not start.steps:
        return models.smollm2() if name == models.SMOLLM2 else name
    into = folder / f"{role}-{_key(config, role, tasks)}"
    done = into / "warm_start.json"
    if done.exists():
        return into
    taught = asyncio.run(_lessons(config, AgentName(role), tasks))
    if name == models.TINY:
        origin = into
        models.make_tiny(into, (message.text for one in taught for message in one.messages), seed=config.seed)
    else:
        origin = models.smollm2() if name == models.SMOLLM2 else Path(name)
    if config.resources.threads:
        # As in the workers: runs beside each other, with a thread for every processor each, wait for one another.
        torch.set_num_threads(config.resources.threads)
    losses = warm_up(origin, into, taught, start, seed=config.seed, told=told) if start.steps else ()
    done.write_text(json.dumps({"lessons": len(taught), "losses": losses}), encoding="utf-8")
    return into


def start_of_all(
    config: TrainingConfig,
    tasks: Sequence[Task],
    folder: Path,
    kept: Mapping[AgentRole, str],
    tell: Callable[[str], None],
) -> dict[AgentRole, Path | str]:
    """What each agent of a run starts from, as `prepare` says; `tell` gets lines for a person.

    `kept`: where a run goes on, the folders below `folder` that it began with, by agent. These it keeps, whatever the
    settings have become since: its weights know no other tokenizer, and no other model is the one to keep near.
    Raises ConfigurationError, OracleLostError, CheckpointError where one of them is gone.
    """
    found: dict[AgentRole, Path | str] = {}
    for role in config.roles:
        if role not in kept:
            found[role] = prepare_policy(config, role, tasks, folder, told=_telling(config, role, tell))
            continue
        found[role] = begun = folder / kept[role]
        if not begun.is_dir():
            raise CheckpointError(
                f"{begun}, which the {role} of this run began with, is not there any more.",
                "Put it back, or start over with --fresh.",
            )
    return found


def _telling(config: TrainingConfig, role: AgentRole, tell: Callable[[str], None]) -> Callable[[int, float], None]:
    """Says now and then how a warm start comes along."""
    last = config.model.warm_start.steps

    def told(step: int, loss: float) -> None:
        if step % 20 == 0 or step == last:
            tell(f"Warm start of the {role}: step {step} of {last}, loss {loss:.3f}.")

    return told


def _key(config: TrainingConfig, role: AgentRole, tasks: Sequence[Task]) -> str:
    """All that a warm start hangs on."""
    about = [config.model.name, role, config.seed, config.model.warm_start.model_dump(), config.flow.max_turns]
    words = json.dumps(
        [
            *about,
            str(episode_settings(config)),
            [task.id for task in tasks],
            [one.source for one in corpus.everything()],
        ]
    )
    return hashlib.sha256(words.encode()).hexdigest()[:12]


async def _lessons(config: TrainingConfig, agent: AgentName, tasks: Sequence[Task]) -> tuple[Lesson, ...]:
    asked = config.evaluator
    client = AsyncClient(asked.url, os.environ.get(asked.key_variable), patience_s=asked.patience_s)
    async with EvaluatorOracle(client, oracle_settings(asked)) as oracle:
        share = config.model.warm_start.right_share
        return await lessons(tasks, agent, episode_settings(config), oracle, right_share=share, seed=config.seed)
