"""What a run needs to go on: verl's checkpoint of each agent, and beside them the run's own state.

    checkpoints/step-000042/generator/global_step_42/actor/…   verl: weights, optimizer, random state; huggingface/
                            optimizer/global_step_42/…
                            state.json                          the run's: written last, so it makes the rest count

A folder without `state.json` is what a killed run had begun to write: it does not count, takes the place of none that
does, and is removed when the next one has been written.
"""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, get_args

from common.file_replacement import replace_file
from trainer.config.schema import AgentRole
from trainer.data.tasks import Task
from trainer.errors import CheckpointError, TrainerError, is_out_of_memory
from trainer.evaluator.oracle import Place
from trainer.rl.curriculum import Curriculum

FORM: Final = 1
"""Version of `state.json`."""
_STATE: Final = "state.json"


@dataclass(frozen=True)
class Checkpoint:
    """One that counts."""

    folder: Path
    step: int
    state: Mapping[str, Any]
    """What the runner keeps: curriculum, counters."""

    def agent(self, role: AgentRole) -> Path:
        """The folder of one agent. Raises CheckpointError where it is missing."""
        found = self.folder / role / f"global_step_{self.step}"
        if not found.is_dir():
            raise CheckpointError(
                f"{self.folder} has no checkpoint of the {role}.",
                "A run goes on with the agents that it began with: change agents back, or start with another name.",
            )
        return found

    def check(self, role: AgentRole, workers: Mapping[str, int]) -> None:
        """Raise CheckpointError for what verl cannot load: it has a file for each worker, and needs as many again.

        `workers`: how many there are to be of `actor`, and of `critic` where there is one.
        """
        for part, count in workers.items():
            files = list((self.agent(role) / part).glob("model_world_size_*_rank_0.pt"))
            if not files:
                raise CheckpointError(
                    f"{self.folder} has no {part} of the {role}.",
                    "Go on with the algorithm that the run began with, or start over with --fresh.",
                )
            if not any(file.name == f"model_world_size_{count}_rank_0.pt" for file in files):
                before = files[0].name.split("_")[3]
                raise CheckpointError(
                    f"The {part} of the {role} in {self.folder} is of {before} GPUs, and {count} are to train it. "
                    "verl goes on with the same number only.",
                    "Change resources back to the GPUs that the run began with, or start over with --fresh.",
                )

    def model(self, role: AgentRole) -> Path:
        """One agent's whole model, as a folder that transformers and `trainer.policies.local_policy` load."""
        return self.agent(role) / "actor" / "huggingface"


class Checkpoints:
    """The checkpoints of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, step: int) -> Path:
        """An empty folder to write a checkpoint into; it counts once `finish` has been called."""
        place = self.folder / f"step-{step:06d}"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        return place

    def finish(self, step: int, state: Mapping[str, Any], keep: int) -> Checkpoint:
        """Make the checkpoint of a step count, and remove all but the newest `keep`."""
        place = self.folder / f"step-{step:06d}"
        text = json.dumps({"form": FORM, "step": step, "state": dict(state)}, indent=1)
        try:
            replace_file(place / _STATE, text, on_disk=True)
        except OSError as error:
            raise CheckpointError(
                f"{place} cannot be written: {error}", "Make room, or fix its permissions."
            ) from error
        counting = [folder for folder in self._folders() if _counts(folder)]
        for old in set(self._folders()) - set(counting[-keep:]):
            # First, so that one of which only a part is removed does not count any more.
            with suppress(OSError):
                (old / _STATE).unlink()
            shutil.rmtree(old, ignore_errors=True)
        return Checkpoint(place, step, state)

    def newest(self) -> Checkpoint | None:
        """The newest that counts; None where there is none. Raises CheckpointError for one that cannot be read."""
        for place in reversed(self._folders()):
            if _counts(place):
                return read_checkpoint(place)
        return None

    def kept(self) -> tuple[Checkpoint, ...]:
        """All that count, the oldest first. Raises CheckpointError for one that cannot be read."""
        return tuple(read_checkpoint(place) for place in self._folders() if _counts(place))

    def _folders(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("step-*") if path.is_dir())


@dataclass
class RunProgress:
    """What a checkpoint keeps of the run itself."""

    curriculum: Curriculum
    models: Mapping[AgentRole, str] = field(default_factory=dict)
    """The folder of each model that was made here, by agent."""
    ran_on: Mapping[str, Place] = field(default_factory=dict)
    """Where the right kernels of each problem count, by its id, with `evaluator.backend` auto."""
    step: int = 0
    episodes: int = 0
    left_out: int = 0
    failures: int = 0

    def state(self) -> dict[str, Any]:
        counted = {name: getattr(self, name) for name in ("episodes", "left_out", "failures")}
        kept = {"models": dict(self.models), "ran_on": dict(self.ran_on)}
        return {**counted, "curriculum": self.curriculum.state(), **kept}

    def restore(self, found: Checkpoint, training: Sequence[Task] = ()) -> None:
        """Go on from a checkpoint, at the first tier from its own on that has any of the tasks to train on. Raises
        CheckpointError for a state of another layout.
        """
        try:
            counted = [int(found.state[name]) for name in ("episodes", "left_out", "failures")]
            curriculum, models = found.state["curriculum"], dict(found.state.get("models", {}))
            ran_on = dict(found.state.get("ran_on", {}))
            if not set(ran_on.values()) <= set(get_args(Place)):
                raise ValueError(f"ran_on names other places than {', '.join(get_args(Place))}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The state of the checkpoint in {found.folder} cannot be read: {type(error).__name__} {error}.",
                "Remove this folder to go on from the one before it.",
            ) from error
        self.curriculum = self.curriculum.restored(curriculum).skipping(training)
        self.step, self.models, self.ran_on = found.step, models, ran_on
        self.episodes, self.left_out, self.failures = counted


@contextmanager
def writing_checkpoint(step: int, folder: Path) -> Iterator[None]:
    """Raises CheckpointError where the checkpoint of a step cannot be written: verl, torch and Ray each have words of
    their own for a disk that is full.
    """
    try:
        yield
    except TrainerError:
        raise
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[-1]
        free = shutil.disk_usage(next(each for each in (folder, *folder.absolute().parents) if each.exists())).free
        raise CheckpointError(
            f"The checkpoint of step {step} cannot be written in {folder}, where {free / (1 << 30):.2f} GiB are "
            f"free: {reason}",
            "Make room there (checkpointing.keep=1 keeps fewer); the same command goes on from the one before.",
        ) from error


@contextmanager
def loading_checkpoint(found: Checkpoint | None) -> Iterator[None]:
    """Raises CheckpointError where verl cannot load what a checkpoint holds: a file that was cut off, or weights of
    another model. What has other reasons, want of memory among them, is raised as it is.
    """
    try:
        yield
    except Exception as error:
        said = str(error).strip()
        if found is None or "load_checkpoint" not in said or is_out_of_memory(said):
            raise
        raise CheckpointError(
            f"The checkpoint in {found.folder} cannot be loaded: {said.splitlines()[-1][-600:]}",
            "Remove this folder to go on from the one before it; or, where model or agents were changed, change them "
            "back.",
        ) from error


def _counts(folder: Path) -> bool:
    return (folder / _STATE).is_file()


def read_checkpoint(folder: Path) -> Checkpoint:
    """The checkpoint in a folder. Raises CheckpointError."""
    try:
        found = json.loads((folder / _STATE).read_text(encoding="utf-8"))
        if found["form"] != FORM:
            raise ValueError(f"it has the form {found['form']}, and this trainer reads form {FORM}")
        return Checkpoint(folder, int(found["step"]), found["state"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"The checkpoint in {folder} cannot be read: {error}",
            "Remove this folder to go on from the one before it.",
        ) from error
