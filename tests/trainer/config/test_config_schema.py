"""The tree of settings: its defaults are the requirements', wrong values are refused, and agents have their own."""

import typing

import pytest
from pydantic import BaseModel, ValidationError

from trainer.config.schema import TrainingConfig
from trainer.config.section import Section


def sections(kind=TrainingConfig):
    yield kind
    for field in kind.model_fields.values():
        for each in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from sections(each)


def test_the_defaults_are_the_requirements():
    config = TrainingConfig()
    algorithm, resources = config.algorithm, config.resources
    assert config.model.name.startswith("Qwen/Qwen2.5-Coder-7B")
    assert (config.rollout.prompt_tokens + config.rollout.turn_tokens, resources.gpus_per_node) == (2048, 8)
    assert (resources.rollout_workers, resources.actor_workers, resources.critic_workers) == (4, 2, 2)
    assert (algorithm.ppo_epochs, algorithm.mini_batch_size, algorithm.learning_rate) == (4, 8, 1e-5)
    assert (algorithm.kl_coefficient, algorithm.clip, algorithm.gamma, algorithm.lam) == (0.02, 0.2, 1.0, 0.95)
    assert (config.flow.max_turns, config.flow.early_stop_share, config.flow.discount) == (5, 0.8, 0.9)
    assert (config.checkpointing.every_episodes, config.checkpointing.evaluate_every_episodes) == (100, 100)


def test_a_whole_conversation_fits_and_the_requirements_length_is_that_of_one_turn():
    """Requirements document, "VERL Configuration": max_sequence_length 2048 beside max_turns_per_episode 5; there a
    turn is one prompt and one answer ("Conversation Structure"). A sequence here is all turns of an agent.
    """
    config = TrainingConfig()
    rollout = config.rollout
    assert (rollout.prompt_tokens + rollout.turn_tokens, config.flow.max_turns) == (2048, 5)
    assert config.kernels_of_an_agent == 4, "the Generator writes the first of five"
    assert rollout.conversation_tokens(4) == 1536 + 4 * 512 + 3 * 512 <= rollout.sequence_tokens
    alone = TrainingConfig.model_validate({"agents": {"optimizer": None}})
    assert alone.kernels_of_an_agent == 5
    assert rollout.conversation_tokens(5) == rollout.sequence_tokens
    with pytest.raises(ValidationError, match=r"no room for the 4 kernels .* they take 5120"):
        TrainingConfig.model_validate({"rollout": {"sequence_tokens": 5119}})


@pytest.mark.parametrize(
    "section", sorted({*sections()}, key=lambda kind: kind.__name__), ids=lambda kind: kind.__name__
)
def test_every_field_is_documented_and_frozen_and_no_other_is_taken(section):
    assert issubclass(section, Section)
    for name, field in section.model_fields.items():
        nested = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
        assert nested or (field.description or "").endswith("."), name
    with pytest.raises(ValidationError):
        section(no_such_field=1)
    made = section()
    with pytest.raises(ValidationError):
        setattr(made, next(iter(section.model_fields)), None)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"algorithm": {"name": "grpo", "candidates": 1}}, "candidates must be at least 2"),
        ({"algorithm": {"name": "dapo", "advantage": "gae"}}, "needs the critic"),
        ({"algorithm": {"prompts_per_step": 4}}, "more than prompts_per_step"),
        ({"algorithm": {"prompts_per_step": 12}}, "no multiple of mini_batch_size"),
        ({"algorithm": {"micro_batch_size": 5}}, "does not divide the 32 conversations"),
        ({"rollout": {"sequence_tokens": 1000}}, "has no room"),
        ({"rollout": {"sequence_tokens": 2048}}, "has no room for the 4 kernels .* they take 5120"),
        ({"flow": {"max_turns": 7}}, "has no room for the 6 kernels .* lower one of these or flow.max_turns"),
        ({"resources": {"device": "cpu"}}, "must be hf"),
        ({"resources": {"gpus_per_node": 4}}, "need 8 GPUs, and there are 4"),
        ({"resources": {"optimizer_gpus": 2}}, "belong together"),
        ({"resources": {"generator_gpus": 5, "optimizer_gpus": 4}}, "need 5 and 4 GPUs, and there are 8"),
        ({"resources": {"generator_gpus": 4, "optimizer_gpus": 4}}, "need 8 GPUs, and there are 4"),
        ({"rollout": {"tensor_parallel": 3}}, "does not divide"),
        # Each of two agents generates on 2 of the 4.
        ({"rollout": {"tensor_parallel": 4}}, "tensor_parallel 4 does not divide the 2 GPUs of a node"),
        ({"resources": {"rollout_workers": 1}}, "resources.rollout_workers 1 .* among 2 agents"),
        ({"resources": {"nodes": 2, "actor_workers": 3}}, "resources.actor_workers 3 .* among 2 nodes"),
        ({"resources": {"nodes": 2, "rollout_workers": 2}}, "rollout_workers 2 .* among 2 agents of 2 nodes"),
        (
            {"resources": {"nodes": 2, "layout": "shared", "generator_gpus": 7, "optimizer_gpus": 8}},
            "resources.generator_gpus 7 .* among 2 nodes",
        ),
        ({"resources": {"ray_address": "ray://head:10001"}}, "Ray's client is not"),
        ({"evaluator": {"key_variable": "assay_secret"}}, "pattern"),
        ({"algorithm": {"clip": float("nan")}}, "finite"),
        ({"name": "../elsewhere"}, "pattern"),
    ],
)
def test_what_does_not_fit_together_is_refused(values, said):
    with pytest.raises(ValidationError, match=said):
        TrainingConfig.model_validate(values)


def test_an_agent_has_what_differs_for_it_and_the_run_s_values_otherwise():
    config = TrainingConfig.model_validate(
        {"agents": {"optimizer": {"learning_rate": 3e-6, "temperature": 0.5, "reward": "speedup"}}}
    )
    optimizer = config.for_agent("optimizer")
    assert (optimizer.algorithm.learning_rate, optimizer.rollout.temperature) == (3e-6, 0.5)
    assert optimizer.reward.name == "speedup"
    assert optimizer.algorithm.clip == config.algorithm.clip
    assert config.for_agent("generator") == config
    assert config.roles == ("generator", "optimizer")
    alone = TrainingConfig.model_validate({"agents": {"optimizer": None}})
    assert alone.roles == ("generator",)
    with pytest.raises(ValueError, match="no optimizer"):
        alone.for_agent("optimizer")


def test_the_run_s_folder_holds_its_name():
    assert TrainingConfig(name="first").run_folder == "runs/first"
