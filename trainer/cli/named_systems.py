"""What `--system NAME=WHAT` of `assay-train evaluate` names: folders of models, of training runs, and scripts.

base=smollm2-135m                     a model that writes all kernels
sft=runs/a@sft                        of a run: @base, @sft, @cross, @newest (or nothing), @24
two=models/generator,models/optimizer two agents
tuned=models/base+adapters/one        adapters over the model that they were tuned from
best=templates:fast                   known kernels: templates, templates:plain, templates:fast, templates:0.5
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trainer.cli.doctor import refuse_without_model
from trainer.config.reading import load_config
from trainer.config.schema import AgentRole, TrainingConfig
from trainer.conversation.conversation import AgentName, Flow
from trainer.errors import ConfigurationError
from trainer.evaluation.systems import TEMPLATES, AgentModel, System, read_model, template_settings

_PLACES: Final = {
    "base": "before it was tuned",
    "sft": "after supervised fine-tuning",
    "cross": "after the agents have learned from each other",
    "newest": "newest checkpoint",
}
_SMOLLM2: Final = "smollm2-135m"
CONFIG: Final = "config.yaml"
"""The file that makes a folder that of a training run."""


@dataclass(frozen=True)
class NamedSystem:
    """What was asked for under one name."""

    name: str
    what: str

    @property
    def run(self) -> Path | None:
        """The folder of the training run that it is of; None where it is of none."""
        folder, _ = self._placed()
        return folder if (folder / CONFIG).is_file() else None

    def _placed(self) -> tuple[Path, str]:
        """A folder, and the place in it."""
        whole = Path(self.what)
        if whole.exists() or "@" not in self.what:
            return whole, "newest"
        folder, _, place = self.what.rpartition("@")
        return Path(folder), place

    def system(self, flow: Flow) -> System:
        """The system itself, whose models are read. `flow`: of the evaluation. Raises ConfigurationError,
        CheckpointError.
        """
        if self.what.partition(":")[0] == TEMPLATES:
            single = Flow(flow.max_turns, flow.stop_at, single_agent=True)
            return System(self.name, f"script: {self.what}", single, templates=template_settings(self.what))
        if self.run is not None:
            run, place = self._placed()
            models = _models_of_run(run, place)
            words = _PLACES.get(place, f"step {place}")
            return self._of(f"training run {run.name}, {words}", models, flow)
        folder, _ = self._placed()
        if (folder / "state.json").is_file():
            return self._of(f"checkpoint {folder.name}", _models_of_step(folder), flow)
        if not folder.exists() and "@" in self.what:
            raise ConfigurationError(
                f"{self.name}: {self._placed()[0]} is no folder of a training run: it has no {CONFIG}.",
                "Name one such as runs/cpu-demo.",
            )
        parts = [self.what] if folder.exists() else self.what.split(",")
        if len(parts) > 2:
            raise ConfigurationError(
                f"{self.name}={self.what} names {len(parts)} models.",
                "Name one, or a Generator's and an Optimizer's.",
            )
        agents = (AgentName.GENERATOR, AgentName.OPTIMIZER)
        found = dict(zip(agents, map(_model, parts), strict=False))
        return self._of(" and ".join(Path(part).name for part in parts), found, flow)

    def _of(self, origin: str, models: Mapping[AgentName, AgentModel], flow: Flow) -> System:
        own = Flow(flow.max_turns, flow.stop_at, single_agent=len(models) == 1)
        return System(self.name, origin, own, models)


def named_systems(words: Sequence[str]) -> tuple[NamedSystem, ...]:
    """Of the options `--system`. Raises ConfigurationError for one that is none, and for a name that stands twice."""
    found: dict[str, NamedSystem] = {}
    for word in words:
        name, equals, what = word.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", name) or not what:
            raise ConfigurationError(
                f"--system {word} is not NAME=WHAT.",
                "Give a name of at most 40 letters, digits, dots, dashes and underscores, as in base=smollm2-135m.",
            )
        try:
            Path(what).exists()
        except OSError as error:
            raise ConfigurationError(
                f"--system {word[:80]}… names what no file can be: {error.strerror}.", "Name a folder, or a script."
            ) from error
        if name in found:
            raise ConfigurationError(f"Two systems are called {name}.", "Give each --system a name of its own.")
        found[name] = NamedSystem(name, what)
    return tuple(found.values())


def turns_of(words: Sequence[str], systems: Sequence[NamedSystem]) -> dict[str, int]:
    """Of the options `--turns NAME=N`. Raises ConfigurationError."""
    found = {}
    for word in words:
        name, _, number = word.partition("=")
        if name not in {one.name for one in systems} or not number.isdecimal() or not 1 <= int(number) <= 100:
            raise ConfigurationError(
                f"--turns {word} is not NAME=N.", "Name a system that is evaluated, and 1 to 100 kernels."
            )
        found[name] = int(number)
    return found


def _model(word: str) -> AgentModel:
    if word == _SMOLLM2:
        from trainer.policies import models

        return read_model(models.smollm2())
    base, _, adapter = (word, "", "") if Path(word).exists() else word.partition("+")
    found = read_model(Path(base), Path(adapter) if adapter else None)
    # Without a template nobody could ask it anything.
    refuse_without_model(found.folder)
    return found


def _models_of_run(run: Path, place: str) -> dict[AgentName, AgentModel]:
    from trainer.rl.checkpoints import Checkpoints

    config = load_config(str(run / CONFIG))
    if place in ("base", "sft", "cross"):
        return {AgentName(role): read_model(_before(run, config, role, place)) for role in config.roles}
    kept = {str(one.step): one for one in Checkpoints(run / "checkpoints").kept()}
    if not kept:
        raise ConfigurationError(
            f"The run in {run} has no checkpoint yet.",
            "Name a place before its reinforcement learning: @base, @sft or @cross.",
        )
    if place == "newest":
        place = list(kept)[-1]
    if place not in kept:
        raise ConfigurationError(
            f"The run in {run} has no checkpoint of step {place}.",
            f"It has {', '.join(kept)}; there are also {', '.join(f'@{name}' for name in _PLACES)}.",
        )
    return {AgentName(role): read_model(kept[place].model(role)) for role in config.roles}


def _models_of_step(folder: Path) -> dict[AgentName, AgentModel]:
    from trainer.rl.checkpoints import read_checkpoint

    checkpoint = read_checkpoint(folder)
    roles: tuple[AgentRole, ...] = ("generator", "optimizer")
    there = [role for role in roles if (folder / role).is_dir()]
    if not there:
        raise ConfigurationError(f"The checkpoint in {folder} has no agent.", "Name another one.")
    return {AgentName(role): read_model(checkpoint.model(role)) for role in there}


def _before(run: Path, config: TrainingConfig, role: AgentRole, place: str) -> Path:
    """The folder of an agent before reinforcement learning."""
    from trainer.cli.console import TUNING

    tuning = run / TUNING
    if place == "base":
        name = config.model_names[role]
        if name == _SMOLLM2:
            from trainer.policies import models

            return models.smollm2()
        made = [*tuning.glob(f"{role}-start-*"), *((run / "models").glob(f"{role}-*") if not tuning.is_dir() else ())]
        return _only([path for path in made if path.is_dir()], run, role, place) if name == "tiny" else Path(name)
    stems = f"{role}-together-*" if place == "cross" else f"{role}-*"
    of_others = ("-start-", *(() if place == "cross" else ("-together-",)))
    epochs = [
        _last_epoch(path)
        for path in tuning.glob(stems)
        if path.is_dir() and not any(word in path.name for word in of_others)
    ]
    return _only([path for path in epochs if path is not None], run, role, place)


def _last_epoch(folder: Path) -> Path | None:
    numbers = [
        int(path.name.removeprefix("epoch-")) for path in folder.glob("epoch-*") if (path / "config.json").is_file()
    ]
    return folder / f"epoch-{max(numbers)}" if numbers else None


def _only(found: Sequence[Path], run: Path, role: AgentRole, place: str) -> Path:
    if len(found) == 1:
        return found[0]
    if not found:
        raise ConfigurationError(
            f"The run in {run} has no {role} {_PLACES[place]}.", "Name another place, or the model's folder itself."
        )
    raise ConfigurationError(
        f"The run in {run} has {len(found)} of the {role} {_PLACES[place]}: {', '.join(map(str, found))}.",
        "Name one of these folders.",
    )
