"""Agents that learn where kernels are really timed: the main loop that the benchmarks of it share.

In order: templates of nine problems are graded, so that each problem has a ladder of slow and fast kernels; two
models learn from those of six problems, one to write kernels, one to make them faster, and where a benchmark has an
agent alone, a third one learns both; what comes then is the benchmark's.
Each part is done once: what a folder has is not done again, and nothing is begun for which the time is too short.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks._support.graders import gpu_versions
from benchmarks._support.record import save
from benchmarks._support.served import served
from benchmarks._support.timed_answers import PromptSet, answers
from common.client import AsyncClient
from trainer.config.reading import load_config
from trainer.config.schema import AgentRole, TrainingConfig
from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import EpisodeSettings, episode_settings
from trainer.data import corpus, graded
from trainer.data.graded import GradedData, Provenance
from trainer.data.tasks import chosen, training_tasks
from trainer.evaluator.oracle import EvaluatorOracle, OracleSettings
from trainer.policies import models
from trainer.policies.fine_tuning import fine_tune
from trainer.policies.sft import Lesson
from trainer.tuning import collection, examples

ROLES: tuple[AgentRole, ...] = ("generator", "optimizer")
ALONE = "one_agent"
"""In the place of a role, of the agent that writes all kernels of a conversation."""
TUNED = "-tuned"
"""How the folder ends in which a tuning is kept, after its agent's name."""
KNOWN = ("vector_add", "relu", "row_sum", "softmax", "transpose", "histogram")
NEW = ("matvec", "gelu", "saxpy")
"""Held out whole: nobody learns from a kernel for them, or is asked for one."""
BLOCKS = (32, 64, 128, 512, 1024)
"""Threads of a block where a template has 256 and its text does not hang on it."""
SETTINGS = (
    "agents.generator.reward=components",
    "agents.optimizer.reward=speedup",
    "reward.shaping={compilation: 0.3, correctness: 0.6, performance: 0.05, efficiency: 0.0, code_quality: 0.05}",
    "model.warm_start.steps=0",
    "algorithm.name=ppo",
    "algorithm.advantage=turn",
    "algorithm.micro_batch_size=32",
    "algorithm.kl_coefficient=0.01",
    "flow.max_turns=3",
    "flow.early_stop_share=1.0",
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
"""Of all that learn this way, beside the configuration `cpu-demo`."""
ON_GPU = ("evaluator.backend=gpu", "resources.device=cuda", "resources.gpus_per_node=1", "resources.threads=4")
AT_A_RATE = {"ASSAY_JOBS_PER_RUNNER": "100"}
"""Of the evaluator: a CUDA context serves so many kernels."""
RESERVED_S = 45.0
"""Of the seconds that are given: for the step under way, its checkpoint, and the end."""
GRADED_S, TUNED_S, MEASURED_S = 120.0, 90.0, 100.0
"""That the grading, the tuning and the answers of one system are given, on an H100."""


def names_in(text: str, known: Mapping[str, object]) -> tuple[str, ...]:
    """Those with commas between, each once. Raises ArgumentTypeError for one that is not known."""
    names = tuple(dict.fromkeys(filter(None, text.split(","))))
    if unknown := [name for name in names if name not in known]:
        raise argparse.ArgumentTypeError(f"there is no {unknown[0]}; there are {', '.join(known)}")
    return names


class OutOfTimeError(Exception):
    """What comes next would not fit into the seconds that are given."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """The options that all these benchmarks have."""
    parser.add_argument("--folder", type=Path, default=Path("runs"), help="where everything is kept, or comes")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="of the evaluator")
    parser.add_argument("--seconds", type=float, help="stop after so long; a later call goes on")
    parser.add_argument("--last", action="store_true", help="keep time for the last measurement, however far it got")
    parser.add_argument("--simulator", action="store_true", help="in small, on a CPU")
    parser.add_argument("--evaluator-gpus", default="", help="such as 1,2,3; the models then have the first alone")
    parser.add_argument("--figures", action="store_true", help="only the figures of what is there")
    parser.add_argument("--device", default="", help="with --figures: what it ran on, GPU, processor and system")
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="other settings")


class TimedTrial(ABC):
    """A benchmark of agents that learn from timed rewards; `run` goes on from what the folder has."""

    def __init__(self, given: argparse.Namespace, settings: Sequence[str]) -> None:
        """`settings`: all but where the run is kept and where the evaluator is."""
        self.given, self.folder = given, given.folder.absolute()
        self.began_s = time.monotonic()
        self.cuda = not given.simulator
        self.settings = [*settings, *given.settings]
        self.config = self.config_of()
        self.episodes = episode_settings(self.config)
        self.url = ""

    @abstractmethod
    def run(self) -> None:
        """What is left, against the service at `url`. Raises OutOfTimeError."""

    @abstractmethod
    def save(self, *, quiet: bool = True) -> None:
        """Figures and pictures of what there is."""

    def record(
        self,
        name: str,
        figures: Mapping[str, float],
        goals: Mapping[str, tuple[str, float]],
        details: Mapping[str, object],
        *,
        quiet: bool,
    ) -> None:
        """Save results as of this machine, or of the one that `--device` names."""
        device = self.given.device or (torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU")
        versions = {"torch": torch.__version__, **gpu_versions()}
        here = not self.given.device
        save(name, figures, goals, versions, device=device, measured_here=here, details=details, quiet=quiet)

    @abstractmethod
    def keep(self) -> None:
        """Pack what another machine goes on from, beside the results."""

    def to_the_end(self) -> None:
        """Start an evaluator and do what is left, until the time is up; or, with `--figures`, only save."""
        if not self.given.figures:
            self.folder.mkdir(parents=True, exist_ok=True)
            with served(self.given.workers, settings=self._evaluator()) as service:
                self.url = service.url
                try:
                    self.run()
                except OutOfTimeError as late:
                    print(f"Stopped: {late} The same command goes on.", flush=True)
            self.keep()
        self.save(quiet=False)

    def _evaluator(self) -> dict[str, str]:
        """The evaluator's environment. Where it has GPUs of its own, this process and its children lose them."""
        found = dict(AT_A_RATE) if self.cuda else {}
        if self.given.evaluator_gpus:
            found["ASSAY_GPU"] = self.given.evaluator_gpus
            # What is timed there is alone on its GPU: it has no part in an MPS of the models' GPU.
            found["CUDA_MPS_PIPE_DIRECTORY"] = os.devnull
            os.environ["CUDA_VISIBLE_DEVICES"] = "0"
        return found

    def config_of(self, *more: str) -> TrainingConfig:
        """The configuration, with other settings too."""
        return load_config("cpu-demo", [*self.settings, f"checkpointing.folder={self.folder}/{{name}}", *more])

    def left_s(self) -> float:
        """Seconds that are left."""
        limit_s = self.given.seconds or float("inf")
        return float(limit_s - (time.monotonic() - self.began_s))

    def once(self, what: str, needs_s: float, make: Callable[[], Any]) -> Any:
        """What `make` makes, if there is time. Raises OutOfTimeError."""
        if self.left_s() < needs_s:
            raise OutOfTimeError(f"{self.left_s():.0f} s are left, and what comes next ({what}) takes longer.")
        began_s = time.monotonic()
        found = make()
        print(f"{what}: {time.monotonic() - began_s:.0f} s, {self.left_s():.0f} s left", flush=True)
        return found

    def graded(self) -> GradedData:
        """The templates with their verdicts; also learns which problems there are. Raises OutOfTimeError."""
        found: GradedData = self.once("graded", GRADED_S, lambda: asyncio.run(self._graded()))
        return found

    async def _graded(self) -> GradedData:
        async with self.oracle() as oracle:
            await oracle.wait_until_ready()
            self.faces = await oracle.problems()
            into = self.folder / "data"
            card = await collection.collect(
                candidates(), into, oracle, self.episodes, held_out_problems=frozenset(NEW), tell=print
            )
            print(
                f"{card.kernels} kernels are graded, {sum(card.rejected.values())} not kept, {card.faults} faults.",
                flush=True,
            )
        return graded.read_data(into)

    def tuned(
        self, data: GradedData, started: Path | None = None, model: Path | None = None
    ) -> tuple[dict[AgentRole, Path], dict[AgentRole, Path]]:
        """The models that both agents begin with, and those that they were tuned to, in folders that are there once
        they are whole. Raises OutOfTimeError.

        `started`: a folder that may have tuned ones already; `model`: a model to begin with instead of a tiny one.
        """
        found: tuple[dict[AgentRole, Path], dict[AgentRole, Path]] = self.once(
            "tuned", TUNED_S, lambda: self._tuned(data, started, model)
        )
        return found

    def _tuned(
        self, data: GradedData, started: Path | None, model: Path | None
    ) -> tuple[dict[AgentRole, Path], dict[AgentRole, Path]]:
        starts: dict[AgentRole, Path] = {}
        tuned: dict[AgentRole, Path] = {}
        for role in ROLES:
            starts[role] = model or self.folder / f"{role}-start"
            if started is not None and started.is_dir():
                tuned[role] = started / role
            else:
                lessons = self.lessons(AgentName(role), data, self.episodes)
                tuned[role] = self._taught(role, starts[role], lessons)
        return starts, tuned

    def tuned_alone(self, data: GradedData, model: Path | None = None) -> Path:
        """The model that an agent alone begins with. It has learned first kernels and better ones, half each, from as
        many lessons in all, and in as many epochs, as each of two agents. Raises OutOfTimeError.

        `model`: as of `tuned`.
        """

        def made() -> Path:
            alone = replace(self.episodes, flow=replace(self.episodes.flow, single_agent=True))
            lessons = self.lessons(AgentName.GENERATOR, data, alone)
            return self._taught(ALONE, model or self.folder / f"{ALONE}-start", lessons)

        found: Path = self.once("tuned an agent alone", TUNED_S / len(ROLES), made)
        return found

    def lessons(self, agent: AgentName, data: GradedData, episodes: EpisodeSettings) -> list[Lesson]:
        """What an agent is tuned on."""
        section = self.config.sft
        asked = training_tasks(chosen(self.faces, KNOWN), self.config.tasks.variants, wording="brief")
        found = examples.examples_of(
            agent,
            data,
            asked,
            episodes,
            count=section.examples,
            seed=self.config.seed,
            factor=section.improvement,
        )
        return [one.lesson for one in found]

    def _taught(self, name: str, start: Path, lessons: Sequence[Lesson]) -> Path:
        """A model after its lessons; `start` is made where it is not there."""
        section = self.config.sft
        if not (start / "config.json").is_file():
            models.make_tiny(start, [said.text for one in lessons for said in one.messages], seed=0)
        into, device = self.folder / f"{name}{TUNED}", "cuda" if self.cuda else "cpu"
        made = fine_tune(start, into, lessons, section, epochs=section.epochs, seed=self.config.seed, device=device)
        if self.cuda:
            # This process stays to the end, and what it holds of the GPU is nobody else's.
            torch.cuda.empty_cache()
        print(f"{name}: {len(lessons)} lessons, loss {made.epochs[-1].loss:.3f}", flush=True)
        return made.folder

    def measured(
        self,
        system: str,
        agents: Mapping[AgentRole, Path],
        data: GradedData,
        sets: Sequence[PromptSet],
        flow: Flow,
    ) -> None:
        """Answers to all sets of held-out prompts, kept once they are all there. Raises OutOfTimeError."""
        if self.answers_of(system).is_file():
            return
        found = self.once(f"measured {system}", MEASURED_S, lambda: self._asked(agents, sets, flow).of(data))
        self.answers_of(system).write_text(json.dumps(found))
        self.save()

    def measured_together(
        self,
        systems: Mapping[str, tuple[Mapping[AgentRole, Path], Sequence[PromptSet], Flow]],
        data: GradedData,
        at_once: int,
    ) -> None:
        """As `measured`, of several systems side by side, each in a process of its own. Raises OutOfTimeError."""
        wanted = {name: each for name, each in systems.items() if not self.answers_of(name).is_file()}
        if not wanted:
            return

        def answered() -> None:
            context = multiprocessing.get_context("spawn")
            with ProcessPoolExecutor(at_once, mp_context=context) as pool:
                asked = {pool.submit(self._asked(*each).of, data): name for name, each in wanted.items()}
                for done in as_completed(asked):
                    self.answers_of(asked[done]).write_text(json.dumps(done.result()))
                    print(f"measured {asked[done]}: {self.left_s():.0f} s left", flush=True)

        self.once(f"measured {len(wanted)} systems", MEASURED_S, answered)
        self.save()

    def _asked(self, agents: Mapping[AgentRole, Path], sets: Sequence[PromptSet], flow: Flow) -> "Asked":
        concurrency = self.config.evaluator.concurrency
        return Asked(self.url, concurrency, self.episodes, tuple(sets), dict(agents), flow, self.cuda)

    def answers_of(self, system: str) -> Path:
        """Where the answers of a system are kept."""
        return Path(self.folder, f"measured_{system}.json")

    def oracle(self) -> EvaluatorOracle:
        """The evaluator."""
        return oracle_at(self.url, self.config.evaluator.concurrency)


def oracle_at(url: str, concurrency: int) -> EvaluatorOracle:
    """The evaluator that answers there."""
    return EvaluatorOracle(AsyncClient(url), OracleSettings(concurrency))


@dataclass(frozen=True)
class Asked:
    """Held-out prompts that the models in these folders are asked; goes to another process as it is."""

    url: str
    concurrency: int
    episodes: EpisodeSettings
    sets: tuple[PromptSet, ...]
    agents: Mapping[AgentRole, Path]
    flow: Flow
    cuda: bool

    def of(self, data: GradedData) -> list[dict[str, Any]]:
        """A line for each conversation."""
        return asyncio.run(self._answers(data))

    async def _answers(self, data: GradedData) -> list[dict[str, Any]]:
        async with oracle_at(self.url, self.concurrency) as oracle:
            return await answers(self.sets, self.agents, data, oracle, self.episodes, self.flow, cuda=self.cuda)


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


def kernels_written(lines: Sequence[Mapping[str, Any]]) -> int:
    """Kernels that were judged in the steps of these measures."""
    answers = ((line["conversations"] * line["turns"], line["format_error_rate"]) for line in lines)
    return round(math.fsum(count * (1 - without) for count, without in answers))
