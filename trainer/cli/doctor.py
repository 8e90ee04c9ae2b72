"""What a training run needs, looked at before it begins: libraries, evaluator, GPUs, memory for its models."""

import asyncio
import importlib.metadata
import importlib.util
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from common.client import AsyncClient, NoVerdictError
from common.health import HealthCheck
from trainer.config.memory import (
    TRAINED_BYTES,
    USABLE_SHARE,
    GpuLoad,
    gpu_loads,
    host_bytes,
    tester_bytes,
    tuning_load,
)
from trainer.config.schema import SERVER_PACKAGES, TrainingConfig, TunedRole
from trainer.data.operations import chosen_operations
from trainer.data.references import read_references
from trainer.data.tasks import refuse_unknown_problems
from trainer.errors import ConfigurationError, TrainerError
from trainer.evaluator.oracle import Backend, lacking, what_to_start
from trainer.rl.processes import assay_here, kept_gpu, version_of

LIBRARIES: Final = ("verl", "torch", "transformers", "ray", "tensordict", "TransferQueue", "matplotlib")
_GIB: Final = 1 << 30
_ASKED_S: Final = 10.0
_COMMAND_S: Final = 120.0
_MADE_HERE: Final = {"tiny": 5_000_000, "smollm2-135m": 134_500_000}
_SCALE: Final = {"k": 1e3, "m": 1e6, "b": 1e9}
_WAYS: Final[tuple[tuple[str, str, object], ...]] = (
    ("resources", "layout", "shared"),
    ("model", "offload", True),
    ("algorithm", "name", "grpo"),
    ("model", "lora_rank", 32),
    ("sft", "method", "lora"),
    ("sft", "method", "qlora"),
)
"""What makes a run smaller, the least change to what is learned first."""


def examine(config: TrainingConfig) -> Iterator[HealthCheck]:
    """Look at one thing after another."""
    yield _libraries()
    yield from _packages(config)
    found, answers = _evaluator(config)
    yield found
    key, known = _key(config, asked=answers and not config.evaluator.embedded)
    yield key
    yield _tasks(config, _problems_here() if answers and config.evaluator.embedded else known)
    gpus = _gpus()
    yield _devices(config, gpus)
    yield _memory(config, gpus)
    yield _disk(config)


def parameters_of(name: str) -> int | None:
    """How many parameters a model has, from its folder's weights or its name; None where neither says."""
    if name in _MADE_HERE:
        return _MADE_HERE[name]
    folder = Path(name)
    if folder.is_dir():
        size_bytes = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
        text = (folder / "config.json").read_text(encoding="utf-8") if (folder / "config.json").exists() else ""
        return size_bytes // (4 if '"float32"' in text else 2) or None
    found = re.findall(r"(?<![A-Za-z0-9.])(\d+(?:\.\d+)?)([kKmMbB])(?![A-Za-z0-9])", name.rsplit("/", 1)[-1])
    return int(float(found[-1][0]) * _SCALE[found[-1][1].lower()]) if found else None


def folder_named(name: str) -> Path | None:
    """The folder that a model's name is, whether it is there or not; None for one that is ours or the hub's."""
    path = Path(name)
    return path if path.is_dir() or path.is_absolute() or name.startswith(("./", "../")) else None


def refuse_without_model(folder: Path) -> None:
    """Raises ConfigurationError for a folder that is no Hugging Face model, or whose tokenizer has no chat template,
    without loading one.
    """
    if not (folder / "config.json").is_file() or not [*folder.glob("*.safetensors"), *folder.glob("*.bin")]:
        raise ConfigurationError(
            f"There is no language model in {folder}: it needs config.json and weights.",
            f"Name a Hugging Face folder, or one of {', '.join(_MADE_HERE)}.",
        )
    told = folder / "tokenizer_config.json"
    beside = [*folder.glob("chat_template.*"), *folder.glob("additional_chat_templates/*")]
    if told.is_file() and not beside and '"chat_template"' not in told.read_text(encoding="utf-8"):
        raise ConfigurationError(
            f"The tokenizer of {folder} has no chat template, so it is not known how an answer ends.",
            "Take an instruction-tuned model, or put a chat template into its tokenizer_config.json.",
        )


def memory_bytes(config: TrainingConfig) -> int | None:
    """What weights, gradients and optimizers of all agents take together, without activations and caches; None where
    a model's size is not known. A frozen copy to generate with has the type of `model.dtype`; a reference model too.
    """
    counts = parameters_of_agents(config)
    if counts is None:
        return None
    whole = tester_bytes(config, counts)
    for role in config.roles:
        ours, count = config.for_agent(role), counts[role]
        frozen = 4 if ours.model.dtype == "float32" else 2
        # Adapters are small beside the frozen weights under them.
        trained = TRAINED_BYTES if not ours.model.lora_rank else frozen
        whole += count * (trained + frozen)
        whole += count * frozen * (ours.algorithm.kl_coefficient > 0)
        # The critic is trained whole, whatever the policy is.
        whole += count * TRAINED_BYTES * ours.algorithm.learns_critic
    return whole


def _libraries() -> HealthCheck:
    have, missing = [], []
    for name in LIBRARIES:
        try:
            have.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    detail = f"Python {platform.python_version()}, {', '.join(have) or 'no library'}"
    if missing:
        return HealthCheck(
            "libraries", False, f"{detail}; missing: {', '.join(missing)}", "pip install 'assay[trainer]'"
        )
    return HealthCheck("libraries", True, detail)


def _packages(config: TrainingConfig) -> Iterator[HealthCheck]:
    wanted = {
        "vllm": config.rollout.name == "vllm",
        "sglang": config.rollout.name == "sglang",
        "flash_attn": config.model.attention == "flash_attention_2",
        "peft": config.model.lora_rank > 0 or (config.sft.examples > 0 and config.sft.with_adapters),
        "bitsandbytes": config.sft.examples > 0 and config.sft.method == "qlora",
        "gguf": _to_be_converted(config),
        "wandb": config.logging.wandb != "off",
        "tensorboard": config.logging.tensorboard,
    }
    for name, needed in wanted.items():
        if needed and importlib.util.find_spec(name) is None:
            yield HealthCheck(
                name,
                False,
                "this configuration uses it, and it is not installed",
                f"pip install {SERVER_PACKAGES.get(name) or name.replace('_', '-')}",
            )


def _to_be_converted(config: TrainingConfig) -> bool:
    """Whether a model is wanted that is read from a GGUF file, and none of an earlier run is there."""
    if "smollm2-135m" not in config.model_names.values():
        return False
    try:
        from trainer.policies import models
    except ImportError:
        return True
    return not models.smollm2_is_converted()


def _evaluator(config: TrainingConfig) -> tuple[HealthCheck, bool]:
    """And whether there is one, be it ready or not."""
    asked = config.evaluator
    if asked.embedded:
        return _embedded(config)
    try:
        found = version_of(asked.url)
    except TrainerError as error:
        return HealthCheck("evaluator", False, str(error), error.remedy), False
    except OSError as error:
        said = f"{asked.url} does not answer: {getattr(error, 'reason', error)}"
        remedy = "assay serve, or evaluator.url=…, or evaluator.embedded=true"
        return HealthCheck("evaluator", False, said, remedy), False
    said = ", ".join(f"{name} {value}" for name, value in found.items() if isinstance(value, str | int))
    lacks = asyncio.run(_lacking(asked.url))
    if asked.backend in lacks:
        detail = f"{asked.url} takes nothing for evaluator.backend {asked.backend}: {lacks[asked.backend]}"
        return HealthCheck("evaluator", False, detail, what_to_start(asked.backend, lacks)), True
    return HealthCheck("evaluator", True, f"{asked.url}: {said}"), True


def _embedded(config: TrainingConfig) -> tuple[HealthCheck, bool]:
    try:
        command = assay_here()
    except ConfigurationError as error:
        return HealthCheck("evaluator", False, str(error), error.remedy), False
    if config.evaluator.backend == "gpu" and not _grades_on_gpu(command, config):
        return HealthCheck(
            "evaluator",
            False,
            "evaluator.backend is gpu, and the one beside the run (evaluator.embedded) has no GPU to use",
            "`assay doctor` says why; else evaluator.backend=auto or sim, or evaluator.url of a service with a GPU "
            "and evaluator.embedded=false",
        ), True
    return HealthCheck("evaluator", True, "started beside the run (evaluator.embedded)"), True


def _grades_on_gpu(command: str, config: TrainingConfig) -> bool:
    """By the word of `assay doctor`."""
    said = _printed(command, "doctor", more={"ASSAY_GPU": kept_gpu(config)} if config.resources.evaluator_gpu else {})
    return any(re.match(r"ok +GPU referee\b", line) for line in said.splitlines())


def _problems_here() -> list[str] | None:
    """The ids of the problems that an embedded evaluator has; None where it does not say."""
    try:
        return [str(one["id"]) for one in json.loads(_printed(assay_here(), "problems", "--json"))]
    except (ValueError, LookupError, TypeError):
        return None


def _printed(*command: str, more: Mapping[str, str] | None = None) -> str:
    """What a command of the evaluator prints, however it ends; nothing where it takes too long. `more`: variables."""
    own = {**os.environ, **(more or {})}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_COMMAND_S, env=own
        ).stdout
    except subprocess.TimeoutExpired:
        return ""


async def _lacking(url: str) -> dict[Backend, str]:
    async with AsyncClient(url, patience_s=_ASKED_S) as client:
        return await lacking(client)


def _key(config: TrainingConfig, *, asked: bool) -> tuple[HealthCheck, list[str] | None]:
    """`asked`: let the service say whether the key is right. And the ids of its problems, where it told them."""
    name = config.evaluator.key_variable
    key = os.environ.get(name)
    said = "is set" if key else "is not set: right for a service without keys"
    if not asked:
        return HealthCheck("key", None, f"{name} {said}"), None
    try:
        known = asyncio.run(_problems(config.evaluator.url, key))
    except (NoVerdictError, ValueError) as error:
        remedy = f"Set {name} to the key that `assay keys add` printed."
        return HealthCheck("key", False, f"{name} {'is set' if key else 'is not set'}: {error}", remedy), None
    return HealthCheck("key", True, f"{name} {said}; the service answers"), known


async def _problems(url: str, key: str | None) -> list[str]:
    async with AsyncClient(url, key, patience_s=_ASKED_S) as client:
        return [face.id for face in await client.problems()]


def _tasks(config: TrainingConfig, known: list[str] | None) -> HealthCheck:
    """`known`: the ids of the evaluator's problems, where it told them."""
    asked = config.tasks
    try:
        refuse_wrong_tasks(config)
        if known is not None:
            refuse_unknown_problems(asked.problems, known)
    except ConfigurationError as error:
        return HealthCheck("tasks", False, str(error), error.remedy)
    if known is None:
        named = f": whether it has {', '.join(asked.problems)} is not known" if asked.problems else ""
        return HealthCheck("tasks", None, f"the evaluator did not say what problems it has{named}")
    more = [f"tasks.{name}" for name in ("operations", "references") if getattr(asked, name)]
    said = f"{len(asked.problems or known)} of the evaluator's {len(known)} problems"
    return HealthCheck("tasks", True, " and ".join([said, *more]))


def refuse_wrong_tasks(config: TrainingConfig) -> None:
    """Raises ConfigurationError for tasks that are wrong whatever the evaluator has: an operation that there is not,
    or a file of others that cannot be read.
    """
    chosen_operations(config.tasks.operations)
    read_references([Path(one) for one in config.tasks.references])


def _gpus() -> tuple[int, ...]:
    """Memory of each GPU, bytes."""
    try:
        import torch
    except ImportError:
        return ()
    if not torch.cuda.is_available():
        return ()
    return tuple(torch.cuda.get_device_properties(i).total_memory for i in range(torch.cuda.device_count()))


def _devices(config: TrainingConfig, gpus: tuple[int, ...]) -> HealthCheck:
    resources = config.resources
    if resources.device == "cpu":
        return HealthCheck("device", True, f"CPU, {os.cpu_count()} processors")
    if resources.ray_address:
        return HealthCheck("device", None, f"GPUs are those of the cluster at {resources.ray_address}")
    detail = f"{len(gpus)} GPUs here, {resources.gpus_per_node} wanted"
    if len(gpus) < resources.gpus_per_node:
        return HealthCheck(
            "device", False, detail, "resources.gpus_per_node=…, or --config one-gpu, or --config cpu-demo"
        )
    return HealthCheck("device", True, detail)


def _memory(config: TrainingConfig, gpus: tuple[int, ...]) -> HealthCheck:
    for name in config.model_names.values():
        if (model := folder_named(name)) is not None:
            try:
                refuse_without_model(model)
            except ConfigurationError as error:
                said = str(error)
                setting = "model.name" if name == config.model.name else "agents.….model_name"
                return HealthCheck("memory", False, said[:1].lower() + said[1:], f"{setting}=…")
    counts = parameters_of_agents(config)
    needed = memory_bytes(config)
    if needed is None or counts is None:
        return HealthCheck("memory", None, f"the size of {config.model.name} is not known")
    if config.resources.device == "cpu":
        return _host_memory(needed, f"models and optimizers take about {needed / _GIB:.1f} GiB")
    return _gpu_memory(config, counts, gpus)


def _host_memory(needed: int, said: str) -> HealthCheck:
    have = _host_bytes()
    said = f"{said}, activations and caches not counted; there are {have / _GIB:.1f} GiB of memory"
    if needed > USABLE_SHARE * have:
        return HealthCheck("memory", False, said, "a smaller model, or model.lora_rank=32")
    return HealthCheck("memory", True, said)


def _host_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gpu_memory(config: TrainingConfig, counts: dict[TunedRole, int], gpus: tuple[int, ...]) -> HealthCheck:
    """GPU by GPU, as the models are placed; the smallest that there is has to do."""
    loads = _loads(config, counts)
    if not gpus or config.resources.ray_address:
        return HealthCheck("memory", None, "; ".join(_asked_of(load) for load in loads))
    have = min(gpus[: config.resources.gpus_per_node])
    over = [load for load in loads if not load.fits(have)]
    if over:
        said = f"{'; '.join(_told(load, have) for load in over)}; a GPU has {have / _GIB:.0f} GiB"
        way = way_to_fit(config, counts, have, _host_bytes())
        return HealthCheck("memory", False, said, way or "a smaller model, or more GPUs")
    held = host_bytes(config, counts)
    if held > USABLE_SHARE * _host_bytes():
        return _host_memory(held, f"what is not on the GPUs takes about {held / _GIB:.1f} GiB of each node")
    tightest = max(loads, key=lambda load: load.needed_bytes(have))
    return HealthCheck("memory", True, f"at most {_told(tightest, have)}; a GPU has {have / _GIB:.0f} GiB")


def _loads(config: TrainingConfig, counts: dict[TunedRole, int]) -> tuple[GpuLoad, ...]:
    """Of fine-tuning and of what follows it: each has the GPUs for itself."""
    tuning = tuning_load(config, counts)
    return (*gpu_loads(config, counts), *([tuning] if tuning else []))


def way_to_fit(
    config: TrainingConfig, counts: dict[TunedRole, int], gpu_bytes: int, machine_bytes: int
) -> str | None:
    """The fewest settings that let a run fit on GPUs and machines of this size, as they are given on the command
    line; None where none of those that are known does.
    """
    for some in range(1, len(_WAYS) + 1):
        for ways in itertools.combinations(_WAYS, some):
            values = config.model_dump()
            for section, name, value in ways:
                values[section][name] = value
            if values["resources"]["layout"] == "shared" or values["model"]["lora_rank"]:
                # There is none then that could have GPUs of its own.
                values["resources"]["reference_workers"] = 0
            try:
                changed = TrainingConfig.model_validate(values)
            except ValueError:
                continue
            fits = all(load.fits(gpu_bytes) for load in _loads(changed, counts))
            if changed != config and fits and host_bytes(changed, counts) <= USABLE_SHARE * machine_bytes:
                said = [f"{section}.{name}={str(value).lower()}" for section, name, value in ways]
                if config.resources.reference_workers and not changed.resources.reference_workers:
                    said.append("resources.reference_workers=0")
                return " ".join(said)
    return None


def parameters_of_agents(config: TrainingConfig) -> dict[TunedRole, int] | None:
    """How many parameters each agent's model has; None where one is not known."""
    found: dict[TunedRole, int] = {}
    for role, name in config.model_names.items():
        count = parameters_of(name)
        if count is None:
            return None
        found[role] = count
    return found


def _told(load: GpuLoad, memory_bytes: int) -> str:
    one = f"{load.count} GPUs {load.use}: each" if load.count > 1 else f"1 GPU ({load.use}):"
    needed = f"{one} needs {load.needed_bytes(memory_bytes) / _GIB:.0f} GiB"
    part = load.server_share * memory_bytes / load.servers
    if load.server_weights_bytes > USABLE_SHARE * part:
        needed += f", and {load.server_weights_bytes / _GIB:.0f} GiB of weights where a server has {part / _GIB:.0f}"
    return needed


def _asked_of(load: GpuLoad) -> str:
    least = load.least_bytes
    size = "fit on no GPU, lower rollout.memory_share" if least is None else f"{least / _GIB:.0f} GiB at least"
    return f"{load.count} to {load.use}: {size}"


def _disk(config: TrainingConfig) -> HealthCheck:
    folder = Path(config.run_folder).absolute()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    counts = [parameters_of(config.for_agent(role).model.name) for role in config.roles]
    if not os.access(there, os.W_OK) or not free:
        return HealthCheck("disk", False, f"nothing can be written in {there}", "another checkpointing.folder")
    if None in counts:
        return HealthCheck("disk", None, f"{free / _GIB:.0f} GiB free at {there}")
    copies = 2 if config.algorithm.learns_critic else 1
    needed = sum(count or 0 for count in counts) * 14 * copies * (config.checkpointing.keep + 1)
    said = (
        f"{config.checkpointing.keep} checkpoints take about {needed / _GIB:.1f} GiB; {free / _GIB:.0f} GiB are free"
    )
    if needed > free:
        return HealthCheck("disk", False, said, "checkpointing.keep=1, or another checkpointing.folder")
    return HealthCheck("disk", True, f"{said} at {there}")
