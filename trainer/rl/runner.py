"""A training run, from the first task to the last checkpoint, on one screen:

    tasks -> curriculum -> conversations (all agents, side by side) -> each agent's learner -> new weights -> again

`run(config)` is the face. It goes on from the newest checkpoint where the run's folder has one. In the deterministic
mode (`deterministic: true`, rollout `hf`) a run that was killed and goes on equals one that was not: every draw hangs
on the run's seed, the step and the place in it, requests are generated one by one, and torch runs on one thread.
"""

import asyncio
import io
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from trainer.config.schema import AgentRole, TrainingConfig
from trainer.conversation import episode
from trainer.conversation.rewards import credit_settings
from trainer.data.tasks import Task
from trainer.errors import TrainerError
from trainer.evaluator import oracle as evaluation
from trainer.evaluator.run_tasks import tasks_of
from trainer.policies import sft
from trainer.policies.local_policy import folder_of_tester
from trainer.reporting import transcripts
from trainer.reporting.gpu_use import GpuUse
from trainer.reporting.metrics import MetricsWriter, evaluated, shares_of_time, training_measures
from trainer.rl import ray_session
from trainer.rl.batch import refuse_without_verdicts, told_apart, unsupported_in_a_row
from trainer.rl.checkpoints import Checkpoint, Checkpoints, RunProgress, loading_checkpoint, writing_checkpoint
from trainer.rl.curriculum import curriculum_of, outcome_of
from trainer.rl.processes import asked_to_stop
from trainer.rl.settings import (
    check_settings,
    refuse_without_packages,
    verl_config,
    worker_environment,
    workers_of,
)

OnStep = Callable[[int, dict[str, float]], None]
_COUNTED: Final = {"asked", "faults", "retried", "repeats", "unsupported"}
"""What is reported of the evaluator, counted since this start."""


class LoopFailedError(TrainerError):
    """Too many conversations ended in an exception of the trainer's own: the run ends, with the last one's stack."""


@dataclass(frozen=True)
class RunSummary:
    """What a run has done."""

    folder: Path
    steps: int
    """Policy steps that are done, those before this start included."""
    resumed_from: int | None
    """The step of the checkpoint that this start went on from."""
    episodes: int
    """Conversations that were played for training, ever."""
    left_out: int
    """Of these, without a verdict by the evaluator's own fault."""
    failures: int
    """Of these, ended by an exception of ours."""
    interrupted: bool
    """Whether it was asked to stop before its last step."""
    checkpoint: Path | None
    """The newest."""
    rewards: tuple[float | None, ...] = ()
    """Mean final reward of the conversations of each step since this start."""
    evaluations: Mapping[int, float | None] = field(default_factory=dict)
    """The same of held-out conversations, by the step after which they were played."""
    seconds: float = 0.0


def run(
    config: TrainingConfig,
    *,
    on_step: OnStep | None = None,
    tell: Callable[[str], None] = print,
    agents: Mapping[AgentRole, Path | str] | None = None,
) -> RunSummary:
    """Train as a configuration says, and go on where the run's folder has a checkpoint.

    `on_step` gets the number and the measures of each step; `tell` gets lines for a person; `agents` names models
    that are used as they are, instead of preparing those of the configuration. What a run without a checkpoint has
    left in the folder is removed. SIGTERM and Ctrl-C end the run after the step that is under way, with a checkpoint.

    Raises TrainerError: ConfigurationError before anything has begun, OracleLostError, LoopFailedError,
    CheckpointError.
    """
    # Before anything is started: what only these look at is refused by them.
    curriculum = curriculum_of(config.curriculum)
    episode.episode_settings(config)
    if config.agents.tester is not None:
        folder_of_tester(config.agents.tester)
    refuse_without_packages(config)
    os.environ.update(worker_environment(config))
    folder = Path(config.run_folder).absolute()
    checkpoints = Checkpoints(folder / "checkpoints")
    training, held_out = asyncio.run(tasks_of(config, tell))
    progress = RunProgress(curriculum.skipping(training))
    found = checkpoints.newest()
    if found is not None:
        progress.restore(found, training)
        tell(f"Going on after step {found.step} of {config.algorithm.steps}, from {found.folder}.")
    made = folder / "models"
    models = agents or sft.start_of_all(config, training, made, progress.models, tell)
    progress.models = {
        role: model.name for role, model in models.items() if isinstance(model, Path) and model.parent == made
    }
    composed = {
        role: verl_config(config, role, models[role], found.agent(role) if found else None) for role in config.roles
    }
    for role in config.roles:
        check_settings(role, composed[role])
        if found is not None:
            found.check(role, workers_of(composed[role]))
    with (
        MetricsWriter(folder, config, resumed_step=found.step if found else None) as writer,
        ray_session.started(config, worker_environment(config)),
        asked_to_stop() as stop,
        GpuUse() as gpu_use,
    ):
        this = _Run(config, folder, checkpoints, progress, training, held_out, writer, on_step, tell, stop, gpu_use)
        this.forget_transcripts()
        with ray_session.failures_told():
            return this.go(composed, found)


class _Run:
    """One start of a run, while Ray is there."""

    def __init__(
        self,
        config: TrainingConfig,
        folder: Path,
        checkpoints: Checkpoints,
        progress: RunProgress,
        training: Sequence[Task],
        held_out: Sequence[Task],
        writer: MetricsWriter,
        on_step: OnStep | None,
        tell: Callable[[str], None],
        stop: threading.Event,
        gpu_use: GpuUse,
    ) -> None:
        self.config, self.folder, self.checkpoints, self.progress = config, folder, checkpoints, progress
        self.training, self.held_out = training, held_out
        self.writer, self.on_step, self.tell, self.stop = writer, on_step, tell, stop
        self.gpu_use = gpu_use
        self.rewards: list[float | None] = []
        self.evaluations: dict[int, float | None] = {}
        self.unsupported = 0
        """Verdicts of the newest steps that say so, one after another."""

    def go(self, composed: Mapping[AgentRole, Any], found: Checkpoint | None) -> RunSummary:
        """All steps that are left."""
        began_s = time.monotonic()
        # Only now: these bring verl along, which reads the environment while it is imported.
        with self._aside():
            from trainer.rl import agent_loop
            from trainer.rl.trainable_agent import TrainableAgent

        self.loop = agent_loop
        with agent_loop.samples(composed[self.config.roles[0]]):
            self.learners: dict[AgentRole, TrainableAgent] = {}
            pools: dict[str, Any] | None = None
            for number, role in enumerate(self.config.roles):
                self.tell(f"Starting the {role}.")
                with self._aside(), loading_checkpoint(found):
                    learner = TrainableAgent(composed[role], number, pools)
                    learner.init()
                if self.config.resources.generator_gpus is None:
                    pools = pools or learner.pools
                self.learners[role] = learner
            clients = {role: learner.get_llm_client() for role, learner in self.learners.items()}
            self.worker = agent_loop.start_worker(self.config, composed, clients, self.progress.ran_on)
            saved = self._steps(found)
            for learner in self.learners.values():
                learner.release()
        done = self.progress
        return RunSummary(
            folder=self.folder,
            steps=done.step,
            resumed_from=found.step if found else None,
            episodes=done.episodes,
            left_out=done.left_out,
            failures=done.failures,
            interrupted=done.step < self.config.algorithm.steps,
            checkpoint=saved.folder if saved else None,
            rewards=tuple(self.rewards),
            evaluations=self.evaluations,
            seconds=time.monotonic() - began_s,
        )

    def _steps(self, found: Checkpoint | None) -> Checkpoint | None:
        config, last, saved = self.config, self.config.algorithm.steps, found
        keeping = config.checkpointing
        if found is None and keeping.evaluate_at_start:
            self._evaluate(0)
        if found is not None and self._evaluation_due(found.step) and not evaluated(self.folder, found.step):
            self._evaluate(found.step)
        while self.progress.step < last and not self.stop.is_set():
            step = self.progress.step + 1
            self._step(step)
            ending = step == last or self.stop.is_set()
            if ending or _due(step, config, keeping.every_episodes):
                saved = self._save(step)
            # A request to stop does not wait for an evaluation: it is made when the run goes on.
            if self._evaluation_due(step) and (step == last or not self.stop.is_set()):
                self._evaluate(step)
        return saved

    def _evaluation_due(self, step: int) -> bool:
        every_episodes = self.config.checkpointing.evaluate_every_episodes
        return step == self.config.algorithm.steps or _due(step, self.config, every_episodes)

    def _step(self, step: int) -> None:
        began_s = time.monotonic()
        self.gpu_use.taken()  # what was before this step
        outcomes, times = self._played(step)
        generated_s = time.monotonic()
        for learner in self.learners.values():
            learner.sleep()
        learned: dict[AgentRole, dict[str, float]] = {}
        for role, learner in self.learners.items():
            keys = sorted(outcome.keys[role] for outcome in outcomes if outcome.keys and role in outcome.keys)
            if keys:
                with self._aside():
                    learned[role] = learner.update_parameters(step, keys)
        updated_s = time.monotonic()
        for learner in self.learners.values():
            learner.send_weights(step)
        sent_s = time.monotonic()
        self._note(step, outcomes)
        progress = self.progress
        values = {
            **self._measured(outcomes),
            **shares_of_time(
                generation_s=times["generating"],
                reward_s=times["waiting"],
                update_s=updated_s - generated_s,
                step_s=sent_s - began_s,
            ),
            **{f"{role}/{name}": value for role, found in learned.items() for name, value in found.items()},
            **{f"oracle/{name}": value for name, value in times.items() if name in _COUNTED},
            "curriculum/level": float(progress.curriculum.level),
            "curriculum/complete": float(progress.curriculum.complete),
            "episodes": float(progress.episodes),
            "step_s": sent_s - began_s,
            "weights_s": sent_s - updated_s,
            **self.gpu_use.taken(),
        }
        self.rewards.append(values.get("reward/final"))
        # A step that has measures has its transcripts: others read both while a run goes on.
        self._keep_transcripts(f"train-{step:06d}", step, outcomes)
        self.writer.write(step, values)
        if self.on_step is not None:
            self.on_step(step, values)
        self.progress.step = step

    def _played(self, step: int) -> tuple[list[Any], dict[str, float]]:
        """The conversations of one step. With dynamic sampling, groups that nobody learns from are replaced."""
        algorithm = self.config.algorithm
        dynamic = algorithm.name == "dapo" if algorithm.dynamic_sampling is None else algorithm.dynamic_sampling
        kept: list[Any] = []
        flat: list[Any] = []
        times: dict[str, float] = {}
        for draw in range(algorithm.dynamic_sampling_rounds if dynamic else 1):
            missing = algorithm.prompts_per_step - len({outcome.seat.uid for outcome in kept})
            tasks = self.progress.curriculum.sample(self.training, missing, _seed(self.config.seed, step, draw))
            outcomes, found = self._play(
                [
                    self.loop.AgentSlot(
                        f"{step}.{draw}.{place}",
                        candidate,
                        task,
                        _seed(self.config.seed, step, draw, place, candidate),
                        step,
                    )
                    for place, task in enumerate(tasks)
                    for candidate in range(algorithm.candidates)
                ]
            )
            # Counts of the evaluator are of the whole run, seconds of these conversations.
            times = {name: value + (0 if name in _COUNTED else times.get(name, 0)) for name, value in found.items()}
            useful = told_apart(outcomes, self.config) if dynamic else {outcome.seat.uid for outcome in outcomes}
            kept += [outcome for outcome in outcomes if outcome.seat.uid in useful]
            flat += [outcome for outcome in outcomes if outcome.seat.uid not in useful]
            refuse_without_verdicts(kept + flat, self.config.evaluator.fault_share)
            unsupported = unsupported_in_a_row(kept + flat, self.unsupported, self.config.evaluator.url)
            if len({outcome.seat.uid for outcome in kept}) >= algorithm.prompts_per_step:
                break
        self.unsupported = unsupported
        if flat:
            # They count for rates and transcripts, and nothing can be learned from them.
            self.loop.forget([key for outcome in flat for key in (outcome.keys or {}).values()])
        return kept + [replace(outcome, keys=None) for outcome in flat], times

    def _play(self, seats: Sequence[Any]) -> tuple[list[Any], dict[str, float]]:
        import ray

        outcomes, times, self.progress.ran_on = ray.get(self.worker.play.remote(list(seats)))
        fatal = next((outcome.fatal for outcome in outcomes if outcome.fatal is not None), None)
        if fatal is not None:
            raise fatal
        failed = [outcome for outcome in outcomes if outcome.failure is not None]
        for outcome in failed[:3]:
            self.tell(f"A conversation about {outcome.seat.task.id} failed:\n{outcome.failure}")
        all_failed = len(failed) == len(outcomes) > 0
        many = evaluation.too_many(len(failed), len(outcomes), self.config.evaluator.fault_share)
        if failed and (all_failed or many):
            raise LoopFailedError(
                f"{len(failed)} of {len(outcomes)} conversations of step {seats[0].step} ended in an exception of "
                f"the trainer's own. The last one:\n{failed[-1].failure}",
                "Fix what it names; the run goes on from its last checkpoint.",
            )
        return outcomes, times

    def _measured(self, outcomes: Sequence[Any]) -> dict[str, float]:
        """The measures of what was played."""
        over = [outcome.conversation for outcome in outcomes if outcome.conversation is not None]
        left_out = sum(outcome.left_out is not None for outcome in outcomes)
        failed = sum(outcome.failure is not None for outcome in outcomes)
        return {**training_measures(over, left_out), "failures": float(failed)}

    def _note(self, step: int, outcomes: Sequence[Any]) -> None:
        progress = self.progress
        progress.episodes += len(outcomes)
        progress.left_out += sum(outcome.left_out is not None for outcome in outcomes)
        progress.failures += sum(outcome.failure is not None for outcome in outcomes)
        for outcome in outcomes:
            counted = outcome_of(outcome.conversation) if outcome.conversation else None
            if counted is not None:
                task, before = outcome.seat.task, progress.curriculum
                progress.curriculum = before.observe(task.tier, counted, task.problem).skipping(self.training)

    def _evaluate(self, step: int) -> None:
        began_s = time.monotonic()
        seats = [
            self.loop.AgentSlot(
                f"held.{place}", 0, task, _seed(self.config.seed, 0, place), step + 1, evaluating=True
            )
            for place, task in enumerate(self.held_out)
        ]
        outcomes, _ = self._play(seats)
        refuse_without_verdicts(outcomes, self.config.evaluator.fault_share)
        values = {**self._measured(outcomes), "evaluation_s": time.monotonic() - began_s}
        self.evaluations[step] = values.get("reward/final")
        # As after a step; what is killed before its measures is made again, and its transcripts take the place.
        self._keep_transcripts(f"held_out-{step:06d}", None, outcomes)
        self.writer.write(step, values, kind="held_out")

    def _save(self, step: int) -> Checkpoint:
        with writing_checkpoint(step, self.checkpoints.folder):
            place = self.checkpoints.begin(step)
            for role, learner in self.learners.items():
                with self._aside():
                    learner.save(place / role, step)
        return self.checkpoints.finish(step, self.progress.state(), self.config.checkpointing.keep)

    @contextmanager
    def _aside(self) -> Iterator[None]:
        """What verl prints and warns of goes into a file, not between the lines for a person."""
        with redirect_stdout(_AppendedText(self.folder / "verl.log")), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield

    def forget_transcripts(self) -> None:
        """Remove those of steps that are done again, and of an earlier run of this name that left no checkpoint."""
        done = self.progress.step
        for path in (self.folder / "transcripts").glob("*-*.jsonl"):
            number = path.stem.rpartition("-")[2]
            if number.isdigit() and (int(number) > done or done == 0):
                path.unlink()

    def _keep_transcripts(self, name: str, step: int | None, outcomes: Sequence[Any]) -> None:
        share, credit = self.config.logging.transcripts_share, credit_settings(self.config.flow)
        kept = [
            transcripts.transcript(outcome.conversation, credit, step)
            for outcome in outcomes
            if outcome.conversation is not None and _seed(0, outcome.seat.uid, outcome.seat.candidate) < share * 2**31
        ]
        path = self.folder / "transcripts" / f"{name}.jsonl"
        if kept:
            transcripts.write_transcripts(path, kept)


class _AppendedText(io.TextIOBase):
    """Adds to a file, which it opens for each text anew.

    A package that is imported meanwhile may keep what stdout is then, as vLLM's log handler does, and write to it for
    as long as the process lives.
    """

    encoding = "utf-8"

    def __init__(self, path: Path) -> None:
        self._path = path

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._path.open("a", encoding=self.encoding) as file:
            return file.write(text)


def _due(step: int, config: TrainingConfig, every_episodes: int) -> bool:
    """Whether a step ends one of the rounds of `every_episodes`, rounded up to whole steps."""
    steps = max(1, -(-every_episodes // config.episodes_per_step))
    return step % steps == 0


def _seed(*parts: object) -> int:
    """A number below 2^31 that hangs on all parts, the same on every machine."""
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(blake2b(text, digest_size=4).digest(), "big") >> 1
