"""Who is evaluated: models in folders, alone or as two agents, and scripts that answer with known kernels."""

import hashlib
import json
import random
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Final

from trainer.conversation.conversation import AgentName, Flow, Message, Response
from trainer.conversation.episode import Policy
from trainer.conversation.extraction import wrapped
from trainer.data import corpus
from trainer.data.kernels.style import Style
from trainer.data.operations import OPERATIONS
from trainer.data.tasks import Task
from trainer.errors import ConfigurationError

TEMPLATES: Final = "templates"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ABOUT_WEIGHTS: Final = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
_DRAWS: Final = 16
"""Of a kernel that was not there before in a conversation."""
_CHUNK_BYTES: Final = 1 << 22
_LONGEST_HEADER: Final = 100 << 20
"""Of a safetensors file, as its own library bounds it."""


@dataclass(frozen=True)
class AgentModel:
    """The weights of one agent: a Hugging Face folder, and the adapters over it, if any."""

    folder: Path
    sha256: str
    parameters: int | None
    adapter: Path | None = None


@dataclass(frozen=True)
class TemplateSettings:
    """How a script chooses among the known kernels of a problem."""

    style: str = "any"
    """`plain`: the first of the ladder, which is the plainest; `fast`: its last; `any`: drawn by the seed."""
    right_share: float = 1.0
    """Chance of a right kernel; the others have a typical flaw."""


@dataclass(frozen=True)
class System:
    """What answers, under one name in the report. Raises ConfigurationError for a name that cannot be one."""

    name: str
    origin: str
    """Where it comes from, in words."""
    flow: Flow
    models: Mapping[AgentName, AgentModel] = field(default_factory=dict)
    templates: TemplateSettings | None = None
    """Of a script, which has no models."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigurationError(
                f"{self.name!r} cannot be the name of a system.",
                "Take at most 100 letters, digits, dots, dashes and underscores.",
            )

    @property
    def identity(self) -> str:
        """Equal for systems that give the same answers to the same seeds."""
        who = {agent: model.sha256 for agent, model in self.models.items()}
        told = json.dumps([who, str(self.templates), str(self.flow)], sort_keys=True)
        return hashlib.sha256(told.encode()).hexdigest()[:16]


def read_model(folder: Path, adapter: Path | None = None) -> AgentModel:
    """The model in a Hugging Face folder, with adapters in peft's form over it. All its bytes are read.

    Raises ConfigurationError for a folder of another layout: what it holds, and what to name in its place.
    """
    if not (folder / "config.json").is_file():
        raise ConfigurationError(f"There is no language model in {folder}{_found_in(folder)}.", _what_to_name(folder))
    weights = sorted([*folder.glob("*.safetensors"), *folder.glob("pytorch_model*.bin")])
    if not weights:
        raise ConfigurationError(
            f"{folder} has a config.json and no weights (*.safetensors){_found_in(folder)}.", _what_to_name(folder)
        )
    tuned: list[Path] = []
    if adapter is not None:
        tuned = sorted(adapter.glob("adapter_*"))
        if not (adapter / "adapter_config.json").is_file() or len(tuned) < 2:
            raise ConfigurationError(
                f"There are no adapters in {adapter}{_found_in(adapter)}.",
                "Name a folder with adapter_config.json and adapter_model.safetensors.",
            )
    about = [folder / name for name in _ABOUT_WEIGHTS if (folder / name).is_file()]
    found = hashlib.sha256()
    try:
        for path in (*about, *weights, *tuned):
            found.update(f"{path.name} {path.stat().st_size}\n".encode())
            with path.open("rb") as file:
                while chunk := file.read(_CHUNK_BYTES):
                    found.update(chunk)
        counts = [_parameters(path) for path in weights if path.suffix == ".safetensors"]
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be read: {error}.", "Fix its permissions.") from error
    return AgentModel(folder, found.hexdigest(), sum(counts) if counts else None, adapter)


def _parameters(path: Path) -> int:
    """How many numbers a safetensors file holds. Raises ConfigurationError where it is none."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 0 < length <= _LONGEST_HEADER:
                raise ValueError(f"its header would have {length} bytes")
            header = json.loads(file.read(length))
        return sum(prod(one["shape"]) for name, one in header.items() if name != "__metadata__")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{path} is no file of safetensors: {error}.", "Copy it again, or save the model with save_pretrained."
        ) from error


def _found_in(folder: Path) -> str:
    if not folder.is_dir():
        return ": there is no such folder"
    names = sorted(path.name for path in folder.iterdir())
    return f", which holds {', '.join(names[:6])}{' …' if len(names) > 6 else ''}" if names else ": it is empty"


def _what_to_name(folder: Path) -> str:
    if (folder / "adapter_config.json").is_file():
        return f"These are adapters: name BASE+{folder}, with the folder of the model that they were tuned from."
    if (folder / "huggingface" / "config.json").is_file():
        return f"Name {folder / 'huggingface'}."
    if next(folder.glob("model_world_size_*"), None) is not None:
        return (
            "These are shards of verl's: name the run's folder, or merge them first (python -m verl.model_merger "
            f"merge --backend fsdp --local_dir {folder} --target_dir …)."
        )
    return (
        "Name a Hugging Face folder (config.json, *.safetensors, tokenizer.json), the folder of a training run, or "
        "smollm2-135m."
    )


def template_settings(text: str) -> TemplateSettings:
    """Of `templates`, `templates:plain`, `templates:fast` or `templates:0.5`. Raises ConfigurationError."""
    choice = text.partition(":")[2] or "any"
    if choice in ("any", "plain", "fast"):
        return TemplateSettings(choice)
    try:
        share = float(choice)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ConfigurationError(
            f"{text} is no script.",
            "Take templates, templates:plain, templates:fast, or the share of right kernels, as in templates:0.5.",
        )
    return TemplateSettings(right_share=share)


@dataclass(frozen=True)
class TemplatePolicy:
    """A policy that answers each task with a kernel of `trainer.data.corpus` or of its operation, and with words
    alone where there is none: what a model of these templates can reach.
    """

    tasks: Mapping[str, str]
    """Problems by the texts of their tasks."""
    settings: TemplateSettings

    async def respond(self, messages: tuple[Message, ...], *, seed: int, max_tokens: int) -> Response:
        """A kernel for the task that the first message of a user holds; another one for another seed."""
        asked = next(message.text for message in messages if message.role == "user")
        problem = self.tasks.get(asked) or next(
            (problem for text, problem in self.tasks.items() if text in asked), None
        )
        styles = _styles(problem) if problem is not None else ()
        if not styles:
            return Response(f"There is no template for {problem or 'this task'}.")
        rng, said = random.Random(f"{seed} {problem}"), "\n".join(message.text for message in messages)
        pick = self.settings.style
        for _ in range(_DRAWS):
            style = rng.choice(styles) if pick == "any" else styles[0 if pick == "plain" else -1]
            flaw = None if rng.random() < self.settings.right_share else rng.choice(corpus.flaws(style))
            source = corpus.render_prompt(style, flaw).source
            # The same again would end the conversation.
            if source not in said:
                break
        return Response(wrapped(source))


def _styles(problem: str) -> tuple[Style, ...]:
    return tuple(OPERATIONS[problem].family.styles) if problem in OPERATIONS else corpus.styles(problem)


@contextmanager
def opened(
    system: System, tasks: Sequence[Task], *, temperature: float, device: str, batch_size: int, top_p: float = 1.0
) -> Iterator[dict[AgentName, Policy]]:
    """The policies of a system, by agent, loaded on the device. Raises ConfigurationError for weights that are not
    those of their configuration.
    """
    if system.templates is not None:
        script = TemplatePolicy({task.text: task.problem for task in tasks}, system.templates)
        agents = (AgentName.GENERATOR, AgentName.OPTIMIZER)
        yield {agent: script for agent in agents if agent is AgentName.GENERATOR or not system.flow.single_agent}
        return
    # Slow to import, and no script needs them.
    from trainer.policies.local_policy import LocalPolicy, SamplingSettings

    sampling = SamplingSettings(temperature, batch_size, top_p)
    with tempfile.TemporaryDirectory(prefix="assay-evaluate-") as scratch:
        policies: dict[AgentName, Policy] = {}
        for agent, model in system.models.items():
            folder = model.folder
            if model.adapter is not None:
                from trainer.policies import adapters

                folder = Path(scratch) / agent
                adapters.merge(model.folder, model.adapter, folder)
            policies[agent] = LocalPolicy(folder, sampling, device=device)
        yield policies
