"""From our configuration to verl's: composed from verl's own files, so that a key that verl does not have is refused.

What runs here is tested on a CPU with `rollout.name: hf`. The settings for GPUs, vLLM and SGLang are composed and
checked by verl's own checks and dataclasses; they have not been run.
"""

import warnings
from collections.abc import Mapping
from contextlib import contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any, Final

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import ConfigAttributeError, ConfigKeyError

from trainer.config.placement import gpus_of
from trainer.config.schema import SERVER_PACKAGES, AgentRole, TrainingConfig
from trainer.errors import ConfigurationError

LOOP = "assay_conversation"
"""Name under which verl finds our agent loop."""
ADVANTAGES: Final[Mapping[str, str]] = {
    "gae": "gae",
    "group": "assay_group",
    "turn": "assay_turn",
    "leave_one_out": "assay_leave_one_out",
}
"""Our names of advantage estimators, and verl's."""
_FREE: Final = (".mixed_precision", ".custom", ".engine_kwargs", "override_config.attn_implementation")
"""Ends of keys below which verl names nothing itself."""
DAPO_CLIP_HIGH: Final = 0.28
"""Upper clip of DAPO (Yu et al. 2025, section 4.1)."""


def worker_environment(config: TrainingConfig) -> dict[str, str]:
    """Environment variables of every process of a run; they must be set before verl is imported."""
    # A sum over two threads may be rounded otherwise from one time to the next.
    threads = 1 if config.deterministic and config.resources.device == "cpu" else config.resources.threads
    return {
        "VERL_USE_EXTERNAL_MODULES": "trainer.rl.patches",
        "VERL_LOGGING_LEVEL": "WARNING",
        "TQ_LOGGING_LEVEL": "ERROR",
        "TOKENIZERS_PARALLELISM": "false",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        **(
            {
                "VERL_PLATFORM": "cpu",
                # verl registers its engine for CUDA, and it runs on anything that torch runs on.
                "VERL_ENGINE_DEVICE": "cuda",
            }
            if config.resources.device == "cpu"
            else {}
        ),
        **({"OMP_NUM_THREADS": str(threads)} if threads else {}),
        # verl sends a conversation to the server that the hash of its id says, which Python salts in each process.
        **({"PYTHONHASHSEED": str(config.seed)} if config.deterministic else {}),
        **({"VERL_FULL_DETERMINISM": "1"} if config.deterministic and config.resources.device == "cuda" else {}),
    }


def advantage_of(config: TrainingConfig) -> str:
    """The name by which verl knows the advantage estimator."""
    wanted = config.algorithm.advantage
    if wanted == "auto":
        wanted = "gae" if config.algorithm.learns_critic else "group"
    return ADVANTAGES[wanted]


def updates_share_gpus(config: TrainingConfig) -> bool:
    """Whether generation and updates take turns on the same GPUs."""
    return config.resources.device == "cpu" or config.resources.layout == "shared"


def verl_settings(
    config: TrainingConfig, role: AgentRole, model: Path | str, resume: Path | None = None
) -> dict[str, Any]:
    """What is different from verl's defaults for one agent, by verl's dotted keys.

    `model`: folder or name of the model; `resume`: verl's folder `global_step_N` to go on from.
    """
    ours = config.for_agent(role)
    algorithm, rollout, resources = ours.algorithm, ours.rollout, ours.resources
    cpu = resources.device == "cpu"
    shared = updates_share_gpus(ours)
    gpus = gpus_of(ours, role)
    placed = getattr(resources, f"{role}_gpus") is not None
    concurrency = min(rollout.concurrency, ours.episodes_per_step)
    kl_in_loss = algorithm.kl_coefficient > 0 and algorithm.kl_in == "loss"
    kl_in_reward = algorithm.kl_coefficient > 0 and algorithm.kl_in == "reward"
    clip_high = algorithm.clip_high or (DAPO_CLIP_HIGH if algorithm.name == "dapo" else algorithm.clip)
    mean = algorithm.loss_mean
    if mean == "auto":
        mean = "conversation" if algorithm.name == "grpo" else "token"
    model_settings = {
        "path": str(model),
        "enable_gradient_checkpointing": ours.model.gradient_checkpointing,
        # Packing needs FlashAttention's kernels for sequences of different lengths.
        "use_remove_padding": ours.model.attention == "flash_attention_2",
        "override_config.attn_implementation": ours.model.attention,
    }
    precision = "fp32" if ours.model.dtype == "float32" else "bf16"
    engine = {
        "param_offload": ours.model.offload,
        "optimizer_offload": ours.model.offload,
        "use_torch_compile": not cpu,
        "seed": ours.seed,
        "full_determinism": ours.deterministic and not cpu,
        "mixed_precision": {"param_dtype": precision, "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
    }
    optimizer = {"clip_grad": algorithm.gradient_clip, "lr_warmup_steps": algorithm.learning_rate_warmup_steps}
    keep = {
        "save_contents": ["model", "optimizer", "extra", "hf_model"],
        "load_contents": ["model", "optimizer", "extra"],
    }
    settings: dict[str, Any] = {
        "data.train_batch_size": algorithm.prompts_per_step,
        "data.max_prompt_length": rollout.prompt_tokens,
        "data.max_response_length": rollout.sequence_tokens - rollout.prompt_tokens,
        "data.seed": ours.seed,
        "algorithm.adv_estimator": advantage_of(ours),
        "algorithm.gamma": algorithm.gamma,
        "algorithm.lam": algorithm.lam,
        "algorithm.use_kl_in_reward": kl_in_reward,
        "algorithm.kl_ctrl.kl_coef": algorithm.kl_coefficient,
        **_under("actor_rollout_ref.model", model_settings),
        "actor_rollout_ref.model.lora_rank": ours.model.lora_rank,
        # Adapters reach every kind of server as part of the weights: `hf` and servers on GPUs of their own know none.
        "actor_rollout_ref.model.lora.merge": ours.model.lora_rank > 0,
        **_under("actor_rollout_ref.actor.fsdp_config", engine),
        **_under("actor_rollout_ref.actor.optim", {**optimizer, "lr": algorithm.learning_rate}),
        **_under("actor_rollout_ref.actor.checkpoint", keep),
        **_under(
            "actor_rollout_ref.actor",
            {
                "strategy": "fsdp2",
                "use_torch_compile": not cpu,
                "ppo_mini_batch_size": algorithm.mini_batch_size,
                "ppo_micro_batch_size_per_gpu": algorithm.micro_batch_size,
                "ppo_epochs": algorithm.ppo_epochs,
                "clip_ratio": algorithm.clip,
                "clip_ratio_low": algorithm.clip,
                "clip_ratio_high": clip_high,
                "entropy_coeff": algorithm.entropy_coefficient,
                "use_kl_loss": kl_in_loss,
                "kl_loss_coef": algorithm.kl_coefficient,
                "loss_agg_mode": "token-mean" if mean == "token" else "seq-mean-token-mean",
                "grad_clip": algorithm.gradient_clip,
                "data_loader_seed": ours.seed,
            },
        ),
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu": algorithm.micro_batch_size,
        "actor_rollout_ref.ref.fsdp_config.mixed_precision": engine["mixed_precision"],
        "actor_rollout_ref.ref.use_torch_compile": not cpu,
        "actor_rollout_ref.ref.fsdp_config.use_torch_compile": not cpu,
        **_under(
            "actor_rollout_ref.rollout",
            {
                "name": rollout.name,
                "temperature": rollout.temperature,
                "top_p": rollout.top_p,
                "n": algorithm.candidates,
                "seed": ours.seed,
                "dtype": ours.model.dtype,
                "tensor_model_parallel_size": rollout.tensor_parallel,
                "enforce_eager": rollout.enforce_eager,
                "gpu_memory_utilization": rollout.memory_share / (len(ours.roles) if shared and not placed else 1),
                "max_model_len": rollout.sequence_tokens,
                "max_num_seqs": concurrency,
                "log_prob_micro_batch_size_per_gpu": algorithm.micro_batch_size,
                "calculate_log_probs": True,
                "free_cache_engine": rollout.name != "hf" and shared,
                "full_determinism": ours.deterministic and rollout.name == "vllm",
                "n_gpus_per_node": gpus.generation,
                "nnodes": 0 if shared else resources.nodes,
                "agent.num_workers": 1,
                "agent.default_agent_loop": LOOP,
                "agent.agent_loop_config_path": str(Path(__file__).with_name("agent_loop.yaml")),
                "checkpoint_engine.backend": "naive" if shared else "nccl",
                "checkpoint_engine.update_weights_bucket_megabytes": rollout.weights_buffer_mib,
                # Of one name, the groups of two agents would be one.
                "checkpoint_engine.engine_kwargs": {} if shared else {"nccl": {"group_name": f"assay-{role}"}},
                "custom": {
                    "server_name": f"assay-{role}",
                    "device": resources.device,
                    "attention": ours.model.attention,
                    "threads": resources.threads,
                    "one_at_a_time": ours.deterministic,
                    "critic_gpus_per_node": gpus.critic,
                    "reference_gpus_per_node": gpus.reference,
                },
            },
        ),
        "actor_rollout_ref.hybrid_engine": shared,
        **_under("critic.model", model_settings),
        "critic.model.tokenizer_path": str(model),
        **_under("critic.fsdp", engine),
        **_under("critic.optim", {**optimizer, "lr": algorithm.critic_learning_rate}),
        **_under("critic.checkpoint", {**keep, "save_contents": ["model", "optimizer", "extra"]}),
        **_under(
            "critic",
            {
                "enable": ours.algorithm.learns_critic,
                "strategy": "fsdp2",
                "ppo_micro_batch_size_per_gpu": algorithm.micro_batch_size,
                "cliprange_value": algorithm.value_clip,
                "grad_clip": algorithm.gradient_clip,
                "data_loader_seed": ours.seed,
            },
        ),
        "reward.num_workers": 0,
        "transfer_queue.enable": True,
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1 if cpu else 8,
        **_under(
            "trainer",
            {
                "device": resources.device,
                "nnodes": resources.nodes,
                "n_gpus_per_node": gpus.updates,
                "critic_warmup": algorithm.critic_warmup_steps,
                "total_training_steps": algorithm.steps,
                "project_name": "assay",
                "experiment_name": f"{ours.name}-{role}",
                "logger": [],
                "val_before_train": False,
                "resume_mode": "resume_path" if resume else "disable",
                "resume_from_path": str(resume) if resume else None,
            },
        ),
    }
    return settings


def verl_config(config: TrainingConfig, role: AgentRole, model: Path | str, resume: Path | None = None) -> DictConfig:
    """One agent's whole configuration of verl. Raises ConfigurationError for a key that verl does not have."""
    with _hydra(_verl_folder() / "trainer" / "config"):
        composed: DictConfig = compose(config_name="ppo_trainer")
    for key, value in verl_settings(config, role, model, resume).items():
        try:
            new = key.endswith(_FREE)
            OmegaConf.update(composed, key, value, merge=True, force_add=new)
        except (ConfigAttributeError, ConfigKeyError) as error:
            raise ConfigurationError(f"verl has no setting {key!r}: {error}") from error
    return composed


def workers_of(composed: DictConfig) -> dict[str, int]:
    """How many processes train the `actor` of an agent, and its `critic` where it has one."""
    nodes, critic = composed.trainer.nnodes, composed.actor_rollout_ref.rollout.custom.critic_gpus_per_node
    found = {"actor": nodes * composed.trainer.n_gpus_per_node}
    if composed.critic.enable:
        found["critic"] = nodes * critic if critic else found["actor"]
    return found


def verl_yaml(composed: DictConfig) -> str:
    """What verl gets, for a person."""
    text: str = OmegaConf.to_yaml(composed)
    return text


def refuse_without_packages(config: TrainingConfig) -> None:
    """Raises ConfigurationError where a package is missing that only some layouts or ways to generate need."""
    refuse_without_server(config)
    refuse_without_transfer(config)


def refuse_without_transfer(config: TrainingConfig) -> None:
    """Raises ConfigurationError where new weights could not reach servers with GPUs of their own."""
    if not updates_share_gpus(config) and find_spec("cupy") is None:
        raise ConfigurationError(
            "With resources.layout split new weights reach the servers by NCCL, for which verl needs CuPy, and it is "
            "not installed.",
            "Install the one for this CUDA (cupy-cuda12x, cupy-cuda13x), or set resources.layout=shared.",
        )


def refuse_without_server(config: TrainingConfig) -> None:
    """Raises ConfigurationError where the package that is to generate is not installed."""
    name = config.rollout.name
    if name in SERVER_PACKAGES and find_spec(name) is None:
        raise ConfigurationError(
            f"With rollout.name {name} the package {name} generates, and it is not installed.",
            f"Install the version that verl is for (pip install {SERVER_PACKAGES[name]}), or set rollout.name=hf.",
        )


def check_settings(role: AgentRole, composed: DictConfig) -> None:
    """Let verl itself look at a configuration. Raises ConfigurationError with what it says."""
    with warnings.catch_warnings():
        # Of engines that are not installed, and not asked for.
        warnings.simplefilter("ignore")
        from hydra.errors import InstantiationException
        from verl.trainer.ppo.utils import need_critic, need_reference_policy
        from verl.utils.config import omega_conf_to_dataclass, validate_config
    try:
        with redirect_stdout(StringIO()):
            validate_config(
                composed,
                use_reference_policy=need_reference_policy(composed),
                use_critic=need_critic(composed),
            )
            for part in ("actor", "rollout"):
                omega_conf_to_dataclass(composed.actor_rollout_ref[part])
            omega_conf_to_dataclass(composed.critic)
    # Each is what verl, or Hydra for it, raises for a value that it refuses.
    except (AssertionError, ValueError, TypeError, NotImplementedError, InstantiationException) as error:
        raise ConfigurationError(f"verl refuses the configuration of the {role}: {error}") from error


def _verl_folder() -> Path:
    # Found without an import: verl brings torch and Ray along, and what is composed is only text.
    found = find_spec("verl")
    if found is None or not found.submodule_search_locations:
        raise ConfigurationError(
            "verl is not installed.", "Install the trainer's libraries: pip install '.[trainer]'"
        )
    return Path(found.submodule_search_locations[0]).resolve()


def _under(prefix: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{key}": value for key, value in settings.items()}


@contextmanager
def _hydra(folder: Path) -> Any:
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(folder), version_base=None):
        yield
    GlobalHydra.instance().clear()
