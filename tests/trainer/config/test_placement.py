"""GPUs for all nodes together become GPUs of each node, and no more than there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainer.config.placement import Gpus, gpus_of
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
        **({f"{role}_gpus": data.draw(COUNTS) for role in ("generator", "optimizer")} if own else {}),
    }
    try:
        found = config(**resources)
    except ValidationError:
        return
    gpus = [gpus_of(found, role) for role in found.roles]
    split = resources["layout"] == "split"
    pools = [one.updates + one.critic for one in gpus]
    used = (sum(pools) if own else pools[0]) + split * sum(one.generation for one in gpus)
    assert used <= resources["gpus_per_node"]
    assert all(min(one.updates, one.generation) > 0 for one in gpus)
