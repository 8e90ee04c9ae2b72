"""Episodes to the first kernel that passes, with and without the critique's tiny warm start.

    python benchmarks/training/warm_start.py                     # a tiny model from nothing, on the CPU
    python benchmarks/training/warm_start.py --model smollm2     # a pretrained one; on a GPU with --device cuda

The warm start is the ready configuration `warm-start`: 1,000 examples each of `relu` (element-wise), `row_sum` (a
reduction) and `softmax` for two epochs, made and tuned by `trainer.tuning.phases` as `assay-train run --config
warm-start` does it. Asked are wordings that are held out. An episode is one answer to one prompt; nothing is learned
between episodes. `--models` are seeds of weights, examples and their order, `--plays` seeds of the sampling for each.
In a play each problem is asked `--episodes` times, so a first pass that does not come is "not within" that many.
`overall` asks the problems by turns.

The table has the first passes, the figures also the share of all episodes that passed and, from its 95 % interval
(Wilson), how many times fewer episodes the warm start takes at least: the critique says "Cuts episodes to first pass
by ~5-10x".
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median_low

import torch
from rich.console import Console
from rich.table import Table

from benchmarks._support.graders import gpu_versions
from benchmarks._support.record import save
from benchmarks._support.served import served
from common.client import AsyncClient
from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig
from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import episode_settings, play_many
from trainer.data.tasks import Task, chosen, held_out_tasks
from trainer.errors import OracleError
from trainer.evaluation.statistics import wilson
from trainer.evaluator.oracle import EvaluatorOracle, oracle_settings
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.tuning import phases

NAME = "warm_start"
STATES = ("without", "with")
OVERALL = "overall"
SETTINGS = (
    "evaluator.backend=sim",
    "evaluator.verification=quick",
    "rollout.evaluation_temperature=1.0",
    "sft.evaluation_tasks=6",
)
ON_CPU = ("resources.device=cpu", "resources.gpus_per_node=0", "model.dtype=float32", "model.attention=eager")
TINY = (
    "model.name=tiny",
    # Adapters have nothing to work with over random weights.
    "sft.method=full",
    "sft.learning_rate=3e-3",
    # Its tokens are whole expressions: of the right kernels none takes more than 88.
    "tasks.wording=brief",
    "rollout.turn_tokens=128",
)


@dataclass
class Episodes:
    """Which episodes passed, by problem, then play."""

    passed: dict[str, list[list[bool]]] = field(default_factory=dict)
    left_out: int = 0
    """Episodes without a verdict, by the evaluator's own fault; in none of the plays."""

    def first_passes(self, problem: str) -> list[int | None]:
        """The number of the first episode that passed, from 1 on; None where there was none in the play."""
        return [next((number for number, one in enumerate(play, 1) if one), None) for play in self.plays(problem)]

    def plays(self, problem: str) -> list[list[bool]]:
        """The plays of a problem; of `OVERALL`, all problems by turns."""
        if problem != OVERALL:
            return self.passed[problem]
        return [
            [one for turn in zip(*plays, strict=False) for one in turn]
            for plays in zip(*self.passed.values(), strict=True)
        ]

    def counts(self, problem: str) -> tuple[int, int]:
        """Episodes that passed, and all."""
        plays = self.plays(problem)
        return sum(map(sum, plays)), sum(map(len, plays))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="folder of a pretrained model; else a tiny one from nothing")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--models", type=int, default=3, help="seeds of model, examples and tuning")
    parser.add_argument("--plays", type=int, default=5, help="seeds of the sampling, for each model")
    parser.add_argument("--episodes", type=int, default=64, help="of each problem in each play")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the evaluator")
    parser.add_argument("--folder", type=Path, help="keep data and models here, and go on with those that are there")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings of the warm start")
    given = parser.parse_args()
    told = [f"model.name={given.model.absolute()}"] if given.model else list(TINY)
    told = [*SETTINGS, *(ON_CPU if given.device == "cpu" else ()), *told, *given.settings]
    began_s = time.monotonic()
    found = {state: Episodes() for state in STATES}
    with tempfile.TemporaryDirectory(prefix="assay-warm-start-") as scratch, served(given.workers) as service:
        folder = given.folder or Path(scratch)
        tuning_s, afresh = 0.0, True
        for seed in range(given.models):
            asked = [*told, f"seed={seed}", "evaluator.embedded=false", f"evaluator.url={service.url}"]
            config = load_config("warm-start", asked)
            # Of its own, since a tiny model is made in it too.
            place = folder / f"seed-{seed}"
            afresh = afresh and not place.exists()
            tuning_began_s = time.monotonic()
            tuned = phases.tune(config, place, _say)["generator"]
            tuning_s += time.monotonic() - tuning_began_s
            start = given.model or next(place.glob("generator-start-*"))
            for state, model in zip(STATES, (start, tuned), strict=True):
                asyncio.run(play(config, model, found[state], given, seed))
                _say(f"Model {seed + 1} of {given.models}, {state} the warm start: played.")
            figures = compared(found)
            figures |= {"seconds": time.monotonic() - began_s}
            # What was there already took none.
            figures |= {"tuning_seconds": tuning_s} if afresh else {}
            _save(found, figures, told, given, quiet=True)
    show(found, given.episodes)
    _save(found, figures, told, given, quiet=False)


async def play(config: TrainingConfig, model: Path, found: Episodes, given: argparse.Namespace, seed: int) -> None:
    """All plays of one model, added to `found`."""
    together = 128 if given.device == "cpu" else 512
    sampling = SamplingSettings(config.rollout.evaluation_temperature, batch_size=together)
    policies = {AgentName.GENERATOR: LocalPolicy(model, sampling, device=given.device)}
    settings = replace(episode_settings(config), flow=Flow(1, single_agent=True))
    client = AsyncClient(config.evaluator.url, patience_s=config.evaluator.patience_s)
    async with EvaluatorOracle(client, oracle_settings(config.evaluator)) as oracle:
        await oracle.wait_until_ready(_say)
        faces = chosen(await oracle.problems(), config.tasks.problems)
        asked: list[tuple[Task, int]] = []
        for face in faces:
            tasks = held_out_tasks([face], given.episodes, wording=config.tasks.wording)
            for number in range(given.plays):
                # Each play asks all of them, in an order of its own.
                order = tasks[number:] + tasks[:number]
                base = (seed * given.plays + number) * given.episodes
                asked += [(task, base + at) for at, task in enumerate(order)]
        played = await play_many(asked, policies, oracle, settings, concurrency=together)
    outcomes = iter(played.conversations)
    for face in faces:
        for _ in range(given.plays):
            one = [next(outcomes) for _ in range(given.episodes)]
            whole = [ended for ended in one if not isinstance(ended, OracleError)]
            found.passed.setdefault(face.id, []).append(
                [any(one.passed for one in ended.attempts) for ended in whole]
            )
            found.left_out += len(one) - len(whole)


def compared(found: Mapping[str, Episodes]) -> dict[str, float]:
    """The figures of what was played."""
    figures: dict[str, float] = {}
    for problem in (*found[STATES[0]].passed, OVERALL):
        intervals = {}
        for state, episodes in found.items():
            if problem not in (*episodes.passed, OVERALL) or not episodes.passed:
                continue
            firsts, (passed, of) = episodes.first_passes(problem), episodes.counts(problem)
            name = f"{problem}_{state}"
            figures[f"{name}_plays"] = len(firsts)
            figures[f"{name}_plays_with_a_pass"] = sum(first is not None for first in firsts)
            middle = median_low([first or torch.inf for first in firsts])
            if middle != torch.inf:
                figures[f"{name}_first_pass_median"] = middle
            figures[f"{name}_passed_share"] = passed / of
            intervals[state] = wilson(passed, of)
        if len(intervals) == len(STATES):
            low, high = intervals["with"][0], intervals["without"][1]
            figures[f"{problem}_times_fewer_at_least"] = low / high
            if without := figures[f"{problem}_without_passed_share"]:
                figures[f"{problem}_times_fewer"] = figures[f"{problem}_with_passed_share"] / without
    return figures


def show(found: Mapping[str, Episodes], most: int) -> None:
    """Print the first passes."""
    table = Table("problem", *(f"{state} the warm start" for state in STATES), title="Episodes to the first pass")
    for problem in (*found[STATES[0]].passed, OVERALL):
        cap = most * (len(found[STATES[0]].passed) if problem == OVERALL else 1)
        table.add_row(problem, *(_said(found[state].first_passes(problem), cap) for state in STATES))
    Console().print(table)


def _said(firsts: Sequence[int | None], most: int) -> str:
    numbers = sorted(first for first in firsts if first is not None)
    missing = len(firsts) - len(numbers)
    said = [", ".join(map(str, numbers))] if numbers else []
    return "; ".join([*said, *([f"not within {most}: {missing} of {len(firsts)} plays"] if missing else [])])


def _save(
    found: Mapping[str, Episodes],
    figures: Mapping[str, float],
    told: Sequence[str],
    given: argparse.Namespace,
    *,
    quiet: bool,
) -> None:
    save(
        NAME,
        figures,
        {f"{OVERALL}_times_fewer_at_least": (">=", 5.0)},
        {"torch": torch.__version__, **gpu_versions()},
        device=torch.cuda.get_device_name() if given.device == "cuda" else "no GPU",
        details={
            "settings": ["--config warm-start", *told],
            "episodes": given.episodes,
            "left_out": {state: episodes.left_out for state, episodes in found.items()},
            "first_passes": {
                state: {problem: episodes.first_passes(problem) for problem in (*episodes.passed, OVERALL)}
                for state, episodes in found.items()
                if episodes.passed
            },
        },
        quiet=quiet,
    )


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    main()
