"""verl's trainer as it is stepped from outside: what is fixed in a step of it."""

from types import SimpleNamespace

from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import trainer_base

from trainer.config.reading import load_config
from trainer.rl.settings import verl_config
from trainer.rl.trainable_agent import TrainableAgent


def test_only_the_reference_goes_without_adapters(monkeypatch):
    """Its probabilities come from the policy's own process; what a critic is asked next has no adapters at all."""
    asked = []

    def compute_log_prob(batch):
        asked.append(dict(batch.extra_info))
        return batch.keys

    class Rows(dict):
        def select(self, *_):
            return self

    queue = SimpleNamespace(
        kv_batch_get=lambda **_: Rows(log_probs=[], response_mask=[]), kv_batch_put=lambda **_: None
    )
    monkeypatch.setattr(trainer_base, "tq", queue)
    monkeypatch.setattr(trainer_base, "response_from_nested", lambda values, mask: values)
    learner = object.__new__(TrainableAgent)
    learner.ref_in_actor = True
    learner.config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"temperature": 1.0}}})
    learner.actor_rollout_wg = SimpleNamespace(compute_log_prob=compute_log_prob)
    batch = KVBatchMeta(partition_id="train", keys=["one"], tags=[{}])
    assert learner._compute_ref_log_prob(batch, metrics={}) is batch
    assert asked[0]["no_lora_adapter"] is True
    assert "no_lora_adapter" not in batch.extra_info


def test_a_reference_with_gpus_of_its_own_has_a_pool_of_its_own():
    """Status document, "GPU Allocation Strategy": the reference model has a GPU for itself, as the critic may."""

    def pools(*changes):
        learner = object.__new__(TrainableAgent)
        learner.config = verl_config(load_config("allocation", list(changes)), "generator", "/models/one")
        learner._split, learner._enable_hybrid_replicas, learner._shared_pools = True, False, None
        learner.use_critic = learner.config.critic.enable
        learner._init_resource_pool_mgr()
        manager = learner.resource_pool_manager
        return {
            str(role): (manager.mapping[role], manager.resource_pool_spec[manager.mapping[role]])
            for role in (Role.Actor, Role.RefPolicy, Role.Critic)
            if role in manager.mapping
        }

    assert pools() == {"actor": ("global_pool", [4]), "ref": ("ref_pool", [1])}
    with_critic = pools("algorithm.name=ppo", "resources.critic_workers=1", "resources.actor_workers=3")
    assert with_critic == {"actor": ("global_pool", [3]), "ref": ("ref_pool", [1]), "critic": ("critic_pool", [1])}
    assert pools("resources.reference_workers=0")["ref"] == ("global_pool", [4])
