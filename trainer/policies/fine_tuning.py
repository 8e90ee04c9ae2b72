"""Supervised fine-tuning: whole passes over lessons, each epoch kept, so that one that was stopped goes on.

On one device: all weights in float32, or low-rank adapters over weights that stay as they are, in 4 bits where that
is asked for; on a GPU products are in bfloat16. `INTO/epoch-N` holds the model after N epochs as a Hugging Face
folder, adapters merged into it, with the adapters alone in `adapter` and the optimizer's state until the last;
`INTO/epochs.json` says which are finished.
A tuning that was killed goes on from the newest finished epoch and ends, on the same machine without a GPU, with the
weights of one that was not.
"""

import json
import math
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import torch

from common.file_replacement import replace_file
from trainer.config.supervised import SftSection
from trainer.errors import CheckpointError, ConfigurationError, PolicyError
from trainer.policies import adapters, models
from trainer.policies.sft import Lesson, Row, answer_loss, tokens_of

ADAPTER: Final = "adapter"
"""Of a tuned model's folder: the adapters that are merged into it."""
_EPOCHS: Final = "epochs.json"
_OPTIMIZER: Final = "optimizer.pt"
_RISING_SHARE: Final = 0.05
"""Share of the steps in which the learning rate rises: AdamW's first steps know little of the gradients' size."""


@dataclass(frozen=True)
class Epoch:
    """One pass over the lessons."""

    number: int
    """From 1."""
    lessons: int
    """Lessons that were learned from."""
    left_out: int
    """Lessons that are longer than the model's context."""
    steps: int
    """Optimizer steps of this epoch."""
    loss: float
    """Mean over the steps, nats a token."""


@dataclass(frozen=True)
class FineTuned:
    """What came of a tuning."""

    folder: Path
    """The tuned model, a Hugging Face folder."""
    epochs: tuple[Epoch, ...]


def fine_tune(
    start: Path,
    into: Path,
    taught: Sequence[Lesson],
    section: SftSection,
    *,
    epochs: int,
    seed: int,
    device: str = "cpu",
    adapter: Path | None = None,
    told: Callable[[int, int, float], None] | None = None,
    kept: Callable[[Epoch, Path], None] | None = None,
) -> FineTuned:
    """Tune the model of the folder `start` on the answers in `taught`, in another order each epoch, and go on where
    `into` has finished epochs. With `sft.method` lora or qlora adapters are tuned: new ones, or those of the folder
    `adapter`, which were tuned for the model of `start`. `told` gets each optimizer step, how many there are, and its
    loss; `kept` each finished epoch with its folder, and at the start the newest one of an earlier start.

    Raises ConfigurationError for a folder without a model or a chat template, and for lessons that are all longer
    than its context, or where the device cannot hold weights in 4 bits; PolicyError where the loss is no number any
    more; CheckpointError where nothing can be written.
    """
    done = _finished(into)
    if done and kept:
        kept(done[-1], into / f"epoch-{len(done)}")
    if len(done) >= epochs:
        return FineTuned(into / f"epoch-{len(done)}", done)
    before = into / f"epoch-{len(done)}"
    if not section.with_adapters:
        loaded, tokenizer = models.load_model(before if done else start)
    else:
        base: Any
        if section.method == "qlora":
            base, tokenizer = adapters.load_quantised(start, device)
        else:
            frozen, tokenizer = models.load_model(start)
            base = frozen if device == "cpu" else frozen.to(torch.bfloat16)
        known = before / ADAPTER if done else adapter
        loaded = (
            adapters.load_adapters(base, known, trained=True)
            if known
            else adapters.with_adapters(base, section.lora, seed=seed)
        )
    if not tokenizer.chat_template:
        raise ConfigurationError(
            f"The tokenizer of {start} has no chat template, so it is not known how an answer ends.",
            "Take an instruction-tuned model, or put a chat template into its tokenizer_config.json.",
        )
    model: Any = loaded.to(device).train()
    every = [tokens_of(tokenizer, lesson) for lesson in taught]
    rows = [row for row in every if len(row[0]) <= model.config.max_position_embeddings]
    if not rows:
        raise ConfigurationError(
            f"None of the {len(every)} examples fits into the {model.config.max_position_embeddings} tokens that the "
            f"model of {start} sees.",
            "Set tasks.wording to brief, or take a model with a longer context.",
        )
    a_step = section.batch_size * section.gradient_accumulation_steps
    steps = -(-len(rows) // a_step)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=section.learning_rate, weight_decay=0.0)
    if done:
        optimizer.load_state_dict(torch.load(before / _OPTIMIZER, map_location=device))
    for number in range(len(done) + 1, epochs + 1):
        order = random.Random(f"{seed} epoch {number}").sample(rows, len(rows))
        losses = []
        with torch.random.fork_rng(devices=[] if device == "cpu" else [torch.cuda.current_device()]):
            # Of what is left out by dropout: an epoch that was stopped is done again alike.
            torch.manual_seed(random.Random(f"{seed} dropout of epoch {number}").getrandbits(63))
            for step in range(steps):
                whole = (number - 1) * steps + step
                for group in optimizer.param_groups:
                    group["lr"] = section.learning_rate * _share_of_rate(whole, epochs * steps)
                rows_of_step = order[step * a_step : (step + 1) * a_step]
                losses.append(_step(model, optimizer, rows_of_step, section.batch_size))
                if told:
                    told(whole + 1, epochs * steps, losses[-1])
        epoch = Epoch(number, len(rows), len(every) - len(rows), steps, sum(losses) / steps)
        done = (*done, epoch)
        _keep(into, model, tokenizer, None if number == epochs else optimizer, done, start)
        if kept:
            kept(epoch, into / f"epoch-{number}")
    return FineTuned(into / f"epoch-{len(done)}", done)


def newest_epoch(into: Path) -> Path | None:
    """The model after the newest finished epoch of a tuning that is kept in this folder; None where there is none."""
    done = _finished(into)
    return into / f"epoch-{len(done)}" if done else None


def _step(model: Any, optimizer: torch.optim.Optimizer, rows: Sequence[Row], size: int) -> float:
    """One optimizer step on all rows, `size` of them on the device at once; the loss, nats a token."""
    tokens = sum(len(learned) for _, learned in rows)
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    device = next(model.parameters()).device.type
    optimizer.zero_grad()
    whole = 0.0
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        # Every token weighs the same, however rows are shared out among batches.
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            loss = answer_loss(inner, part) * (sum(len(learned) for _, learned in part) / tokens)
        torch.autograd.backward(loss)
        whole += loss.item()
    if not math.isfinite(whole):
        raise PolicyError(
            f"The loss of fine-tuning became {whole}: the weights are no use any more.",
            "Lower sft.learning_rate, and begin again.",
        )
    torch.nn.utils.clip_grad_norm_([one for group in optimizer.param_groups for one in group["params"]], 1.0)
    optimizer.step()
    return whole


def _share_of_rate(step: int, steps: int) -> float:
    """Of the largest learning rate: rises, then falls in a straight line to 0 after the last step."""
    rising = max(1, round(_RISING_SHARE * steps))
    return min((step + 1) / rising, (steps - step) / max(steps - rising, 1), 1.0)


def _finished(into: Path) -> tuple[Epoch, ...]:
    path = into / _EPOCHS
    return tuple(Epoch(**one) for one in json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else ()


def _keep(
    into: Path,
    model: Any,
    tokenizer: Any,
    optimizer: torch.optim.Optimizer | None,
    done: tuple[Epoch, ...],
    start: Path,
) -> None:
    """Write a finished epoch. `epochs.json` comes after the rest, so what it names is whole."""
    folder = into / f"epoch-{len(done)}"
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if hasattr(model, "get_base_model"):
            adapters.keep_adapters(model, folder / ADAPTER)
            adapters.merge(start, folder / ADAPTER, folder)
        else:
            models.save(folder, model, tokenizer)
        if optimizer is not None:
            torch.save(optimizer.state_dict(), folder / _OPTIMIZER)
        replace_file(into / _EPOCHS, json.dumps([asdict(one) for one in done], indent=1))
    except OSError as error:
        raise CheckpointError(
            f"Epoch {len(done)} cannot be kept in {folder}: {error.strerror or error}.",
            "Make room there; the same command then goes on from the epoch before.",
        ) from error
    shutil.rmtree(into / f"epoch-{len(done) - 1}", ignore_errors=True)
