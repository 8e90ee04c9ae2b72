"""An agent that learns: verl's synchronous PPO trainer, stepped from outside, on samples that are already there.

verl's own loop fetches prompts, generates and learns for one model. Here one conversation is written by several
models, so the loop is the runner's: it has the conversations played, and then lets each learner do verl's step: old
log-probabilities, reference, values, advantages, updates of critic and actor, new weights for generation.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import ray
import transfer_queue
from omegaconf import DictConfig, OmegaConf, open_dict
from transfer_queue import KVBatchMeta
from verl.checkpoint_engine import CheckpointEngineManager
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.utils.config import omega_conf_to_dataclass
from verl.utils.debug import marked_timer
from verl.workers.rollout.llm_server import LLMServerManager

from trainer.rl import patches
from trainer.rl.advantages import numbered
from trainer.rl.agent_loop import ATTEMPTS, PARTITION

# Advantages are computed in this process.
patches.apply_to_advantages()

MEASURES: Final[Mapping[str, str]] = {
    "actor/pg_loss": "policy_loss",
    "actor/kl_loss": "kl",
    "actor/reward_kl_penalty": "kl_in_reward",
    "actor/ppo_kl": "kl_to_old",
    "actor/entropy": "entropy",
    "actor/pg_clipfrac": "clip_share",
    "actor/grad_norm": "gradient_norm",
    "actor/lr": "learning_rate",
    "critic/vf_loss": "value_loss",
    "critic/grad_norm": "value_gradient_norm",
    "critic/vf_explained_var": "explained_variance",
    "critic/advantages/mean": "advantage_mean",
    "critic/score/mean": "return_mean",
    "response_length/mean": "sequence_tokens_mean",
}
"""verl's names of what is reported, and ours."""

PARTS: Final = ("old_log_prob", "ref", "values", "adv", "update_critic", "update_actor")
"""Parts of a step whose time verl takes."""


class Offered:
    """Takes the place of verl's replay buffer: what the runner offers is the batch."""

    def __init__(self) -> None:
        self.batch: KVBatchMeta | None = None

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict[str, float]]:
        """The batch that was offered last; `batch_size` is what verl would have waited for."""
        batch, self.batch = self.batch, None
        if batch is None:
            raise RuntimeError("a learner was stepped without anything to learn from")
        return batch, {}


class NoPromptsError:
    """Takes the place of verl's data loader, which a checkpoint of verl asks for its state: prompts come with the
    runner, and so does their state.
    """

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """There is none."""


class TrainableAgent(PPOTrainerSync):
    """One agent: the handle of its weights, optimizer and servers, which are verl's (requirements document, "Base
    TrainableAgent Class").

    It generates with log-probs through `get_llm_client` (conversations are played in another process), learns by
    verl's PPO in `update_parameters`, and is kept by `save`; on a GPU and on a CPU.
    """

    def __init__(self, config: DictConfig, number: int, pools: dict[str, Any] | None = None) -> None:
        """`number`: its place among the agents; `pools`: resources of an earlier learner, to be shared with it."""
        self._shared_pools = pools
        self._number = number
        self._split = not config.actor_rollout_ref.hybrid_engine
        self._enable_hybrid_replicas = not self._split
        self._standalone: tuple[LLMServerManager, CheckpointEngineManager] | None = None
        super().__init__(config)

    @property
    def pools(self) -> dict[str, Any]:
        """Its resources, by verl's names."""
        found: dict[str, Any] = self.resource_pool_manager.resource_pool_dict
        return found

    def _build_replay_buffer(self) -> Offered:
        return Offered()

    def _init_dataloader(self) -> None:
        self.train_dataset = self.val_dataset = ()
        self.train_dataloader, self.train_dataloader_it = NoPromptsError(), None
        self.total_training_steps = self.steps_per_epoch = self.config.trainer.total_training_steps
        OmegaConf.set_struct(self.config, True)
        with open_dict(self.config):
            self.config.actor_rollout_ref.actor.optim.total_training_steps = self.total_training_steps
            self.config.critic.optim.total_training_steps = self.total_training_steps

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        manager, own = self.resource_pool_manager, self.config.actor_rollout_ref.rollout.custom
        for role, gpus in ((Role.Critic, own.critic_gpus_per_node), (Role.RefPolicy, own.reference_gpus_per_node)):
            # verl gives every role a place among the policy's GPUs, and those it has not got here no role at all.
            if self._split and gpus and role in manager.mapping:
                manager.resource_pool_spec[f"{role!s}_pool"] = [gpus] * self.config.trainer.nnodes
                manager.mapping[role] = f"{role!s}_pool"
        if self._shared_pools is not None:
            manager.resource_pool_dict = self._shared_pools
            manager.create_resource_pool = lambda: None

    def _setup(self) -> None:
        super()._setup()
        if self._split:
            # Servers on GPUs of their own; weights reach them over the network between the GPUs.
            servers = LLMServerManager.create(config=self.config, start_rank=100 * self._number)
            engine = omega_conf_to_dataclass(self.config.actor_rollout_ref.rollout.checkpoint_engine)
            weights = CheckpointEngineManager(
                config=engine, actor_wg=self.actor_rollout_wg, replicas=servers.get_replicas()
            )
            self._standalone = servers, weights

    def get_llm_client(self) -> Any:
        """How conversations reach the servers."""
        return self._standalone[0].get_client() if self._standalone else super().get_llm_client()

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """As verl's, which with adapters leaves the word to go without them in the batch; a critic has none."""
        done: KVBatchMeta = super()._compute_ref_log_prob(batch, metrics)
        batch.extra_info.pop("no_lora_adapter", None)
        return done

    def prepare_step(self) -> dict[str, float]:
        """Conversations have been played already."""
        return {}

    def on_sample_end(self) -> None:
        """The runner lets all servers sleep before the first learner begins."""

    def on_init_end(self) -> None:
        """Nothing may be generated with the weights that a server began with."""
        self.send_weights(self.global_steps)

    def sleep(self) -> None:
        """Let the servers give back the memory that updates need on the same GPUs."""
        if self._standalone is None:
            self.checkpoint_manager.sleep_replicas()

    def send_weights(self, step: int) -> None:
        """Hand the weights after `step` to the servers, and wake them."""
        (self._standalone[1] if self._standalone else self.checkpoint_manager).update_weights(step)

    def update_parameters(self, step: int, keys: Sequence[str]) -> dict[str, float]:
        """One step of verl on the samples of these keys. Returns measures, seconds of its parts among them."""
        tags = transfer_queue.kv_list(partition_id=PARTITION)[PARTITION]
        self.global_steps = step
        self.timing_raw: dict[str, float] = {}
        metrics: dict[str, Any] = {}
        self.replay_buffer.batch = KVBatchMeta(
            partition_id=PARTITION, keys=list(keys), tags=[dict(tags[key]) for key in keys]
        )
        with marked_timer("step", self.timing_raw):
            batch = self.step(metrics, self.timing_raw)
        self._compute_metrics(batch, metrics, self.timing_raw, global_steps=step, epoch=0)
        transfer_queue.kv_clear(keys=batch.keys, partition_id=PARTITION)
        seconds = {f"{name}_s": float(self.timing_raw[name]) for name in PARTS if name in self.timing_raw}
        return seconds | {ours: float(metrics[theirs]) for theirs, ours in MEASURES.items() if theirs in metrics}

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """As verl does, with the attempts beside the mask, row by row in the batch's order."""
        found = transfer_queue.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=[ATTEMPTS]
        )
        with numbered(found.to_padded_tensor()[ATTEMPTS]):
            return super()._compute_advantage(batch, metrics)

    def release(self) -> None:
        """End its processes, for a Ray that outlives the run: servers by name, the others with the GPUs they have."""
        servers = self._standalone[0] if self._standalone else self.llm_server_manager
        for replica in servers.get_replicas():
            for server in replica.servers:
                ray.kill(server)
            for group in (replica.resource_pool.pgs or ()) if self._standalone else ():
                ray.util.remove_placement_group(group)
        for pool in self.pools.values():
            for group in pool.pgs or ():
                ray.util.remove_placement_group(group)

    def save(self, folder: Path, step: int) -> Path:
        """Write weights, optimizers and random states; returns verl's folder `global_step_N`."""
        self.global_steps = step
        with open_dict(self.config):
            self.config.trainer.default_local_dir = str(folder)
        self._save_checkpoint()
        return folder / f"global_step_{step}"
