"""Our configuration becomes verl's, and verl agrees with it."""

import os
import subprocess
import sys
from importlib.metadata import requires
from importlib.util import find_spec

import pytest

from trainer.config.reading import load_config, ready_files
from trainer.errors import ConfigurationError
from trainer.policies import models
from trainer.rl import runner, settings
from trainer.rl.settings import (
    advantage_of,
    check_settings,
    verl_config,
    verl_settings,
    worker_environment,
    workers_of,
)

READY = [ready.name for ready in ready_files()]
SMALL = ("algorithm.prompts_per_step=8", "algorithm.mini_batch_size=4")


def composed(name, *more, role="generator"):
    return verl_config(load_config(name, list(more)), role, "/models/one")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A folder with a model: verl looks into it."""
    folder = tmp_path_factory.mktemp("model")
    models.make_tiny(folder, ["__global__ void one() {}"] * 3, seed=0)
    return folder


@pytest.mark.parametrize("name", READY)
def test_every_ready_configuration_is_one_that_verl_accepts(name, model):
    config = load_config(name, [])
    for role in config.roles:
        check_settings(role, verl_config(config, role, model))


def test_the_defaults_of_the_requirements_reach_verl():
    found = composed("requirements")
    assert found.actor_rollout_ref.actor.ppo_epochs == 4
    assert found.actor_rollout_ref.actor.ppo_mini_batch_size == 8
    assert found.actor_rollout_ref.actor.optim.lr == 1e-5
    assert found.actor_rollout_ref.actor.clip_ratio == 0.2
    assert (found.actor_rollout_ref.actor.use_kl_loss, found.actor_rollout_ref.actor.kl_loss_coef) == (True, 0.02)
    assert found.data.max_prompt_length + load_config("requirements").rollout.turn_tokens == 2048
    assert found.actor_rollout_ref.rollout.max_model_len == 6144, "all five kernels"
    assert found.algorithm.adv_estimator == "gae"
    assert found.critic.enable


def test_how_many_processes_train_is_known_before_they_are_there():
    assert workers_of(composed("requirements")) == {"actor": 2, "critic": 2}
    assert workers_of(composed("requirements", "resources.critic_workers=1")) == {"actor": 2, "critic": 1}
    assert workers_of(composed("requirements", "resources.layout=shared")) == {"actor": 8, "critic": 8}
    assert workers_of(composed("requirements", "algorithm.name=grpo")) == {"actor": 2}


@pytest.mark.parametrize("rollout", ["vllm", "sglang"])
@pytest.mark.parametrize("layout", ["shared", "split"])
def test_a_rollout_for_gpus_is_composed(rollout, layout, model):
    told = [f"rollout.name={rollout}", f"resources.layout={layout}", "agents.optimizer=null"]
    config = load_config("requirements", [*told, "rollout.sequence_tokens=16384"])
    found = verl_config(config, "generator", model)
    check_settings("generator", found)
    assert found.actor_rollout_ref.rollout.name == rollout
    assert found.actor_rollout_ref.hybrid_engine is (layout == "shared")
    assert found.actor_rollout_ref.rollout.checkpoint_engine.backend == ("naive" if layout == "shared" else "nccl")


@pytest.mark.parametrize("layout", ["shared", "split"])
def test_servers_on_small_gpus_go_without_graphs_and_get_weights_through_a_smaller_buffer(layout, model):
    told = ("rollout.enforce_eager=true", "rollout.weights_buffer_mib=256", f"resources.layout={layout}")
    found, default = (verl_config(load_config("requirements", list(more)), "generator", model) for more in (told, ()))
    check_settings("generator", found)
    rollout = found.actor_rollout_ref.rollout
    assert (rollout.enforce_eager, rollout.checkpoint_engine.update_weights_bucket_megabytes) == (True, 256)
    rollout = default.actor_rollout_ref.rollout
    assert (rollout.enforce_eager, rollout.checkpoint_engine.update_weights_bucket_megabytes) == (False, 2048)


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_run_without_the_package_that_generates_ends_before_it_begins(name, tmp_path, monkeypatch):
    told = [f"rollout.name={name}", f"checkpointing.folder={tmp_path / 'run'}", "agents.optimizer=null"]
    config = load_config("one-gpu", told)
    # Also where it is installed.
    monkeypatch.setattr(settings, "find_spec", lambda module: None if module == name else find_spec(module))
    with pytest.raises(ConfigurationError, match=f"rollout.name {name} .* is not installed") as caught:
        runner.run(config)
    wanted = next(one for one in requires("verl") if one.startswith(f"{name}=="))
    assert f"pip install {wanted.partition(';')[0].strip()})" in caught.value.remedy, "the version that verl names"
    assert not list(tmp_path.iterdir())
    settings.refuse_without_server(load_config("cpu-demo"))


def test_verl_gets_the_gpus_of_each_node():
    found = composed("requirements", "resources.nodes=2", "resources.rollout_workers=8")
    assert (found.trainer.n_gpus_per_node, found.trainer.nnodes) == (1, 2)
    rollout = found.actor_rollout_ref.rollout
    assert (rollout.n_gpus_per_node, rollout.nnodes, rollout.custom.critic_gpus_per_node) == (2, 2, 1)
    own = composed(
        "requirements",
        "resources.nodes=2",
        "resources.layout=shared",
        "resources.generator_gpus=4",
        "resources.optimizer_gpus=4",
    )
    assert (own.trainer.n_gpus_per_node, own.actor_rollout_ref.rollout.n_gpus_per_node) == (2, 2)
    placed = composed("allocation").actor_rollout_ref.rollout
    assert (placed.n_gpus_per_node, placed.custom.reference_gpus_per_node) == (1, 1)


def test_adapters_are_handed_over_as_part_of_the_weights():
    model = composed("cpu-demo", "model.lora_rank=4").actor_rollout_ref.model
    assert (model.lora_rank, model.lora.merge) == (4, True)
    assert composed("cpu-demo").actor_rollout_ref.model.lora.merge is False


@pytest.mark.parametrize(
    ("name", "advantage", "expected"),
    [
        ("ppo", "auto", "gae"),
        ("grpo", "auto", "assay_group"),
        ("dapo", "auto", "assay_group"),
        ("grpo", "turn", "assay_turn"),
        ("ppo", "leave_one_out", "assay_leave_one_out"),
    ],
)
def test_the_algorithm_names_its_advantage(name, advantage, expected):
    config = load_config("cpu-demo", [f"algorithm.name={name}", f"algorithm.advantage={advantage}"])
    assert advantage_of(config) == expected
    assert verl_config(config, "generator", "/m").critic.enable is (expected == "gae")


def test_dapo_clips_higher_and_weighs_tokens():
    actor = composed("cpu-demo", "algorithm.name=dapo").actor_rollout_ref.actor
    assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.loss_agg_mode) == (0.2, 0.28, "token-mean")


def test_the_distance_to_the_first_model_is_charged_once():
    loss, reward = composed("cpu-demo"), composed("cpu-demo", "algorithm.kl_in=reward")
    assert (loss.actor_rollout_ref.actor.use_kl_loss, loss.algorithm.use_kl_in_reward) == (True, False)
    assert (reward.actor_rollout_ref.actor.use_kl_loss, reward.algorithm.use_kl_in_reward) == (False, True)
    none = composed("cpu-demo", "algorithm.kl_coefficient=0")
    assert not none.actor_rollout_ref.actor.use_kl_loss
    assert not none.algorithm.use_kl_in_reward


def test_each_agent_has_settings_and_servers_of_its_own():
    more = ("agents.optimizer={learning_rate: 3e-4, temperature: 0.7}",)
    one, two = composed("cpu-demo", *more), composed("cpu-demo", *more, role="optimizer")
    assert two.actor_rollout_ref.actor.optim.lr == 3e-4 != one.actor_rollout_ref.actor.optim.lr
    assert two.actor_rollout_ref.rollout.temperature == 0.7
    names = {found.actor_rollout_ref.rollout.custom.server_name for found in (one, two)}
    assert len(names) == 2


def test_a_key_that_verl_does_not_have_is_refused(monkeypatch):
    config = load_config("cpu-demo", [])
    found = {**verl_settings(config, "generator", "/m"), "actor_rollout_ref.actor.learning_speed": 1}
    monkeypatch.setattr(settings, "verl_settings", lambda *_: found)
    with pytest.raises(ConfigurationError, match="learning_speed"):
        verl_config(config, "generator", "/m")


def test_what_verl_refuses_is_said(model):
    config = load_config("cpu-demo", [])
    found = verl_config(config, "generator", model)
    found.actor_rollout_ref.actor.ppo_mini_batch_size = 1024
    with pytest.raises(ConfigurationError, match="verl refuses"):
        check_settings("generator", found)


@pytest.mark.parametrize("deterministic", [True, False])
def test_in_the_deterministic_mode_a_conversation_goes_to_the_same_server_each_time(deterministic):
    """verl's router takes the hash of a request's id."""
    config = load_config("cpu-demo", [f"deterministic={str(deterministic).lower()}", "seed=7"])
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONHASHSEED"}
    command = [sys.executable, "-c", "print(hash('generator-12-0'))"]
    found = {
        subprocess.run(command, env=environment | worker_environment(config), capture_output=True, check=True).stdout
        for _ in range(2)
    }
    assert len(found) == (1 if deterministic else 2)


def test_the_deterministic_mode_is_one_request_and_one_thread_at_a_time():
    config = load_config("cpu-demo", ["deterministic=true", "resources.threads=2"])
    assert worker_environment(config)["OMP_NUM_THREADS"] == "1"
    assert verl_config(config, "generator", "/m").actor_rollout_ref.rollout.custom.one_at_a_time
