"""Do tuned agents learn to write faster kernels where kernels are really timed? On one machine with an NVIDIA GPU.

    python benchmarks/training/rl_on_gpu.py --folder runs                  # about 25 minutes
    python benchmarks/training/rl_on_gpu.py --folder runs --seconds 560    # stops then; the same command goes on
    python benchmarks/training/rl_on_gpu.py --folder runs --figures        # of what is there, on any machine
    python benchmarks/training/rl_on_gpu.py --folder runs --simulator      # the same in small on a CPU

In order: the templates of nine problems, and variants of the right ones in other blocks, are graded on the GPU, so
that each problem has a ladder of slow and fast kernels; two tiny models learn from those of six problems, one to
write kernels, one to make them faster (three problems are held out whole); untuned and tuned models answer held-out
prompts; both learn by PPO on timed rewards, first with one kernel of each agent in a conversation, then with two of
the Optimizer's; the models that came of it answer the same prompts.

The Generator is paid for being right and hardly for speed. The Optimizer is paid for the speedup that it gains over
the best kernel before it. Advantages compare a turn with the same turn of the other candidates of its prompt: there
is no critic. Weights, optimizer state and measures are kept in the folder. Beside the results lie the weights of both
agents and all that was measured (`rl_on_gpu.tar.gz`, a few MB): unpacked into an empty folder they are what the same
command goes on from, with a new optimizer and with these weights as what the KL term compares with.
"""

import argparse
import asyncio
import json
import math
import os
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from statistics import fmean, median
from typing import Any

import torch

from benchmarks._support.graders import gpu_versions
from benchmarks._support.record import RESULTS, save
from benchmarks._support.served import served
from benchmarks._support.trained import Trained, played
from common.client import AsyncClient
from trainer.config.reading import load_config
from trainer.config.schema import AgentRole, TrainingConfig
from trainer.conversation.conversation import AgentName, Attempt, Flow, Message, Response
from trainer.conversation.episode import Policy, episode_settings, play_many
from trainer.conversation.extraction import wrapped
from trainer.data import corpus, graded
from trainer.data.graded import GradedData, GradedKernel, Provenance, faster_by
from trainer.data.tasks import Task, chosen, held_out_tasks, training_tasks
from trainer.evaluation.statistics import geometric_interval, median_interval, wilson
from trainer.evaluator.oracle import EvaluatorOracle, OracleSettings
from trainer.policies import models
from trainer.policies.fine_tuning import fine_tune
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.reporting import curves
from trainer.reporting.metrics import compiled
from trainer.tuning import collection, examples

NAME = "rl_on_gpu"
ROLES: tuple[AgentRole, ...] = ("generator", "optimizer")
KNOWN = ("vector_add", "relu", "row_sum", "softmax", "transpose", "histogram")
NEW = ("matvec", "gelu", "saxpy")
"""Held out whole: nobody learns from a kernel for them, or is asked for one."""
BLOCKS = (32, 64, 128, 512, 1024)
"""Threads of a block where a template has 256 and its text does not hang on it."""
LEAST_GAIN = 1.3
"""A kernel that the Optimizer is given to improve: another one is so many times as fast."""
STARTED = "weights"
"""Below the folder: weights that a machine before this one left."""
SETTINGS = (
    "name=rl",
    "agents.generator.reward=components",
    "agents.optimizer.reward=speedup",
    "reward.shaping={compilation: 0.3, correctness: 0.6, performance: 0.05, efficiency: 0.0, code_quality: 0.05}",
    "agents.generator.learning_rate=2e-4",
    "agents.optimizer.learning_rate=1e-4",
    "model.warm_start.steps=0",
    "algorithm.name=ppo",
    "algorithm.advantage=turn",
    "algorithm.prompts_per_step=16",
    "algorithm.candidates=8",
    "algorithm.mini_batch_size=4",
    "algorithm.micro_batch_size=32",
    "algorithm.kl_coefficient=0.01",
    "flow.max_turns=3",
    "flow.single_turn_steps=12",
    "flow.early_stop_share=1.0",
    "flow.credit=false",
    "flow.optimizer_earns=gain",
    "tasks.held_out=60",
    f"tasks.problems=[{','.join(KNOWN)}]",
    "rollout.prompt_tokens=448",
    "rollout.turn_tokens=128",
    "rollout.update_tokens=256",
    "rollout.sequence_tokens=1152",
    "evaluator.embedded=false",
    "evaluator.concurrency=32",
    "evaluator.timing_precision=0.03",
    "checkpointing.every_episodes=512",
    "checkpointing.evaluate_every_episodes=1000000",
    "checkpointing.evaluate_at_start=false",
    "checkpointing.keep=1",
    "logging.transcripts_share=0.05",
    "sft.examples=1200",
    "sft.epochs=4",
    "sft.batch_size=16",
    "sft.gradient_accumulation_steps=1",
    "sft.learning_rate=3e-3",
)
ON_GPU = ("evaluator.backend=gpu", "resources.device=cuda", "resources.gpus_per_node=1", "resources.threads=4")
IN_SMALL = (
    "evaluator.verification=quick",
    "algorithm.prompts_per_step=4",
    "algorithm.candidates=4",
    "algorithm.micro_batch_size=8",
    "flow.single_turn_steps=1",
    "checkpointing.every_episodes=16",
    "tasks.held_out=8",
)
AT_A_RATE = {"ASSAY_JOBS_PER_RUNNER": "100"}
"""Of the evaluator: a CUDA context serves so many kernels."""
LIKELY_TURNS = 2.1
"""Kernels of a conversation, rather too few."""
RESERVED_S = 45.0
"""Of the seconds that are given: for the step under way, its checkpoint, and the end."""
MEASURED_S = 100.0
"""That the answers of one system are given."""


class OutOfTimeError(Exception):
    """What comes next would not fit into the seconds that are given."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="where everything is kept, or comes")
    parser.add_argument("--kernels", type=int, default=10_000, help="that the agents write while they learn")
    parser.add_argument("--prompts", type=int, default=200, help="held-out prompts of each kind")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the evaluator")
    parser.add_argument("--seconds", type=float, help="stop after so long; a later call goes on")
    parser.add_argument("--before", action="store_true", help="end before the reinforcement learning")
    parser.add_argument("--last", action="store_true", help="keep time for the last measurement, however far it got")
    parser.add_argument("--simulator", action="store_true", help="in small, on a CPU")
    parser.add_argument("--figures", action="store_true", help="only the figures of what is there")
    parser.add_argument("--device", default="", help="with --figures: what it ran on")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings")
    given = parser.parse_args()
    trial = Trial(given)
    if given.figures:
        trial.save(quiet=False)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    with served(given.workers, settings={} if given.simulator else AT_A_RATE) as service:
        try:
            trial.run(service.url)
        except OutOfTimeError as late:
            print(f"Stopped: {late} The same command goes on.", flush=True)
    trial.keep()
    trial.save(quiet=False)


@dataclass(frozen=True)
class Asked:
    """One set of held-out prompts, and how they are asked."""

    name: str
    tasks: tuple[Task, ...]
    temperature: float
    given: bool = False
    """Whether the first kernel is a slow one of the data set, not the Generator's."""


class Trial:
    """Everything, in order; `run` goes on from what the folder has."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given, self.folder = given, given.folder.absolute()
        self.began_s = time.monotonic()
        self.cuda = not given.simulator
        self.settings = [*SETTINGS, *(ON_GPU if self.cuda else IN_SMALL), *given.settings]
        self.config = self._config()
        self.episodes = episode_settings(self.config)
        self.told: dict[str, Any] = {}

    def run(self, url: str) -> None:
        """Raises OutOfTimeError."""
        self.url = url
        data = self._once("graded", 120, lambda: asyncio.run(self._graded()))
        starts, tuned = self._once("tuned", 90, lambda: self._tuned(data))
        self._measured("untuned", starts, data)
        self._measured("tuned", tuned, data)
        if self.given.before:
            return
        try:
            self._reinforced(tuned)
        except OutOfTimeError as late:
            if not (self.given.last and self.lines()):
                raise
            print(f"What has been learned is measured: {late}", flush=True)
        self._measured("reinforced", {role: self._weights(role) for role in ROLES}, data)

    def _config(self, *more: str) -> TrainingConfig:
        return load_config("cpu-demo", [*self.settings, f"checkpointing.folder={self.folder}/{{name}}", *more])

    def _left_s(self) -> float:
        limit_s = self.given.seconds or float("inf")
        return float(limit_s - (time.monotonic() - self.began_s))

    def _once(self, what: str, needs_s: float, make: Callable[[], Any]) -> Any:
        if self._left_s() < needs_s:
            raise OutOfTimeError(f"{self._left_s():.0f} s are left, and what comes next ({what}) takes longer.")
        began_s = time.monotonic()
        found = make()
        print(f"{what}: {time.monotonic() - began_s:.0f} s, {self._left_s():.0f} s left", flush=True)
        return found

    async def _graded(self) -> GradedData:
        async with self._oracle() as oracle:
            await oracle.wait_until_ready()
            self.faces = await oracle.problems()
            into = self.folder / "data"
            card = await collection.collect(
                candidates(), into, oracle, self.episodes, held_out_problems=frozenset(NEW), tell=print
            )
            print(f"{card.kernels} kernels are graded, {card.rejected} not kept, {card.faults} faults.", flush=True)
        return graded.read_data(into)

    def _tuned(self, data: GradedData) -> tuple[dict[AgentRole, Path], dict[AgentRole, Path]]:
        """The models that both agents begin with, and those that they were tuned to."""
        section, starts, tuned = self.config.sft, {}, {}
        asked = training_tasks(chosen(self.faces, KNOWN), self.config.tasks.variants, wording="brief")
        started = self.folder / STARTED
        for role in ROLES:
            found = examples.examples_of(
                AgentName(role),
                data,
                asked,
                self.episodes,
                count=section.examples,
                seed=self.config.seed,
                factor=section.improvement,
            )
            lessons = [one.lesson for one in found]
            start = starts[role] = self.folder / f"{role}-start"
            if started.is_dir():
                tuned[role] = started / role
                continue
            if not (start / "config.json").is_file():
                models.make_tiny(start, [said.text for one in lessons for said in one.messages], seed=0)
            into, device = self.folder / f"{role}-tuned", "cuda" if self.cuda else "cpu"
            made = fine_tune(
                start, into, lessons, section, epochs=section.epochs, seed=self.config.seed, device=device
            )
            print(f"{role}: {len(lessons)} lessons, loss {made.epochs[-1].loss:.3f}", flush=True)
            tuned[role] = made.folder
        return starts, tuned

    def _measured(self, system: str, agents: Mapping[AgentRole, Path], data: GradedData) -> None:
        """Answers to all held-out prompts, kept once they are all there."""
        path = self.folder / f"measured_{system}.json"
        if path.is_file():
            return
        found = self._once(f"measured {system}", MEASURED_S, lambda: asyncio.run(self._answers(system, agents, data)))
        path.write_text(json.dumps(found))
        self.save()

    async def _answers(self, system: str, agents: Mapping[AgentRole, Path], data: GradedData) -> list[dict[str, Any]]:
        known, new = (
            held_out_tasks(chosen(self.faces, names), self.given.prompts, wording="brief") for names in (KNOWN, NEW)
        )
        sets = (
            Asked("known", known, 0.0),
            Asked("new", new, 0.0),
            Asked("known_drawn", known, 1.0),
            Asked("known_given", known, 0.0, given=True),
            Asked("new_given", new, 0.0, given=True),
        )
        naive = {kernel.problem: kernel for kernel in data.kernels if _is_naive(kernel)}
        pair = replace(self.episodes, flow=Flow(2, stop_at=1000.0))
        lines: list[dict[str, Any]] = []
        async with self._oracle() as oracle:
            # Who has learned nothing writes no kernel: two sets say so.
            for asked in sets[:2] if system == "untuned" else sets:
                sampling = SamplingSettings(asked.temperature, 256 if self.cuda else 16)
                device = "cuda" if self.cuda else "cpu"
                policies: dict[AgentName, Policy] = {
                    AgentName(role): LocalPolicy(folder, sampling, device=device) for role, folder in agents.items()
                }
                tasks: Sequence[Task] = asked.tasks
                if asked.given:
                    slow = dict(_slow(data, tasks))
                    policies[AgentName.GENERATOR] = Giving(slow)
                    tasks = [task for task in tasks if task.text in slow]
                played = await play_many(
                    [(task, number) for number, task in enumerate(tasks)], policies, oracle, pair, concurrency=256
                )
                print(f"  {asked.name}: {len(played.whole)} conversations, {played.faults} faults", flush=True)
                for one in played.whole:
                    line = {"asked": asked.name, "task": one.task.id, "problem": one.task.problem}
                    reference = naive.get(one.task.problem)
                    lines.append(line | {"attempts": [_told(each, reference) for each in one.attempts]})
                lines += [{"asked": asked.name, "left_out": True}] * played.faults
        return lines

    def _reinforced(self, tuned: Mapping[AgentRole, Path]) -> None:
        """Policy steps until there are enough kernels."""
        began = [f"agents.{role}.model_name={folder}" for role, folder in tuned.items()]
        began.append(f"flow.single_turn_steps={max(self.config.flow.single_turn_steps - len(self._before()), 0)}")
        while (left := self.given.kernels - self._kernels()) > 0:
            done = self._run_so_far().kept_step()
            steps = done + math.ceil(left / (self.config.episodes_per_step * LIKELY_TURNS))
            time_s = self._left_s() - RESERVED_S - (MEASURED_S if self.given.last else 0)
            if time_s < 2 * RESERVED_S:
                raise OutOfTimeError(f"{left} kernels are to be written yet.")
            told = [*self.settings, *began, f"checkpointing.folder={self.folder}/{{name}}"]
            told += [f"evaluator.url={self.url}", f"algorithm.steps={steps}", "sft.examples=0"]
            if not played(told, None if self.given.seconds is None else time_s):
                raise OutOfTimeError(f"{self.given.kernels - self._kernels()} kernels are to be written yet.")

    def _run_so_far(self) -> Trained:
        return Trained(self.config, self.folder / "rl", 0.0)

    def _weights(self, role: AgentRole) -> Path:
        """The newest of an agent that has learned by reinforcement."""
        run = self._run_so_far()
        return run.weights(role) if run.kept_step() else self.folder / STARTED / role

    def lines(self) -> list[Mapping[str, Any]]:
        """Measures of all policy steps that are kept, those on a machine before this one first."""
        old = self._before()
        run = self._run_so_far()
        new = run.lines("train") if run.folder.is_dir() else []
        past = max((line["step"] for line in old), default=0)
        return [*old, *({**line, "step": line["step"] + past} for line in new if line["step"] <= run.kept_step())]

    def _before(self) -> list[Mapping[str, Any]]:
        """Those on a machine before this one."""
        path = self.folder / STARTED / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def _kernels(self) -> int:
        """Kernels that were judged for steps whose weights are kept."""
        answers = ((line["conversations"] * line["turns"], line["format_error_rate"]) for line in self.lines())
        return round(math.fsum(count * (1 - without) for count, without in answers))

    def keep(self) -> None:
        """Weights, data and measures beside the results: what another machine goes on from."""
        RESULTS.mkdir(parents=True, exist_ok=True)
        lines = self.lines()
        with tarfile.open(RESULTS / f"{NAME}.tar.gz", "w:gz") as tar:
            for path in (*self.folder.glob("measured_*.json"), self.folder / "data"):
                if path.exists():
                    tar.add(path, path.name)
            if not lines:
                return
            measures = self.folder / "kept.jsonl"
            measures.write_text("".join(json.dumps(line) + "\n" for line in lines))
            tar.add(measures, f"{STARTED}/metrics.jsonl")
            for role in ROLES:
                tar.add(self._weights(role), f"{STARTED}/{role}")

    def save(self, *, quiet: bool = True) -> None:
        """Figures, goals and picture of what there is."""
        figures: dict[str, float] = {}
        for system in ("untuned", "tuned", "reinforced"):
            path = self.folder / f"measured_{system}.json"
            if path.is_file():
                figures |= dict(_figures(system, json.loads(path.read_text())))
        if lines := self.lines():
            figures |= _training(lines) | {"kernels": self._kernels()}
            RESULTS.mkdir(parents=True, exist_ok=True)
            curves.draw_curves(lines, RESULTS / f"{NAME}.png")
        goals = {
            "kernels": (">=", 10_000.0),
            "reinforced_known_compile_rate": (">=", 0.95),
            "reinforced_known_pass_rate": (">=", 0.9),
            "reinforced_known_over_naive_ladder": (">=", 2.0),
            "reinforced_known_given_gain_low": (">=", 1.0),
            "reinforced_known_gain_low": (">=", 1.0),
        }
        device = self.given.device or (torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU")
        details = {"settings": self.settings}
        versions = {"torch": torch.__version__, **gpu_versions()}
        shown = {name: goal for name, goal in goals.items() if name in figures}
        save(NAME, figures, shown, versions, device=device, details=details, quiet=quiet)

    def _oracle(self) -> EvaluatorOracle:
        return EvaluatorOracle(AsyncClient(self.url), OracleSettings(self.config.evaluator.concurrency))


@dataclass(frozen=True)
class Giving:
    """A Generator that gives the kernel that was chosen for a prompt."""

    kernels: Mapping[str, str]
    """Sources by the task's text."""

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        return Response(wrapped(self.kernels[messages[-1].text]))


def candidates() -> Iterator[collection.UngradedKernel]:
    """The templates, and the right ones in other blocks."""
    yield from collection.template_candidates((*KNOWN, *NEW))
    for problem in (*KNOWN, *NEW):
        for style in corpus.styles(problem):
            one = corpus.render_prompt(style)
            launch = next(line for line in one.source.splitlines() if "assay: launch" in line)
            if "block=(256)" not in launch or "256" in one.source.replace(launch, ""):
                continue
            for block in BLOCKS:
                source = one.source.replace(launch, launch.replace("256", str(block)))
                place = Provenance("template", f"{style.name} in blocks of {block}")
                yield collection.UngradedKernel(problem, source, place, one.status)


def _is_naive(kernel: GradedKernel) -> bool:
    styles = corpus.styles(kernel.problem)
    return kernel.passed and bool(styles) and kernel.provenance.place == styles[0].name


def _slow(data: GradedData, tasks: Sequence[Task]) -> Iterator[tuple[str, str]]:
    """A right kernel for each task, drawn by it, than which another one is `LEAST_GAIN` times as fast."""
    for task in tasks:
        right = [one for one in data.kernels if one.problem == task.problem and one.passed]
        able = [one for one in right if any((faster_by(b.verdict, one.verdict) or 0) >= LEAST_GAIN for b in right)]
        if able:
            yield task.text, Random(task.id).choice(able).source


def _told(attempt: Attempt, naive: GradedKernel | None) -> dict[str, Any]:
    """What is kept of an attempt."""
    verdict = attempt.verdict
    return {
        "status": verdict.status if verdict else None,
        "compiled": compiled(attempt),
        "passed": attempt.passed,
        "repeats": attempt.repeats,
        "speedup": attempt.speedup,
        "over_naive": faster_by(verdict, naive.verdict) if verdict and naive else None,
    }


def _figures(system: str, lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, float]]:
    """Rates and speeds of one system on each set of prompts."""
    for name in dict.fromkeys(line["asked"] for line in lines):
        own = [line for line in lines if line["asked"] == name and "attempts" in line]
        word = f"{system}_{name}"
        yield f"{word}_prompts", len(own)
        yield f"{word}_left_out", sum(line["asked"] == name and "left_out" in line for line in lines)
        if not own:
            continue
        last = [line["attempts"][-1] for line in own]
        if not name.endswith("_given"):
            first = [line["attempts"][0] for line in own]
            yield from _share(f"{word}_compile_rate", [one["compiled"] for one in first])
            yield from _share(f"{word}_pass_rate", [one["passed"] for one in first])
            yield from _share(f"{word}_any_pass_rate", [any(o["passed"] for o in line["attempts"]) for line in own])
        second = [line["attempts"][1] if len(line["attempts"]) > 1 else None for line in own]
        yield from _share(f"{word}_optimizer_compile_rate", [bool(one and one["compiled"]) for one in second])
        yield from _share(f"{word}_optimizer_pass_rate", [bool(one and one["passed"]) for one in second])
        yield f"{word}_optimizer_repeat_rate", fmean(one["repeats"] is not None for one in last)
        gains = [
            line["attempts"][1]["speedup"] / line["attempts"][0]["speedup"]
            for line in own
            if len(line["attempts"]) > 1 and line["attempts"][1]["speedup"] and line["attempts"][0]["speedup"]
        ]
        yield from _speed(f"{word}_gain", gains)
        yield from _share(f"{word}_faster_rate", [gain >= 1.05 for gain in gains])
        best = [
            (line["problem"], max(values))
            for line in own
            if (values := [one["over_naive"] for one in line["attempts"] if one["over_naive"]])
        ]
        yield from _speed(f"{word}_over_naive", [value for _, value in best])
        ladder = [value for problem, value in best if problem in LADDERS]
        yield from _speed(f"{word}_over_naive_ladder", ladder)


LADDERS = ("row_sum", "softmax", "transpose", "histogram", "matvec")
"""Problems of which a template is at least twice as fast as the plainest one."""


def _share(name: str, found: Sequence[bool]) -> Iterator[tuple[str, float]]:
    if found:
        low, high = wilson(sum(found), len(found))
        yield from ((name, fmean(found)), (f"{name}_low", low), (f"{name}_high", high))


def _speed(name: str, ratios: Sequence[float]) -> Iterator[tuple[str, float]]:
    """Geometric mean and median, with intervals."""
    yield f"{name}_count", len(ratios)
    if not ratios:
        return
    middle, bounds = geometric_interval([[ratio] for ratio in ratios])
    yield name, middle
    yield f"{name}_median", median(ratios)
    for word, interval in ((name, bounds), (f"{name}_median", median_interval(ratios))):
        if interval:
            yield from ((f"{word}_low", interval[0]), (f"{word}_high", interval[1]))


def _training(lines: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the policy steps."""
    found = {
        "steps": float(len(lines)),
        "minutes_in_steps": sum(line["step_s"] for line in lines) / 60,
        "seconds_per_step": median(line["step_s"] for line in lines),
        "left_out": sum(line["left_out"] for line in lines),
    }
    for share in ("generation_share", "reward_share", "update_share"):
        found[share] = sum(line[share] * line["step_s"] for line in lines) / sum(line["step_s"] for line in lines)
    quarter = max(len(lines) // 4, 1)
    for name in ("pass_rate/generator", "pass_rate/optimizer", "compile_rate", "speedup/over_given"):
        for when, some in (("first", lines[:quarter]), ("last", lines[-quarter:])):
            values = [line[name] for line in some if name in line]
            found |= {f"{name.replace('/', '_')}_{when}_quarter": fmean(values)} if values else {}
    return found


if __name__ == "__main__":
    main()
