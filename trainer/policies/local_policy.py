"""A policy in this process: a Hugging Face folder that answers, with log-probs, without verl or Ray.

For what plays conversations and learns nothing: checkpoints in cross-play, a Tester that is a model, comparisons.
What learns is `trainer.rl.trainable_agent.TrainableAgent`, whose checkpoints are folders that this one loads.
"""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from transformers import DynamicCache

from trainer.config.schema import TesterSection, TrainingConfig
from trainer.conversation.conversation import Message, Response
from trainer.conversation.tokens import token_ids
from trainer.errors import ConfigurationError, ContextFullError
from trainer.policies import models
from trainer.policies.sampling import nucleus

_GATHER_S: Final = 0.005
"""How long a request waits for others to be generated together with it."""


@dataclass(frozen=True)
class SamplingSettings:
    """How answers are drawn."""

    temperature: float = 1.0
    """0 takes the most probable token. Log-probs are those of the distribution that was drawn from."""
    batch_size: int = 64
    """Most answers that are generated together."""
    top_p: float = 1.0
    """Share of the probability that tokens are drawn from, the likeliest ones; not at temperature 0."""


class LocalPolicy:
    """Model and tokenizer: on the CPU in float32, on a GPU in bfloat16. It is a
    `trainer.conversation.episode.Policy`.

    `folder`: a Hugging Face folder. Raises ConfigurationError for one without a model.
    """

    def __init__(self, folder: Path, settings: SamplingSettings | None = None, *, device: str = "cpu") -> None:
        self.settings = settings or SamplingSettings()
        model, self.tokenizer = models.load_model(folder)
        self.model: Any = model.eval() if device == "cpu" else model.to(device, torch.bfloat16).eval()
        self._waiting: list[_Asked] = []
        self._serving: asyncio.Task[None] | None = None

    @property
    def context_tokens(self) -> int:
        """Longest sequence that the model was made for."""
        return int(self.model.config.max_position_embeddings)

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
        padding, end = int(self.tokenizer.pad_token_id or 0), int(self.tokenizer.eos_token_id)
        device = self.model.device
        ids = torch.tensor([[padding] * (longest - len(row.prompt)) + row.prompt for row in rows], device=device)
        mask = torch.tensor(
            [[0] * (longest - len(row.prompt)) + [1] * len(row.prompt) for row in rows], device=device
        )
        places = (mask.cumsum(1) - 1).clamp(min=0)
        cache, alive = DynamicCache(config=self.model.config), list(rows)
        while alive:
            logits = self.model(
                input_ids=ids, attention_mask=mask, position_ids=places, past_key_values=cache, logits_to_keep=1
            ).logits[:, -1]
            drawn, log_probs = self._draw(logits, alive)
            for row, token, log_prob in zip(alive, drawn.tolist(), log_probs.tolist(), strict=True):
                row.take(token, log_prob, end)
            going = torch.tensor(
                [at for at, row in enumerate(alive) if not row.done], dtype=torch.long, device=device
            )
            ids = drawn[going].unsqueeze(1)
            if 0 < len(going) < len(alive):
                cache.batch_select_indices(going)
            alive = [row for row in alive if not row.done]
            mask = torch.nn.functional.pad(mask[going], (0, 1), value=1)
            places = places[going][:, -1:] + 1
        return [row.response(self) for row in rows]

    def _draw(self, logits: torch.Tensor, rows: "Sequence[_Row]") -> tuple[torch.Tensor, torch.Tensor]:
        """The next token of each row, and its log-prob: the first at which the cumulated probability passes a number
        that the row's seed gave.
        """
        log_probs = self._distribution(logits)
        if self.settings.temperature == 0:
            drawn = log_probs.argmax(dim=-1)
        else:
            cumulated = log_probs.double().exp().cumsum(-1)
            numbers = torch.tensor([next(row.dice) for row in rows], dtype=torch.float64, device=logits.device)
            passed = (numbers * cumulated[:, -1]).unsqueeze(1)
            drawn = torch.searchsorted(cumulated, passed, right=True).squeeze(1).clamp(max=logits.shape[-1] - 1)
        return drawn, log_probs.gather(1, drawn.unsqueeze(1)).squeeze(1)

    def _distribution(self, logits: torch.Tensor) -> torch.Tensor:
        """Log-probs [rows, vocabulary], float32, of what is drawn from."""
        asked = self.settings
        log_probs = torch.log_softmax(logits.float() / (asked.temperature or 1.0), dim=-1)
        share = asked.top_p if asked.temperature > 0 else 1.0
        return nucleus(log_probs, torch.full((len(log_probs),), share, device=log_probs.device))


def folder_of_tester(section: TesterSection) -> Path:
    """Where the model of a Tester lies, fetched if need be. Raises ConfigurationError where there is none."""
    folder = models.smollm2() if section.model_name == models.SMOLLM2 else Path(section.model_name)
    if not (folder / "config.json").is_file():
        raise ConfigurationError(
            f"There is no language model in {folder} for the Tester.",
            f"Name a Hugging Face folder or {models.SMOLLM2} in agents.tester.model_name, let it be tuned, or set "
            "agents.tester=null.",
        )
    return folder


def model_tester(config: TrainingConfig) -> LocalPolicy | None:
    """The Tester that is a model, where a configuration has one. Raises ConfigurationError where it is no model."""
    section = config.agents.tester
    if section is None:
        return None
    folder = folder_of_tester(section)
    # What is generated beside an answer changes the last bits of its log-probs, and with them rarely a token.
    size = 1 if config.deterministic else SamplingSettings.batch_size
    return LocalPolicy(folder, SamplingSettings(section.temperature, size))


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
        self.dice: Iterator[float] = iter(
            torch.rand(max_tokens, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).tolist()
        )
        """A number for each token."""
        self._most = max_tokens
        self._ids: list[int] = []
        self._log_probs: list[float] = []
        self.done = False

    def take(self, token: int, log_prob: float, end: int) -> None:
        """One more token; `end` is the last one of an answer."""
        self._ids.append(token)
        self._log_probs.append(log_prob)
        self.done = token == end or len(self._ids) >= self._most

    def response(self, agent: LocalPolicy) -> Response:
        ended = self._ids[-1] == agent.tokenizer.eos_token_id
        text = str(agent.tokenizer.decode(self._ids, skip_special_tokens=True))
        return Response(text, tuple(self.prompt), tuple(self._ids), tuple(self._log_probs), cut=not ended)
