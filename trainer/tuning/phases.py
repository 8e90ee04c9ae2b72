"""The phases before the reinforcement learning, each kept when it is finished, so that what was stopped goes on:

    data        templates and rollouts, graded                       FOLDER/data-…
    fine-tuning each agent on its own examples                       FOLDER/generator-…, optimizer-…, tester-…
    together    the tuned agents play, both who write kernels learn
                what went well; a tuned Tester reviews               FOLDER/together-…, FOLDER/*-together-…

The letters at the end stand for all that a phase's outcome hangs on: with other settings it is made anew beside the
old one. `FOLDER/tuned.json` names the models that came of it, and what held-out prompts said of each on the way.
"""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

from common.client import AsyncClient
from common.contract import ProblemFace
from common.file_replacement import replace_file
from trainer.config.schema import TrainingConfig, TunedRole
from trainer.conversation.conversation import AgentName
from trainer.conversation.episode import EpisodeSettings, Policy, episode_settings, play_many
from trainer.conversation.rewards import credit_settings
from trainer.data import graded
from trainer.data.graded import DataCard, GradedData
from trainer.data.operations import Operation, chosen_operations, stated
from trainer.data.tasks import Task, chosen, held_out_tasks, training_tasks
from trainer.errors import CheckpointError, ConfigurationError
from trainer.evaluator.oracle import EvaluatorOracle, oracle_settings
from trainer.policies import adapters, models
from trainer.policies.fine_tuning import ADAPTER, Epoch, fine_tune
from trainer.policies.local_policy import LocalPolicy, SamplingSettings
from trainer.policies.sft import Lesson
from trainer.reporting.transcripts import read_transcripts, transcript, write_transcripts
from trainer.tuning import collection, examples, measuring
from trainer.tuning.archive import Archive
from trainer.tuning.cross_agent import learned_together
from trainer.tuning.publishing import Published, publish

TUNED: Final = "tuned.json"
_TOGETHER_RATE: Final = 0.1
"""Of `sft.learning_rate`, for what tuned agents learn from each other."""
_TOLD_SHARE: Final = 10
"""How often an epoch says how far it is."""


@dataclass(frozen=True)
class _Asked:
    """What the evaluator has, sorted by what may be learned from."""

    faces: tuple[ProblemFace, ...]
    held_out_problems: frozenset[str]
    training: tuple[Task, ...]
    """Of the problems that have examples."""
    held_out: Mapping[str, tuple[Task, ...]]
    """`known`: held-out wordings of problems with examples; `new`: of problems without."""


async def collect_data(
    config: TrainingConfig,
    into: Path,
    tell: Callable[[str], None],
    *,
    most: int | None = None,
    archive: Archive | None = None,
) -> DataCard:
    """Grade the templates, those of `tasks.operations`, `sft.rollouts` and `archive` into a data set, at most `most`
    of them, drawn by the seed. Raises ConfigurationError, OracleLostError.
    """
    operations, archive = _operations(config), archive or Archive()
    async with _oracle(config) as oracle:
        await oracle.wait_until_ready(tell)
        faces = chosen(await oracle.problems(), config.tasks.problems)
        names = [face.id for face in faces]
        known = frozenset((*names, *(one.name for one in operations)))
        candidates = list(
            chain(
                collection.template_candidates(names),
                collection.operation_candidates(operations),
                archive.candidates,
                *(_rollouts(Path(folder), known, tell) for folder in config.sft.rollouts),
            )
        )
        version = await oracle.version()
        versions = {face.id: f"{version}, problem {face.version}" for face in faces}
        return await collection.collect(
            collection.drawn(candidates, most, config.seed),
            into,
            oracle,
            episode_settings(config),
            held_out_problems=_held_out(config, names, operations) | archive.held_out_problems,
            # What states the other problems is in their kernels' submissions.
            versions={one.problem: versions.get(one.problem, version) for one in candidates},
            tell=tell,
        )


async def publish_data(
    config: TrainingConfig, into: Path, tell: Callable[[str], None], *, count: int, archive: Archive | None = None
) -> Published:
    """Write the examples of a data set that `collect_data` filled, at most `count` of each agent. Raises
    ConfigurationError, OracleLostError.
    """
    asked, archive = await _asked(config, tell, each=_PROMPTS_OF_A_PROBLEM), archive or Archive()
    return publish(
        graded.read_data(into),
        (*asked.training, *archive.tasks(held_out=False)),
        (*chain(*asked.held_out.values()), *archive.tasks(held_out=True)),
        episode_settings(config),
        into,
        count=count,
        seed=config.seed,
        factor=config.sft.improvement,
    )


def _operations(config: TrainingConfig) -> tuple[Operation, ...]:
    """Those of `tasks.operations`. Raises ConfigurationError."""
    operations = chosen_operations(config.tasks.operations)
    if operations and config.evaluator.backend == "gpu":
        raise ConfigurationError(
            "Operations are problems that someone else states, which the simulator alone judges.",
            "Set evaluator.backend to auto or sim, or leave out tasks.operations.",
        )
    return operations


def _held_out(config: TrainingConfig, names: Sequence[str], operations: Sequence[Operation]) -> frozenset[str]:
    held_out = {one.name for one in operations if one.family_is_held_out or one.shape_is_held_out}
    return graded.sides(names, config.sft.held_out_problems) | held_out


def tune(config: TrainingConfig, folder: Path, tell: Callable[[str], None]) -> dict[TunedRole, Path]:
    """Data, fine-tuning and what agents learn from each other; the models that came of it, by agent.

    `config.evaluator` answers. Raises TrainerError.
    """
    if config.sft.method == "qlora":
        adapters.refuse_without_quantisation(config.resources.device)
    asked = asyncio.run(_asked(config, tell))
    settings = episode_settings(config)
    about = [settings.backend, settings.grading.model_dump_json(), sorted(asked.held_out_problems)]
    # A data set keeps all that it ever took in, also of runs that are named no more.
    rollouts = [config.sft.rollouts] if config.sft.rollouts else []
    place = folder / f"data-{_hash(about, config.tasks.problems, config.tasks.operations, *rollouts)}"
    card = asyncio.run(collect_data(config, place, tell))
    tell(
        f"Data: {card.kernels} graded kernels, {card.training} to learn from and {card.held_out} held out; "
        f"{card.evaluations} graded now in {card.seconds:.0f} s, {sum(card.rejected.values())} not kept."
    )
    data = graded.read_data(place)
    run = _Tuning(config, folder, asked, data, settings, tell)
    found: dict[TunedRole, Path] = {}
    section = config.sft
    for role in config.tuned_roles:
        found_examples = examples.examples_of(
            AgentName(role),
            data,
            asked.training,
            settings,
            count=section.examples,
            seed=config.seed,
            factor=section.improvement,
        )
        taught = tuple(one.lesson for one in found_examples)
        if len(taught) < section.examples:
            tell(f"The {role} has {len(taught)} different examples, of the {section.examples} asked for.")
        found[role] = run.tuned(role, run.start(role, taught), taught, section.epochs)
    if section.cross_conversations and len(config.roles) == 2:
        found = run.together(found)
    written = {"models": {role: str(path.relative_to(folder)) for role, path in found.items()}, **run.told()}
    replace_file(folder / TUNED, json.dumps(written, indent=1))
    return found


def tuned_before(folder: Path) -> dict[TunedRole, Path] | None:
    """The models of an earlier `tune` into this folder; None where it was not finished. Raises CheckpointError where
    one of them is gone.
    """
    path = folder / TUNED
    if not path.is_file():
        return None
    named: dict[TunedRole, str] = json.loads(path.read_text(encoding="utf-8"))["models"]
    found: dict[TunedRole, Path] = {role: folder / name for role, name in named.items()}
    for role, model in found.items():
        if not (model / "config.json").is_file():
            raise CheckpointError(
                f"{model}, which the {role} was tuned to, is not there any more.",
                "Put it back, or start over with --fresh.",
            )
    return found


class _Tuning:
    """Fine-tuning of the agents in one folder, with what was measured of each on the way."""

    def __init__(
        self,
        config: TrainingConfig,
        folder: Path,
        asked: _Asked,
        data: GradedData,
        settings: EpisodeSettings,
        tell: Callable[[str], None],
    ) -> None:
        self.config, self.folder, self.asked = config, folder, asked
        self.data, self.settings, self.tell = data, settings, tell
        self.results: dict[str, list[dict[str, Any]]] = {role: [] for role in config.tuned_roles}
        self.learned: dict[str, int] = {}
        self.starts: dict[TunedRole, Path] = {}

    def told(self) -> dict[str, Any]:
        """What is kept beside the models."""
        return {"goals": dict(measuring.GOALS), "together": self.learned, "measured": self.results}

    def start(self, role: TunedRole, taught: Sequence[Lesson]) -> Path:
        """The model that an agent is tuned from: a folder, made or fetched if need be."""
        self.starts[role] = found = self._start(role, taught)
        return found

    def _start(self, role: TunedRole, taught: Sequence[Lesson]) -> Path:
        name = self.config.model_names[role]
        if name == models.SMOLLM2:
            return models.smollm2()
        if name != models.TINY:
            return Path(name)
        texts = [message.text for lesson in taught for message in lesson.messages]
        into = self.folder / f"{role}-start-{_hash(texts, self.config.seed)}"
        if not (into / "config.json").is_file():
            # A folder gets its name when it is whole: its weights are written after config.json.
            part = into.with_name(f"{into.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            models.make_tiny(part, texts, seed=self.config.seed)
            part.replace(into)
        return into

    def tuned(
        self, role: TunedRole, start: Path, taught: Sequence[Lesson], epochs: int, tuned: Path | None = None
    ) -> Path:
        """The model after its epochs; each is measured on held-out prompts once, and the start too. `tuned`: the
        model that `start` has been tuned to already, and that learns what both agents have learned.
        """
        section, word = self.config.sft, "-together" if tuned else ""
        if tuned:
            # A handful of steps by an optimizer that is new: at the full rate they undid a tuning (docs/training.md).
            section = section.model_copy(update={"learning_rate": _TOGETHER_RATE * section.learning_rate})
        own = {"lora"} if section.with_adapters else set()
        about = section.model_dump(
            include={"method", "batch_size", "gradient_accumulation_steps", "learning_rate", *own}
        )
        texts = [[message.text for message in lesson.messages] for lesson in taught]
        into = self.folder / f"{role}{word}-{_hash(str(tuned or start), about, epochs, self.config.seed, texts)}"
        phase = f"Tuning the {role}{' on what both have learned' if word else ''}"
        if not word:
            self._measured(role, start, into, f"{phase}, before")

        def told(step: int, of: int, loss: float) -> None:
            if step == of or step % max(of // _TOLD_SHARE, 1) == 0:
                self.tell(f"{phase}: step {step} of {of}, loss {loss:.3f}.")

        def kept(epoch: Epoch, model: Path) -> None:
            self._measured(role, model, into, f"{phase}, after epoch {epoch.number} of {epochs}")

        # Adapters go on being tuned over the model that they belong to.
        going_on = tuned is not None and section.with_adapters
        return fine_tune(
            tuned if tuned and not going_on else start,
            into,
            taught,
            section,
            epochs=epochs,
            seed=self.config.seed,
            device=self.config.resources.device,
            adapter=tuned / ADAPTER if tuned and going_on else None,
            told=told,
            kept=kept,
        ).folder

    def together(self, tuned: Mapping[TunedRole, Path]) -> dict[TunedRole, Path]:
        """The agents after they have learned from conversations with each other; as they were where there was nothing
        to learn, as there is for a Tester.
        """
        config, section = self.config, self.config.sft
        asked = [
            str(self.settings),
            [self._temperature(role, config.rollout.temperature) for role in tuned],
            *self._narrowed("generator"),
            config.seed,
        ]
        about = [[str(path) for path in tuned.values()], section.cross_conversations]
        place = self.folder / f"together-{_hash(about, asked, [task.id for task in self.asked.training])}"
        path = place / "transcripts" / "together.jsonl"
        if not path.is_file():
            self.tell(f"Playing {section.cross_conversations} conversations of the tuned agents.")
            played = asyncio.run(self._played(tuned))
            write_transcripts(path, [transcript(one, credit_settings(config.flow)) for one in played])
        conversations = [line.conversation for line in read_transcripts(path)]
        learned = learned_together(conversations, self.settings, factor=section.improvement)
        self.learned = {
            "conversations": learned.conversations,
            "successful": learned.successful,
            "improved": learned.improved,
            "generator_lessons": len(learned.generator),
            "optimizer_lessons": len(learned.optimizer),
        }
        self.tell(
            f"Of {learned.conversations} conversations {learned.successful} ended with a right kernel, "
            f"{learned.improved} with the Optimizer's."
        )
        taught: dict[TunedRole, tuple[Lesson, ...]] = {
            "generator": learned.generator,
            "optimizer": learned.optimizer,
            "tester": (),
        }
        return {
            role: self.tuned(role, self.starts[role], taught[role], section.cross_epochs, model)
            if taught[role]
            else model
            for role, model in tuned.items()
        }

    async def _played(self, tuned: Mapping[TunedRole, Path]) -> tuple[Any, ...]:
        policies: dict[AgentName, Policy] = {
            AgentName(role): self._policy(role, model, self.config.rollout.temperature)
            for role, model in tuned.items()
        }
        tasks, count = self.asked.training, self.config.sft.cross_conversations
        # In strides: tasks are sorted by problem, and few conversations should be about all problems too.
        asked = [(tasks[number * _STRIDE % len(tasks)], self.config.seed + number) for number in range(count)]
        async with _oracle(self.config) as oracle:
            return (await play_many(asked, policies, oracle, self.settings)).whole

    def _policy(self, role: TunedRole, model: Path, temperature: float) -> LocalPolicy:
        sampling = self._sampling(self._temperature(role, temperature), *self._narrowed(role))
        return LocalPolicy(model, sampling, device=self.config.resources.device)

    def _sampling(self, temperature: float, top_p: float = 1.0) -> SamplingSettings:
        # What is generated beside an answer changes the last bits of its log-probs, and with them rarely a token.
        return SamplingSettings(temperature, 1 if self.config.deterministic else SamplingSettings.batch_size, top_p)

    def _temperature(self, role: TunedRole, temperature: float) -> float:
        """`temperature`: of who writes kernels; a Tester has its own everywhere."""
        tester = self.config.agents.tester
        return tester.temperature if role == "tester" and tester is not None else temperature

    def _narrowed(self, role: TunedRole) -> list[float]:
        """`rollout.top_p` where it leaves tokens out: of who writes kernels."""
        top_p = self.config.rollout.top_p
        return [top_p] if top_p < 1 and role != "tester" else []

    def _measured(self, role: TunedRole, model: Path, into: Path, phase: str) -> None:
        """What held-out prompts say of a model, kept in `into` by the phase, so that it is asked once."""
        temperature = self._temperature(role, self.config.rollout.evaluation_temperature)
        asked = [str(self.settings), temperature, self.config.seed, *self._narrowed(role)]
        prompts = {name: [task.id for task in tasks] for name, tasks in self.asked.held_out.items()}
        is_given = role != "generator" or self.settings.flow.improves_its_own
        given = sorted(one.fingerprint for one in self.data.kernels) if is_given else []
        path = into / f"measured-{_hash(asked, prompts, self.config.sft.improvement, given)}.json"
        known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        if phase not in known:
            found = asyncio.run(self._answers(role, model))
            known[phase] = {name: asdict(one) for name, one in found.items()}
            into.mkdir(parents=True, exist_ok=True)
            replace_file(path, json.dumps(known, indent=1))
            for name, one in found.items():
                self.tell(f"{phase}: {_line(name, one)}")
        self.results[role] = [one for one in self.results[role] if one["phase"] not in known]
        self.results[role] += [{"phase": name, **values} for name, values in known.items()]

    async def _answers(self, role: TunedRole, model: Path) -> dict[str, measuring.Answered]:
        config, factor = self.config, self.config.sft.improvement
        policy = self._policy(role, model, config.rollout.evaluation_temperature)
        found = {}
        async with _oracle(config) as oracle:
            for name, tasks in self.asked.held_out.items():
                if role == "generator" and self.settings.flow.improves_its_own:
                    answers = await measuring.measure_single_agent(
                        policy, tasks, self.data, oracle, self.settings, seed=config.seed, factor=factor
                    )
                elif role == "generator":
                    answers = await measuring.measure_generator(
                        policy, tasks, oracle, self.settings, seed=config.seed
                    )
                elif role == "optimizer":
                    answers = await measuring.measure_optimizer(
                        policy, tasks, self.data, oracle, self.settings, seed=config.seed, factor=factor
                    )
                else:
                    asked = examples.tester_prompts(self.data, tasks, self.settings, seed=config.seed, factor=factor)
                    answers = await measuring.measure_tester(policy, asked, self.settings, seed=config.seed)
                if answers.prompts:
                    found[name] = answers
        return found


_PROMPTS_OF_A_PROBLEM: Final = 4
"""Of the files of examples."""
_STRIDE: Final = 7919
"""A prime that no number of tasks is a multiple of, so that all tasks come before one comes again."""


async def _asked(config: TrainingConfig, tell: Callable[[str], None], each: int = 0) -> _Asked:
    """`each`: held-out tasks of each problem, where that is more than `sft.evaluation_tasks` of all."""
    async with _oracle(config) as oracle:
        await oracle.wait_until_ready(tell)
        faces = chosen(await oracle.problems(), config.tasks.problems)
    operations = _operations(config)
    held_out = _held_out(config, [face.id for face in faces], operations)
    faces = (*faces, *(one.face for one in operations))
    wording, share, count = config.tasks.wording, config.tasks.held_out_share, config.sft.evaluation_tasks
    known = [face for face in faces if face.id not in held_out]
    new = [face for face in faces if face.id in held_out]
    return _Asked(
        faces,
        held_out,
        stated(training_tasks(known, config.tasks.variants, wording=wording, held_out_share=share)),
        {
            name: stated(held_out_tasks(some, max(count, each * len(some)), wording=wording, held_out_share=share))
            for name, some in (("known", known), ("new", new))
            if some
        },
    )


def _rollouts(folder: Path, names: frozenset[str], tell: Callable[[str], None]) -> list[collection.UngradedKernel]:
    """Those of these problems; how many there are of others is told."""
    if not folder.is_dir():
        raise ConfigurationError(f"{folder} is no folder of a run.", "Fix sft.rollouts.")
    found = list(collection.rollout_candidates(folder))
    kept = [one for one in found if one.problem in names]
    if others := sorted({one.problem for one in found} - names):
        tell(
            f"{len(found) - len(kept)} of {len(found)} kernels in the transcripts below {folder} are left out: they "
            f"are for {', '.join(others)}, which neither tasks.problems nor tasks.operations (--operations) names."
        )
    return kept


def _oracle(config: TrainingConfig) -> EvaluatorOracle:
    asked = config.evaluator
    client = AsyncClient(asked.url, os.environ.get(asked.key_variable), patience_s=asked.patience_s)
    return EvaluatorOracle(client, oracle_settings(asked))


def _line(name: str, one: measuring.Answered) -> str:
    goals = [f" (goal {goal:.0%})" for goal in measuring.GOALS.values()]
    values = [
        ("compile", one.compile_rate, goals[0]),
        ("right", one.pass_rate, goals[1]),
        ("improved", one.improved_rate, goals[2]),
        ("named", one.named_rate, ""),
    ]
    said = [f"{word} {value:.0%}{goal}" for word, value, goal in values if value is not None]
    speed = f", speedup {one.speedup:.2f}" if one.speedup is not None else ""
    return f"{one.prompts} prompts of {name} problems: {', '.join(said)}{speed}."


def _hash(*about: object) -> str:
    return hashlib.sha256(json.dumps(about, default=str).encode()).hexdigest()[:12]
