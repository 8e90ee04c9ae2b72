"""All that is bound to one version of verl: what is fixed in 0.9.1 so that it also runs without a GPU, and why.

Every process of a run imports this module while it imports verl (`VERL_USE_EXTERNAL_MODULES`), before verl's own
modules have taken over the names that are replaced here. Each patch names the version it is for and what it expects
of it; `tests/trainer/rl/test_patches.py` fails when that is no longer so, which is the time to look whether the patch
is still needed.
"""

import functools
import importlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import torch
from verl.plugin.platform.platform_base import PlatformBase
from verl.plugin.platform.platform_manager import PlatformRegistry

from trainer.policies.bitsandbytes_import import import_bitsandbytes

PLATFORM = "cpu"
"""Name under which the platform without a GPU is registered."""


class CpuPlatform(PlatformBase):
    """verl's idea of a device, for machines without one; verl 0.9.1 knows CUDA, ROCm and Ascend.

    Ray plans with the resource GPU all the same, because verl asks for it by that name: `ray.init(num_gpus=1)` makes
    one up. Memory figures are 0: there is no device memory.
    """

    device_name = "cpu"
    vendor_name = "cpu"

    @property
    def device_module(self) -> Any:
        """`torch.cpu`, with what verl asks of `torch.cuda` beside it."""
        return _DEVICE

    def is_available(self) -> bool:
        return True

    def current_device(self) -> Any:
        # verl writes `tensor.to(get_device_id())`, and the number 0 would mean a GPU.
        return "cpu"

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is only one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs behind the caller's back."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """The host's allocator has none."""

    def empty_cache(self) -> None:
        """The host's allocator keeps none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[int | None, int | None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """No profiler."""

    def profiler_stop(self) -> None:
        """No profiler."""

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


_DEVICE = SimpleNamespace(
    is_available=lambda: True,
    current_device=lambda: "cpu",
    device_count=lambda: 1,
    set_device=lambda index: None,
    synchronize=lambda device=None: None,
    empty_cache=lambda: None,
    ipc_collect=lambda: None,
    memory_allocated=lambda: 0,
    memory_reserved=lambda: 0,
    max_memory_allocated=lambda: 0,
    max_memory_reserved=lambda: 0,
    mem_get_info=lambda: (0, 0),
    get_device_name=lambda index=0: "cpu",
    get_rng_state=torch.get_rng_state,
    set_rng_state=torch.set_rng_state,
    current_stream=torch.cpu.current_stream,
    stream=torch.cpu.stream,
    Stream=torch.cpu.Stream,
)


def _process_group(timeout_second: int | None = None, backend: str | None = None) -> None:
    """As it is, verl 0.9.1 asks for `cpu:gloo,{device}:{backend}`, and torch refuses a device that is named twice."""
    if torch.distributed.is_initialized():
        return
    torch.distributed.init_process_group(
        backend=backend or "cpu:gloo",
        rank=int(os.environ.get("RANK", "0")),
        world_size=int(os.environ.get("WORLD_SIZE", "1")),
        timeout=None if timeout_second is None else timedelta(seconds=timeout_second),
        init_method=os.environ.get("DIST_INIT_METHOD"),
    )


def _value_model(local_path: str, torch_dtype: torch.dtype, model_config: Any, trust_remote_code: bool) -> Any:
    """As it is, verl 0.9.1 loads every critic with FlashAttention 2, and blames `trl` where that is missing.

    A head that the folder does not have begins at 0: transformers draws it, otherwise in each process, and the same
    run would not begin the same.
    """
    from transformers import AutoModelForTokenClassification

    model, found = AutoModelForTokenClassification.from_pretrained(
        local_path,
        dtype=torch_dtype,
        config=model_config,
        attn_implementation=getattr(model_config, "_attn_implementation", None) or "sdpa",
        trust_remote_code=trust_remote_code,
        output_loading_info=True,
    )
    with torch.no_grad():
        for name in found["missing_keys"]:
            model.get_parameter(name).zero_()
    return model


class WarmedUp(torch.optim.lr_scheduler.LambdaLR):
    """The learning rate of a run: it rises in `num_warmup_steps` policy steps and then stays.

    As it is, verl 0.9.1 begins at 0, and it steps this once per policy step: a whole step, all its optimizer steps,
    would teach nothing. And what is loaded from a checkpoint, here and in the optimizer, would hide a learning rate
    that has been changed since: how far the run is comes from there, the rates are those of the settings.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, num_warmup_steps: int, last_epoch: int = -1) -> None:
        super().__init__(optimizer, lambda step: min(1.0, (step + 1) / (num_warmup_steps + 1)), last_epoch)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Called when the optimizer has been loaded."""
        ours = self.base_lrs
        super().load_state_dict(state_dict)
        self.base_lrs = ours
        self._last_lr = [
            rate * part(self.last_epoch) for rate, part in zip(self.base_lrs, self.lr_lambdas, strict=True)
        ]
        for group, first, rate in zip(self.optimizer.param_groups, self.base_lrs, self._last_lr, strict=True):
            group["initial_lr"], group["lr"] = first, rate


def _unpinned(policy: type) -> type:
    """As it is, verl 0.9.1 keeps the reference model in pinned host memory, which only a driver for a GPU can pin."""

    class UnpinnedOffload(policy):
        def __init__(self, pin_memory: bool = True) -> None:
            super().__init__(pin_memory=False)

    return UnpinnedOffload


def _replace(module: str, name: str, make: Callable[[Any], Any]) -> None:
    owner = importlib.import_module(module)
    old = getattr(owner, name)
    if not getattr(old, "assay_patch", False):
        new = make(old)
        new.assay_patch = True
        setattr(owner, name, new)


def _scheduler(old: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(old)(lambda *arguments, **named: WarmedUp(*arguments, **named))


def on_cpu() -> bool:
    """Whether this process is set to work without a GPU."""
    return os.environ.get("VERL_PLATFORM", "").strip().lower() == PLATFORM


def apply() -> None:
    """Register our rollouts with verl, and fix what has to be fixed on this platform."""
    import_bitsandbytes()
    from verl.workers.rollout import base, replica

    base._ROLLOUT_REGISTRY["hf", "async"] = "trainer.rl.rollout.TransformersRollout"
    replica.RolloutReplicaRegistry.register("hf", _replica)
    # Both import vLLM, and only where it is to generate.
    base._ROLLOUT_REGISTRY["vllm", "async"] = f"{__name__}.{_VLLM_ADAPTER}"
    replica.RolloutReplicaRegistry.register("vllm", _vllm_replica)
    # A GPU without FlashAttention meets this as well.
    _replace("verl.utils.model", "load_valuehead_model", lambda old: functools.wraps(old)(_value_model))
    _replace("verl.utils.torch_functional", "get_constant_schedule_with_warmup", _scheduler)
    if on_cpu():
        _replace("verl.utils.distributed", "initialize_global_process_group_ray", lambda old: _process_group)
        _replace("torch.distributed.fsdp", "CPUOffloadPolicy", _unpinned)


def apply_to_advantages() -> None:
    """As it is, verl 0.9.1 adds up the rewards of a sequence's turns, and a turn's is its return already.

    Called by the learner: when verl imports this module, what is replaced here cannot be imported yet.
    """
    from trainer.rl.advantages import turn_gae

    def by_turns(old: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(old)(lambda *arguments, **named: turn_gae(*arguments, **named))

    _replace("verl.trainer.ppo.core_algos", "compute_gae_advantage_return", by_turns)


def _replica() -> type:
    from trainer.rl.rollout import TransformersReplica

    return TransformersReplica


_VLLM_ADAPTER = "VllmAdapter"


def __getattr__(name: str) -> type:
    """The adapter of vLLM's servers in a process that trains, which verl looks up in this module."""
    if name != _VLLM_ADAPTER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from verl.workers.rollout.vllm_rollout import ServerAdapter

    return _of_agent(ServerAdapter)


def _vllm_replica() -> type:
    from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMReplica

    return _of_agent(vLLMReplica)


def _of_agent(base: type) -> type:
    """As it is, verl 0.9.1 names a server by the number of its replica, and counts those of each agent from 0 where
    generation and updates share GPUs: Ray would refuse the server of the second agent, whose name is taken.
    """

    class NamedByAgent(base):
        def _get_server_name_prefix(self) -> str:
            return f"vllm_{self.config.custom['server_name']}_"

    return NamedByAgent


PlatformRegistry.register(PLATFORM)(CpuPlatform)
apply()
