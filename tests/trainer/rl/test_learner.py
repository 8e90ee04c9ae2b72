"""verl's trainer as it is stepped from outside: what is fixed in a step of it."""

from types import SimpleNamespace

from omegaconf import OmegaConf
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1 import trainer_base

from trainer.rl.learner import Learner


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
    learner = object.__new__(Learner)
    learner.ref_in_actor = True
    learner.config = OmegaConf.create({"actor_rollout_ref": {"rollout": {"temperature": 1.0}}})
    learner.actor_rollout_wg = SimpleNamespace(compute_log_prob=compute_log_prob)
    batch = KVBatchMeta(partition_id="train", keys=["one"], tags=[{}])
    assert learner._compute_ref_log_prob(batch, metrics={}) is batch
    assert asked[0]["no_lora_adapter"] is True
    assert "no_lora_adapter" not in batch.extra_info
