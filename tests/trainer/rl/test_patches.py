"""Every patch is for verl 0.9.1; where one of these fails after an update, look whether its patch is still needed."""

import inspect
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig

from trainer.policies import models
from trainer.rl import patches

SITE = Path(inspect.getfile(torch)).parents[1]


def source(name: str) -> str:
    return (SITE / "verl" / name).read_text(encoding="utf-8")


def test_the_version_is_the_one_that_was_patched():
    assert version("verl") == "0.9.1"


@pytest.mark.parametrize(
    ("file", "text", "why"),
    [
        (
            "utils/distributed.py",
            'backend = backend or f"cpu:gloo,{get_device_name()}:{get_nccl_backend()}"',
            "the device of the process group is named twice on a CPU",
        ),
        (
            "workers/engine/fsdp/transformer_impl.py",
            "offload_policy = CPUOffloadPolicy(pin_memory=True)",
            "the reference model is kept in pinned memory",
        ),
        (
            "workers/rollout/vllm_rollout/vllm_rollout.py",
            "prefix = self._get_server_name_prefix()",
            "an adapter finds the server by a name with a prefix of its own",
        ),
        (
            "workers/rollout/vllm_rollout/vllm_async_server.py",
            'name = f"{prefix}server_{self.replica_rank}_{node_rank}{self.name_suffix}"',
            "beside the prefix nothing in a server's name says whose it is",
        ),
        (
            "workers/rollout/sglang_rollout/async_sglang_server.py",
            'name = f"sglang_server_{self.replica_rank}_{node_rank}{self.name_suffix}"',
            "two agents on the same GPUs cannot have servers of SGLang",
        ),
        ("utils/model.py", 'attn_implementation="flash_attention_2"', "the critic wants FlashAttention 2"),
        (
            "workers/engine/fsdp/transformer_impl.py",
            "from verl.utils.model import load_valuehead_model",
            "the critic's loader is looked up when it is called",
        ),
        (
            "workers/rollout/base.py",
            '_ROLLOUT_REGISTRY = {\n    ("vllm", "async")',
            "rollouts are registered by pairs",
        ),
        (
            "workers/engine/fsdp/transformer_impl.py",
            "from verl.utils.torch_functional import get_constant_schedule_with_warmup",
            "the schedule of the learning rate is looked up when it is made",
        ),
        (
            "utils/torch_functional.py",
            "return float(current_step) / float(max(1.0, num_warmup_steps))",
            "the first step of a warm-up has no learning rate",
        ),
        (
            "workers/engine_workers.py",
            "update_lr_scheduler=batch_idx == total_num_iterations - 1",
            "the schedule goes on once per policy step",
        ),
        ("__init__.py", 'os.getenv("VERL_USE_EXTERNAL_MODULES", "")', "our module is imported by verl itself"),
        ("trainer/ppo/v1/trainer_base.py", 'partition_id="train",', "samples lie in the partition train"),
        (
            "experimental/agent_loop/agent_loop.py",
            "rm_scores[-1] = reward_score",
            "the one reward of a trajectory lies on its last token",
        ),
    ],
)
def test_verl_still_does_what_is_mended(file, text, why):
    assert text in source(file), why


def test_the_platform_has_all_that_verl_asks_a_platform_for():
    platform = patches.CpuPlatform()
    assert (platform.device_name, platform.current_device(), platform.ray_resource_name()) == ("cpu", "cpu", "GPU")
    assert torch.zeros(1).to(platform.current_device()).device.type == "cpu"
    assert platform.ray_resource_options(0.5) == {"num_gpus": 0.5}
    with platform.nvtx_range("nothing"):
        platform.synchronize()
    state = platform.device_module.get_rng_state()
    platform.manual_seed_all(3)
    platform.device_module.set_rng_state(state)
    assert torch.equal(torch.get_rng_state(), state)


LOOK = """
import sys
import torch
import verl.utils.distributed, verl.utils.model, verl.utils.torch_functional
from torch.distributed.fsdp import CPUOffloadPolicy
from verl.plugin.platform import get_platform
from verl.workers.rollout.base import get_rollout_class
from verl.workers.rollout.replica import get_rollout_replica_class
from verl.workers.engine.base import EngineRegistry
import verl.workers.engine
print(get_platform().device_name, CPUOffloadPolicy(pin_memory=True).pin_memory)
print(get_rollout_class("hf").__name__, get_rollout_replica_class("hf").__name__)
print(verl.utils.torch_functional.get_constant_schedule_with_warmup.assay_patch)
print(verl.utils.distributed.initialize_global_process_group_ray.assay_patch)
print(verl.utils.model.load_valuehead_model.assay_patch)
print(EngineRegistry.get_engine_cls("language_model", "fsdp2").__name__)
print("bitsandbytes" in sys.modules, "torch._inductor.codecache" in sys.modules, torch.compile.__name__)
"""


def test_a_process_that_imports_verl_is_mended():
    found = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LOOK],
        env={
            **os.environ,
            "VERL_USE_EXTERNAL_MODULES": "trainer.rl.patches",
            "VERL_PLATFORM": "cpu",
            "VERL_ENGINE_DEVICE": "cuda",
            "VERL_LOGGING_LEVEL": "WARNING",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.stdout.split() == [
        "cpu",
        "False",
        "TransformersRollout",
        "TransformersReplica",
        "True",
        "True",
        "True",
        "FSDPEngineWithLMHead",
        *("True", "False", "compile"),
    ], found.stderr


def with_schedule(learning_rate, warmup_steps):
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(1))], lr=learning_rate)
    return optimizer, patches.WarmedUp(optimizer=optimizer, num_warmup_steps=warmup_steps)


def rates(optimizer, scheduler, steps):
    """The learning rate of each of the next policy steps."""
    seen = []
    for _ in range(steps):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return seen


def test_the_learning_rate_rises_from_the_first_step_on():
    assert rates(*with_schedule(4.0, 3), 5) == [1.0, 2.0, 3.0, 4.0, 4.0]
    assert rates(*with_schedule(4.0, 0), 2) == [4.0, 4.0]


@pytest.mark.parametrize(
    ("learning_rate", "warmup_steps", "expected"),
    [(4.0, 3, [3.0, 4.0, 4.0]), (8.0, 3, [6.0, 8.0, 8.0]), (4.0, 7, [1.5, 2.0, 2.5]), (2.0, 0, [2.0, 2.0, 2.0])],
)
def test_a_run_that_goes_on_has_the_learning_rate_of_its_settings(learning_rate, warmup_steps, expected):
    optimizer, scheduler = with_schedule(4.0, 3)
    rates(optimizer, scheduler, 2)
    kept = optimizer.state_dict(), scheduler.state_dict()
    again, its_scheduler = with_schedule(learning_rate, warmup_steps)
    # In verl's order.
    again.load_state_dict(kept[0])
    its_scheduler.load_state_dict(kept[1])
    assert rates(again, its_scheduler, 3) == expected


def test_verl_loads_the_optimizer_before_the_schedule():
    loading = source("utils/checkpoint/fsdp_checkpoint_manager.py").partition("def load_checkpoint")[2]
    assert 0 < loading.index("self.optimizer.load_state_dict(") < loading.index("self.lr_scheduler.load_state_dict(")


def test_a_critic_that_is_new_begins_at_nothing_and_one_that_was_kept_as_it_was(tmp_path):
    models.make_tiny(tmp_path / "new", ["__global__ void one() {}"] * 3, seed=0)

    def critic(folder):
        config = AutoConfig.from_pretrained(folder, num_labels=1)
        return patches._value_model(str(folder), torch.float32, config, False)

    first = critic(tmp_path / "new")
    assert first.score.weight.abs().max() == 0
    assert first.model.embed_tokens.weight.abs().max() > 0
    with torch.no_grad():
        first.score.weight.fill_(0.5)
    first.save_pretrained(tmp_path / "kept")
    assert (critic(tmp_path / "kept").score.weight == 0.5).all()
