"""An agent that learns: `TrainableAgent` owns its model, its tokenizer and its optimizer (requirement R1).

This is the local mode, for one process: it generates with log-probs and takes real clipped policy steps, without verl
or Ray. What it saves is a Hugging Face folder with the optimizer beside it, which verl's workers start from, and a
folder that verl has written is one that it starts from.
"""

import asyncio
import copy
import pickle
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import DynamicCache

from trainer.conversation.conversation import AgentName, Conversation, Message, Response
from trainer.conversation.tokens import token_ids
from trainer.errors import CheckpointError, ContextFullError, PolicyError
from trainer.policies import models

_OPTIMIZER: Final = "optimizer.pt"
_GATHER_S: Final = 0.005
"""How long a request waits for others to be generated together with it."""


@dataclass(frozen=True)
class PolicySettings:
    """How an agent samples and learns. The defaults are the requirements' (R11, C15)."""

    learning_rate: float = 1e-5
    """Of AdamW (Loshchilov and Hutter 2019), without weight decay."""
    clip: float = 0.2
    """How far the ratio of new to old probability counts downwards, and upwards where `clip_high` is None."""
    clip_high: float | None = None
    kl_coefficient: float = 0.02
    """Weight of the distance to the reference; 0 computes none."""
    epochs: int = 4
    """Passes over the samples of one update."""
    mini_batch_size: int = 8
    """Samples of one optimizer step."""
    gradient_clip: float = 1.0
    """Largest norm of the gradient."""
    temperature: float = 1.0
    """Of sampling; 0 takes the most probable token. Log-probs are those of the distribution that was drawn from."""
    batch_size: int = 64
    """Most answers that are generated together."""


@dataclass(frozen=True)
class Sample:
    """One agent's view of one conversation, as it is learned from."""

    token_ids: tuple[int, ...]
    """The whole view: prompts, answers, reports."""
    learned: tuple[int, ...]
    """Places in `token_ids` of the tokens that it generated and is judged by."""
    log_probs: tuple[float, ...]
    """Of those tokens, as they were when they were drawn."""
    advantages: tuple[float, ...]
    """Of those tokens."""

    def __post_init__(self) -> None:
        if not len(self.learned) == len(self.log_probs) == len(self.advantages):
            raise ValueError("a sample has one log-prob and one advantage for each token that is learned")
        if any(not 0 < place < len(self.token_ids) for place in self.learned):
            raise ValueError("a token that is learned must have one before it")


@dataclass(frozen=True)
class Update:
    """What one call of `update_parameters` did, averaged over its optimizer steps."""

    loss: float
    kl: float
    """Distance to the reference, nats a token (estimator k3 of Schulman 2020); 0 where none is computed."""
    clipped_share: float
    """Share of the tokens at which the clipping took the gradient away."""
    ratio: float
    """New over old probability, mean over the tokens."""
    gradient_norm: float
    """Before it was clipped."""
    steps: int


def sample_of(conversation: Conversation, agent: AgentName, advantages: Sequence[float | None]) -> Sample | None:
    """What an agent learns from a conversation: its answers, each with the advantage of its turn.

    `advantages`: one for each of the agent's turns, in order; None leaves a turn out. None where nothing is left.
    Raises PolicyError for an answer without tokens or log-probs.
    """
    answers = [message.response for message in conversation.view(agent) if message.response is not None]
    if len(answers) != len(advantages):
        raise ValueError(f"{len(advantages)} advantages for the {len(answers)} turns of the {agent}")
    learned: list[int] = []
    log_probs: list[float] = []
    spread: list[float] = []
    for answer, advantage in zip(answers, advantages, strict=True):
        if answer.log_probs is None or not answer.prompt_token_ids:
            raise PolicyError(
                f"An answer of the {agent} has no log-probs, so nothing can be learned from it.",
                "Let the agent's own policy answer, with token ids and log-probs.",
            )
        if advantage is not None:
            first = len(answer.prompt_token_ids)
            learned += range(first, first + len(answer.token_ids))
            log_probs += answer.log_probs
            spread += [advantage] * len(answer.token_ids)
    if not learned:
        return None
    whole = (*answers[-1].prompt_token_ids, *answers[-1].token_ids)
    return Sample(whole, tuple(learned), tuple(log_probs), tuple(spread))


def clipped_objective(
    log_probs: torch.Tensor, old: torch.Tensor, advantages: torch.Tensor, low: float, high: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """PPO's clipped objective (Schulman et al. 2017, equation 7) of each token, and where the clipping binds.

    All of shape [tokens], float32; the second result is boolean.
    """
    ratio = torch.exp(log_probs - old)
    plain = ratio * advantages
    clipped = torch.clamp(ratio, 1 - low, 1 + high) * advantages
    return torch.minimum(plain, clipped), clipped < plain


class TrainableAgent:
    """Model, tokenizer and optimizer of one agent, on the CPU, in float32. It is a
    `trainer.conversation.episode.Policy`.

    `folder`: a Hugging Face folder, with an optimizer in it or not. `reference`: the folder of the model that the KL
    distance is taken to; the model as it is now, where there is none. Raises ConfigurationError for a folder without
    a model, CheckpointError for an optimizer that does not belong to it.
    """

    def __init__(
        self, folder: Path, settings: PolicySettings | None = None, *, reference: Path | None = None, seed: int = 0
    ) -> None:
        self.settings = settings or PolicySettings()
        model, self.tokenizer = models.load_model(folder)
        self.model: Any = model.eval()
        self._reference: Any = None
        if self.settings.kl_coefficient:
            self._reference = models.load_model(reference)[0] if reference else copy.deepcopy(model)
            self._reference.eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=self.settings.learning_rate, weight_decay=0.0, betas=(0.9, 0.999)
        )
        self._dice = random.Random(seed)
        self._load_optimizer(folder / _OPTIMIZER)
        self._waiting: list[_Asked] = []
        self._serving: asyncio.Task[None] | None = None

    @property
    def context_tokens(self) -> int:
        """Longest sequence that the model was made for."""
        return int(self.model.config.max_position_embeddings)

    # Generating ---------------------------------------------------------------------------------------------------

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """The answer to a view. Requests that come at the same time are generated together.

        The seed belongs to the request, so an answer does not hang on what is generated beside it, but for the last
        bits of the log-probs. Raises ContextFullError, PolicyError.
        """
        prompt = token_ids(self.tokenizer, messages)
        room = self.context_tokens - len(prompt)
        if room < 1:
            raise ContextFullError(
                f"The view has {len(prompt)} tokens, and the model sees {self.context_tokens}.",
                "Allow fewer turns, or take a model with a longer context.",
            )
        asked = _Asked(prompt, seed, min(max_tokens, room), asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await asked.answer

    async def _serve(self) -> None:
        while self._waiting:
            await asyncio.sleep(_GATHER_S)
            batch, self._waiting = (
                self._waiting[: self.settings.batch_size],
                self._waiting[self.settings.batch_size :],
            )
            try:
                answers = await asyncio.to_thread(
                    self.generate_with_log_probs,
                    [asked.prompt for asked in batch],
                    seeds=[asked.seed for asked in batch],
                    max_tokens=[asked.max_tokens for asked in batch],
                )
            except Exception as error:
                for asked in batch:
                    if not asked.answer.done():
                        asked.answer.set_exception(error)
                continue
            for asked, answer in zip(batch, answers, strict=True):
                if not asked.answer.done():
                    asked.answer.set_result(answer)

    @torch.inference_mode()
    def generate_with_log_probs(
        self, prompts: Sequence[Sequence[int]], *, seeds: Sequence[int], max_tokens: Sequence[int]
    ) -> list[Response]:
        """One answer to each prompt (token ids), drawn with its own seed, at most its own `max_tokens` long."""
        rows = [_Row(list(prompt), seed, most) for prompt, seed, most in zip(prompts, seeds, max_tokens, strict=True)]
        longest = max(len(prompt) for prompt in prompts)
        padding = int(self.tokenizer.pad_token_id or 0)
        ids = torch.tensor([[padding] * (longest - len(row.prompt)) + row.prompt for row in rows])
        mask = torch.tensor([[0] * (longest - len(row.prompt)) + [1] * len(row.prompt) for row in rows])
        places = (mask.cumsum(1) - 1).clamp(min=0)
        cache, alive = DynamicCache(config=self.model.config), list(rows)
        while alive:
            logits = self.model(
                input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, logits_to_keep=1
            ).logits[:, -1]
            drawn = [row.take(scores, self) for row, scores in zip(alive, self._distribution(logits), strict=True)]
            going = [at for at, row in enumerate(alive) if not row.done]
            ids = torch.tensor([[drawn[at]] for at in going])
            if len(going) < len(alive) and going:
                cache.batch_select_indices(torch.tensor(going))
            alive = [alive[at] for at in going]
            mask = torch.nn.functional.pad(mask[going], (0, 1), value=1)
            places = places[going][:, -1:] + 1
        return [row.response(self) for row in rows]

    def _distribution(self, logits: torch.Tensor) -> torch.Tensor:
        """Log-probs [rows, vocabulary], float32, of what is drawn from."""
        return torch.log_softmax(logits.float() / (self.settings.temperature or 1.0), dim=-1)

    # Learning -----------------------------------------------------------------------------------------------------

    def update_parameters(self, samples: Sequence[Sample]) -> Update:
        """One policy step: PPO's clipped objective with the KL distance to the reference, every token alike.

        Raises PolicyError where the loss is not a number; the weights are then as they were before that batch.
        """
        steps: list[Update] = []
        for _ in range(self.settings.epochs):
            order = list(samples)
            self._dice.shuffle(order)
            for at in range(0, len(order), self.settings.mini_batch_size):
                steps.append(self._step(order[at : at + self.settings.mini_batch_size]))
        if not steps:
            return Update(0.0, 0.0, 0.0, 1.0, 0.0, 0)

        def mean(name: str) -> float:
            return float(sum(getattr(step, name) for step in steps) / len(steps))

        return Update(
            mean("loss"), mean("kl"), mean("clipped_share"), mean("ratio"), mean("gradient_norm"), len(steps)
        )

    def _step(self, batch: Sequence[Sample]) -> Update:
        settings = self.settings
        old = torch.tensor([value for sample in batch for value in sample.log_probs])
        advantages = torch.tensor([value for sample in batch for value in sample.advantages])
        new = self.log_probs(batch)
        objective, binding = clipped_objective(
            new, old, advantages, settings.clip, settings.clip if settings.clip_high is None else settings.clip_high
        )
        loss, kl = -objective.mean(), torch.zeros(())
        if self._reference is not None:
            with torch.no_grad():
                apart = self.log_probs(batch, self._reference)
            kl = (torch.exp(apart - new) - (apart - new) - 1).mean()
            loss = loss + settings.kl_coefficient * kl
        if not torch.isfinite(loss):
            raise PolicyError(
                "The loss of a policy step is not a number.",
                "Go back to the last checkpoint and lower the learning rate.",
            )
        self.optimizer.zero_grad()
        torch.autograd.backward(loss)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.gradient_clip)
        self.optimizer.step()
        ratio = torch.exp(new.detach() - old).mean()
        return Update(
            float(loss.detach()), float(kl.detach()), float(binding.float().mean()), float(ratio), float(norm), 1
        )

    def log_probs(self, batch: Sequence[Sample], model: Any = None) -> torch.Tensor:
        """Of the learned tokens of all samples one after another, [tokens], float32, with gradient."""
        model = model or self.model
        longest = max(len(sample.token_ids) for sample in batch)
        ids = torch.tensor([[*sample.token_ids, *[0] * (longest - len(sample.token_ids))] for sample in batch])
        mask = torch.tensor(
            [[1] * len(sample.token_ids) + [0] * (longest - len(sample.token_ids)) for sample in batch]
        )
        row = torch.tensor([at for at, sample in enumerate(batch) for _ in sample.learned])
        place = torch.tensor([place for sample in batch for place in sample.learned])
        # Only the learned tokens go through the head: over a large vocabulary it is most of the memory.
        hidden = model.base_model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        scores = self._distribution(model.get_output_embeddings()(hidden[row, place - 1]))
        return scores.gather(1, ids[row, place].unsqueeze(1)).squeeze(1)

    # Keeping ------------------------------------------------------------------------------------------------------

    def save(self, folder: Path) -> None:
        """Write a Hugging Face folder with the optimizer's state in it. Raises CheckpointError."""
        try:
            models.save(folder, self.model, self.tokenizer)
            torch.save({"optimizer": self.optimizer.state_dict(), "dice": self._dice.getstate()}, folder / _OPTIMIZER)
        except OSError as error:
            raise CheckpointError(f"The agent cannot be saved in {folder}: {error}", "Look to the disk.") from error

    def _load_optimizer(self, path: Path) -> None:
        if not path.exists():
            return
        try:
            state = torch.load(path, weights_only=True)
            self.optimizer.load_state_dict(state["optimizer"])
            version, numbers, rest = state["dice"]
            self._dice.setstate((version, tuple(numbers), rest))
        except (OSError, RuntimeError, ValueError, KeyError, EOFError, pickle.UnpicklingError) as error:
            raise CheckpointError(
                f"The optimizer in {path} cannot be read ({type(error).__name__}).",
                "Delete the file to start with a new one.",
            ) from error
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate


@dataclass
class _Asked:
    prompt: tuple[int, ...]
    seed: int
    max_tokens: int
    answer: "asyncio.Future[Response]"


class _Row:
    """One answer while it grows."""

    def __init__(self, prompt: list[int], seed: int, max_tokens: int) -> None:
        self.prompt = prompt
        self._dice: Iterator[float] = iter(
            torch.rand(max_tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
        )
        self._most = max_tokens
        self._ids: list[int] = []
        self._log_probs: list[float] = []
        self.done = False

    def take(self, log_probs: torch.Tensor, agent: TrainableAgent) -> int:
        """Draw the next token: the first at which the cumulated probability passes a number that the seed gave."""
        if agent.settings.temperature == 0:
            chosen = int(log_probs.argmax())
        else:
            cumulated = log_probs.double().exp().cumsum(0)
            chosen = int(torch.searchsorted(cumulated, next(self._dice) * float(cumulated[-1]), right=True))
            chosen = min(chosen, len(log_probs) - 1)
        self._ids.append(chosen)
        self._log_probs.append(float(log_probs[chosen]))
        self.done = chosen == agent.tokenizer.eos_token_id or len(self._ids) >= self._most
        return chosen

    def response(self, agent: TrainableAgent) -> Response:
        ended = self._ids[-1] == agent.tokenizer.eos_token_id
        text = str(agent.tokenizer.decode(self._ids, skip_special_tokens=True))
        return Response(text, tuple(self.prompt), tuple(self._ids), tuple(self._log_probs), cut=not ended)
