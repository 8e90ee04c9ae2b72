"""What a run tells about itself: measures of its conversations, one line of JSON a step, TensorBoard, wandb.

A *measure* is a number with a name such as `pass_rate` or `reward/optimizer`; one that nobody could measure is left
out, never 0. Shares are in [0, 1]. The names and their meanings are in `MEASURES`, which docs/training.md repeats.
"""

import json
import math
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import fmean, geometric_mean, median
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from common.contract import Status
from common.file_replacement import replace_file
from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import AgentName, Attempt, Conversation, EndReason
from trainer.errors import TrainerError

FILE: Final = "metrics.jsonl"
Kind = Literal["train", "held_out"]

MEASURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "conversations": "conversations that the others are taken over",
        "left_out": "conversations left out because an evaluation failed on our side",
        "reward/final": "mean of what a conversation's best kernel is worth by the Generator's reward",
        "reward/generator": "mean immediate reward of the Generator's kernels",
        "reward/optimizer": "mean immediate reward of the Optimizer's kernels",
        "compile_rate": "share of the answers whose kernel compiles",
        "pass_rate": "share of the conversations in which a kernel is right",
        "pass_rate/first": "share of the conversations whose first kernel is right",
        "pass_rate/generator": "share of the Generator's answers that are right",
        "pass_rate/optimizer": "share of the Optimizer's answers that are right",
        "speedup/over_naive": "median, over conversations, of the best estimated speedup over the naive kernel",
        "speedup/measured": "median, over conversations, of the best speedup measured on a GPU (lower end)",
        "speedup/over_given": "geometric mean, over the Optimizer's right kernels, of their speed over the kernel "
        "before them, where that was right too",
        "regression_rate": "share of the kernels right at all published sizes tried that fail at a held-out one",
        "turns": "mean number of kernels in a conversation",
        "early_stop_rate": "share of the conversations that ended because a kernel was good enough",
        "repeat_rate": "share of the conversations that ended because a kernel was repeated",
        "format_error_rate": "share of the answers in which there is no kernel",
        "cut_rate": "share of the answers that the length limit cut off",
        "answer_tokens": "mean tokens of an answer",
        "oracle_s": "mean seconds that a conversation waited for the evaluator",
        "generation_share": "share of a step's time in generation",
        "reward_share": "share of a step's time waiting for the evaluator, beyond what generation hides",
        "update_share": "share of a step's time in updates of policy and critic",
        "gpu/busy_share": "share of a step's time in which a GPU of this machine was busy, mean over its GPUs",
        "gpu/memory_gib": "most memory taken on any of these GPUs in a step, by whatever runs there, in GiB",
    }
)


class MetricsError(TrainerError):
    """Measures cannot be written or read."""


def training_measures(conversations: Sequence[Conversation], left_out: int = 0) -> dict[str, float]:
    """The measures of conversations that are over. `left_out`: how many more there were without a verdict."""
    attempts = [attempt for one in conversations for attempt in one.attempts if attempt.tested is not None]
    best = [max(_estimates(one), default=None) for one in conversations]
    measured = [max(_measured(one), default=None) for one in conversations]
    responses = [attempt.written.response for attempt in attempts if attempt.written.response]
    ended = [one.ended for one in conversations]
    found: dict[str, float | None] = {
        "conversations": len(conversations),
        "left_out": left_out,
        "reward/final": _mean([one.final_reward for one in conversations]),
        "compile_rate": _mean([compiled(attempt) for attempt in attempts]),
        "pass_rate": _mean([any(attempt.passed for attempt in one.attempts) for one in conversations]),
        "pass_rate/first": _mean([one.attempts[0].passed for one in conversations if one.attempts]),
        "speedup/over_naive": _median(best),
        "speedup/measured": _median(measured),
        "speedup/over_given": _geometric_mean([gain for one in conversations for gain in gains(one)]),
        "regression_rate": _mean([regressed(attempt) for attempt in attempts]),
        "turns": _mean([len(one.attempts) for one in conversations]),
        "early_stop_rate": _mean([reason is EndReason.GOOD_ENOUGH for reason in ended]),
        "repeat_rate": _mean([reason is EndReason.REPEATED for reason in ended]),
        "format_error_rate": _mean([attempt.written.format_problem is not None for attempt in attempts]),
        "cut_rate": _mean([response.cut for response in responses]),
        "answer_tokens": _mean([len(response.token_ids) for response in responses if response.token_ids]),
        "oracle_s": _mean([sum(turn.oracle_s for turn in one.turns) for one in conversations]),
    }
    for agent in (AgentName.GENERATOR, AgentName.OPTIMIZER):
        own = [attempt for attempt in attempts if attempt.written.agent is agent]
        found[f"reward/{agent}"] = _mean([attempt.value for attempt in own])
        found[f"pass_rate/{agent}"] = _mean([attempt.passed for attempt in own])
    return {name: float(value) for name, value in found.items() if value is not None}


def shares_of_time(generation_s: float, reward_s: float, update_s: float, step_s: float) -> dict[str, float]:
    """Where a step's `step_s` seconds went. `reward_s` counts only what generation did not hide."""
    if step_s <= 0:
        return {}
    return {
        "generation_share": generation_s / step_s,
        "reward_share": reward_s / step_s,
        "update_share": update_s / step_s,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _geometric_mean(values: Sequence[float]) -> float | None:
    return geometric_mean(values) if values and min(values) > 0 else None


def gains(one: Conversation) -> Iterator[float]:
    """Of each right kernel of the Optimizer: how many times as fast it is as the kernel before it, if that was right
    too. A repeat is as fast.
    """
    for before, attempt in pairwise(one.attempts):
        now, given = attempt.speedup, before.speedup
        if attempt.written.agent is AgentName.OPTIMIZER and now is not None and given:
            yield now / given


def _estimates(one: Conversation) -> Iterator[float]:
    for attempt in one.attempts:
        profile = attempt.verdict.profile if attempt.verdict else None
        if attempt.passed and profile and profile.estimated_speedup is not None:
            yield profile.estimated_speedup


def _measured(one: Conversation) -> Iterator[float]:
    for attempt in one.attempts:
        timing = attempt.verdict.timing if attempt.verdict else None
        if attempt.passed and timing:
            yield timing.speedup_low


def compiled(attempt: Attempt) -> bool:
    """Whether there is a kernel, and the compiler took it."""
    compilation = attempt.verdict.compile if attempt.verdict else None
    return compilation is not None and bool(compilation.succeeded)


def regressed(attempt: Attempt, held_out: Mapping[str, int] | None = None) -> bool | None:
    """Whether a kernel that is right at all published sizes fails at a held-out one; `held_out`: sizes that count as
    such too. None for one that was not tried at any, or was wrong at a published one before.
    """
    correctness = attempt.verdict.correctness if attempt.verdict else None
    if correctness is None or attempt.verdict is None or attempt.verdict.status is Status.INTERNAL_ERROR:
        return None
    hidden = [one.passed for one in correctness.trials if one.hidden or one.sizes == held_out]
    public = [one.passed for one in correctness.trials if not (one.hidden or one.sizes == held_out)]
    if not hidden or not all(public):
        return None
    return not all(hidden)


class MetricsWriter:
    """Writes one run's measures. `with`, or `close` at the end. One process a run has one."""

    def __init__(self, folder: Path, config: TrainingConfig, *, resumed_step: int | None = None) -> None:
        """`resumed_step`: the step of the checkpoint that the run goes on from; what was written after it is dropped,
        because those steps are done again. None begins anew.

        Raises MetricsError where the folder cannot be written or a wanted library is missing.
        """
        self._path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True)
            kept = (
                [line for line in read_measures(folder) if line["step"] <= resumed_step]
                if resumed_step is not None
                else []
            )
            replace_file(self._path, "".join(json.dumps(line) + "\n" for line in kept))
            self._file = self._path.open("a", encoding="utf-8")
        except OSError as error:
            raise MetricsError(
                f"{self._path} cannot be written: {error.strerror}.", "Name another checkpointing.folder."
            ) from error
        self._board = _tensorboard(folder, resumed_step) if config.logging.tensorboard else None
        self._wandb = _wandb(folder, config, resumed_step) if config.logging.wandb != "off" else None

    def __enter__(self) -> "MetricsWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def write(self, step: int, values: Mapping[str, float], kind: Kind = "train") -> None:
        """One line: the measures of a step, or of an evaluation on held-out tasks. Numbers that are none are left
        out, since JSON has no word for them.
        """
        known = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        line = {"step": step, "kind": kind, "time_s": round(time.time(), 3), **known}
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        if self._board is not None:
            for name, value in known.items():
                self._board.add_scalar(f"{kind}/{name}", value, step)
            self._board.flush()
        if self._wandb is not None:
            self._wandb.log({f"{kind}/{name}": value for name, value in known.items()} | {"step": step})

    def close(self) -> None:
        """Finish every file. May be called twice."""
        self._file.close()
        if self._board is not None:
            self._board.close()
        if self._wandb is not None:
            self._wandb.finish()
            self._wandb = None


def read_measures(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run, in order; a last line that was cut off is left out. None of a folder without any.

    Raises MetricsError for a line in the middle that is none.
    """
    path = folder / FILE
    if not path.is_file():
        return []
    # A disk that was not written to its end may hold anything there.
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    found = []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            value = json.loads(line)
            if not isinstance(value, dict) or not isinstance(value.get("step"), int):
                raise ValueError("it has no step")
            if value.get("kind") not in get_args(Kind):
                raise ValueError(f"its kind is {value.get('kind')}")
            if other := [name for name, one in value.items() if name != "kind" and not isinstance(one, int | float)]:
                raise ValueError(f"{', '.join(other)} is no number")
        except ValueError as error:
            if number == len(lines):
                break
            raise MetricsError(f"{path}, line {number}, is no line of measures: {error}.") from error
        found.append(value)
    return found


def evaluated(folder: Path, step: int) -> bool:
    """Whether a run has measures of the evaluation after a step. Raises as `read_measures` does."""
    return any(line["step"] == step and line["kind"] == "held_out" for line in read_measures(folder))


def _tensorboard(folder: Path, resumed_step: int | None) -> Any:
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError as error:
        raise MetricsError(
            f"TensorBoard's files cannot be written: {error}.",
            "Install it (pip install tensorboard), or set logging.tensorboard=false.",
        ) from error
    place = folder / "tensorboard"
    if resumed_step is None:
        with suppress(FileNotFoundError):
            shutil.rmtree(place)
    return SummaryWriter(str(place), purge_step=None if resumed_step is None else resumed_step + 1)


def _wandb(folder: Path, config: TrainingConfig, resumed_step: int | None) -> Any:
    try:
        import wandb
    except ImportError as error:
        raise MetricsError(
            f"Weights & Biases cannot be used: {error}.", "Install it (pip install wandb), or set logging.wandb=off."
        ) from error
    online = config.logging.wandb == "online"
    run = wandb.init(
        project=config.logging.wandb_project,
        name=config.name,
        dir=folder,
        mode="online" if online else "offline",
        id=None if not online else f"{config.name}-{config.seed}",
        resume="allow" if online and resumed_step is not None else None,
        config=config.model_dump(mode="json"),
        settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
    )
    # Steps that are done again after a resumption come twice; wandb's own counter would refuse them.
    run.define_metric("*", step_metric="step")
    return run
