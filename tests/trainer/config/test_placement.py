"""GPUs for all nodes together become GPUs of each node, and no more than there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainer.config.placement import Gpus, gpus_of
from trainer.config.reading import load_config
from trainer.config.schema import TrainingConfig


def config(**resources):
    return TrainingConfig.model_validate({"resources": resources})


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, Gpus(updates=2, critic=2, generation=2)),
        ({"layout": "shared"}, Gpus(8, 0, 8)),
        ({"layout": "shared", "nodes": 2}, Gpus(8, 0, 8)),
        # Of 16 GPUs each agent has 8, which are 4 of each node.
        ({"layout": "shared", "nodes": 2, "generator_gpus": 8, "optimizer_gpus": 8}, Gpus(4, 0, 4)),
        ({"nodes": 2, "rollout_workers": 8, "actor_workers": 4, "critic_workers": 4}, Gpus(2, 2, 2)),
        # All of an agent's own GPUs that are to generate do so.
        ({"gpus_per_node": 16, "generator_gpus": 8, "optimizer_gpus": 8}, Gpus(2, 2, 4)),
    ],
)
def test_counts_are_for_all_nodes_together(resources, expected):
    found = config(**resources)
    assert [gpus_of(found, role) for role in found.roles] == [expected, expected]


def test_the_status_documents_allocation_has_a_place_for_each_of_its_roles():
    """Status document, "GPU Allocation Strategy", rl_phase: actor_training on cuda:0 to cuda:3, vllm_rollout on
    cuda:4 and cuda:5, reference_model on cuda:6, reward_computation on cuda:7.
    """
    found = load_config("allocation")
    gpus = [gpus_of(found.for_agent(role), role) for role in found.roles]
    assert gpus == [Gpus(updates=4, critic=0, generation=1, reference=1)] * 2
    assert sum(one.generation for one in gpus) == 2, "vLLM on two, one for each agent"
    assert (found.resources.evaluator_gpu, found.evaluator.embedded, found.evaluator.backend) == (True, True, "gpu")
    assert 4 + 2 + 1 + found.resources.evaluator_gpu == found.resources.gpus_per_node == 8


def test_the_evaluators_gpu_is_not_one_of_the_models():
    assert gpus_of(config(layout="shared", evaluator_gpu=True), "generator") == Gpus(7, 0, 7)
    with pytest.raises(ValidationError, match="need 8 GPUs, and there are 7"):
        config(evaluator_gpu=True)
    with pytest.raises(ValidationError, match="need 4 and 4 GPUs, and there are 7"):
        config(layout="shared", evaluator_gpu=True, generator_gpus=4, optimizer_gpus=4)
    with pytest.raises(ValidationError, match="keeps the only GPU"):
        config(layout="shared", evaluator_gpu=True, gpus_per_node=1)
    with pytest.raises(ValidationError, match="ray start --num-gpus"):
        config(layout="shared", evaluator_gpu=True, ray_address="auto")


@pytest.mark.parametrize(
    "values",
    [
        {"resources": {"layout": "shared", "reference_workers": 1}},
        {"resources": {"gpus_per_node": 9, "reference_workers": 1}, "model": {"lora_rank": 8}},
        {"resources": {"gpus_per_node": 9, "reference_workers": 1}, "algorithm": {"kl_coefficient": 0}},
    ],
)
def test_a_gpu_for_a_reference_that_is_not_there_is_refused(values):
    with pytest.raises(ValidationError, match="reference_workers 1 needs the layout split, and a model"):
        TrainingConfig.model_validate(values)


def test_two_agents_that_take_turns_on_gpus_are_not_served_by_sglang():
    def served(name, agents=2, **resources):
        optimizer = {"optimizer": None} if agents == 1 else {}
        values = {"agents": optimizer, "rollout": {"name": name}, "resources": {"layout": "shared", **resources}}
        return TrainingConfig.model_validate(values).roles

    assert len(served("vllm")) == len(served("hf")) == len(served("sglang", layout="split")) == 2
    assert len(served("sglang", agents=1, rollout_workers=1)) == 1
    for own in ({}, {"generator_gpus": 4, "optimizer_gpus": 4}):
        with pytest.raises(ValidationError, match=r"set rollout\.name vllm or hf, resources\.layout split, or"):
            served("sglang", **own)


def test_no_gpu_is_kept_for_a_critic_that_is_not_there():
    values = {"algorithm": {"name": "grpo"}, "resources": {"gpus_per_node": 6}}
    assert gpus_of(TrainingConfig.model_validate(values), "generator") == Gpus(2, 0, 2)


COUNTS = st.integers(1, 8)


@given(st.data())
def test_what_is_accepted_has_room_on_every_node(data):
    own = data.draw(st.booleans())
    resources = {
        "layout": data.draw(st.sampled_from(["shared", "split"])),
        "nodes": data.draw(st.integers(1, 2)),
        "gpus_per_node": data.draw(COUNTS),
        **{f"{name}_workers": data.draw(COUNTS) for name in ("rollout", "actor", "critic")},
        "reference_workers": data.draw(st.integers(0, 2)),
        "evaluator_gpu": data.draw(st.booleans()),
        **({f"{role}_gpus": data.draw(COUNTS) for role in ("generator", "optimizer")} if own else {}),
    }
    try:
        found = config(**resources)
    except ValidationError:
        return
    gpus = [gpus_of(found, role) for role in found.roles]
    split = resources["layout"] == "split"
    pools = [one.updates + one.critic + one.reference for one in gpus]
    used = (sum(pools) if own else pools[0]) + split * sum(one.generation for one in gpus)
    assert used <= resources["gpus_per_node"] - resources["evaluator_gpu"]
    assert all(min(one.updates, one.generation) > 0 for one in gpus)
