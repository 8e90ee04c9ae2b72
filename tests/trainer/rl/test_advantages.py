"""What an attempt earned is compared with the same attempt of its group."""

import numpy as np
import torch
import transfer_queue
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf
from scripted import TASK, kernel, played
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo import core_algos, ray_trainer
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, get_adv_estimator_fn

from trainer.conversation.conversation import AgentName, Flow
from trainer.conversation.episode import EpisodeSettings
from trainer.conversation.extraction import wrapped
from trainer.rl import patches
from trainer.rl.advantages import numbered, turn_gae
from trainer.rl.agent_loop import ATTEMPTS, PARTITION, AgentSlot, _output
from trainer.rl.sequences import sequence_of
from trainer.rl.trainable_agent import TrainableAgent

MASKS = st.lists(st.lists(st.integers(0, 1), min_size=12, max_size=12), min_size=1, max_size=6)


def turns_of(mask):
    """Each run of ones as an attempt: what the learner would say of conversations in which all were judged."""
    ones = mask.bool()
    begins = ones.clone()
    begins[:, 1:] &= ~ones[:, :-1]
    return torch.where(ones, begins.long().cumsum(dim=1) - 1, -1)


def estimated(name, rewards, mask, groups, attempts=None):
    """By the estimator that verl knows by this name."""
    with numbered(turns_of(mask) if attempts is None else attempts):
        return get_adv_estimator_fn(name)(
            token_level_rewards=rewards, response_mask=mask, index=np.array(groups), config=None
        )


def test_each_turn_is_compared_with_the_same_turn_of_its_group():
    mask = torch.tensor([[1, 1, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]])
    rewards = torch.tensor([[0.0, 1.0, 0.0, 3.0], [3.0, 0.0, 0.0, 5.0], [0.0, 0.0, 0.0, 9.0]])
    advantages, returns = estimated("assay_leave_one_out", rewards, mask, ["a", "a", "b"])
    assert advantages.tolist() == [[-2, -2, 0, -2], [2, 0, 2, 2], [0, 0, 0, 0]]
    assert returns.tolist() == [[1, 1, 0, 3], [3, 0, 5, 5], [9, 9, 9, 9]]


def test_an_attempt_that_could_not_be_judged_does_not_shift_those_after_it(monkeypatch):
    """Two candidates of three attempts, the first of one unjudged, through verl's own step of the learner."""
    kernels = {"whole": ("wrong_0", "wrong_1", "pass_0"), "holed": ("odd_0", "wrong_1", "pass_0")}
    credits = {"whole": (0.0, 1.0, 2.0), "holed": (None, 3.0, 6.0)}
    settings = EpisodeSettings(flow=Flow(3, single_agent=True), turn_tokens=10_000)
    rows = {}
    for number, (name, answers) in enumerate(kernels.items()):
        conversation = played([wrapped(kernel(answer)) for answer in answers], settings=settings)
        sequence = sequence_of(conversation, AgentName.GENERATOR, credits[name])
        rows[name] = {**_output(sequence, AgentSlot("1.0", number, TASK, 0, 1)).as_dict(), "uid": "generator.1.0"}
    put = {}

    def get(keys, partition_id, select_fields):
        assert partition_id == PARTITION
        found = [{name: rows[key][name] for name in select_fields if name in rows[key]} for key in keys]
        nested = {
            name: torch.nested.as_nested_tensor([row[name] for row in found], layout=torch.jagged)
            for name in found[0]
            if name != "uid"
        }
        uids = {"uid": NonTensorStack(*[row["uid"] for row in found])} if "uid" in select_fields else {}
        return TensorDict(nested | uids, batch_size=len(keys))

    monkeypatch.setattr(transfer_queue, "kv_batch_get", get)
    monkeypatch.setattr(transfer_queue, "kv_batch_put", lambda keys, partition_id, fields: put.update(fields.items()))
    learner = object.__new__(TrainableAgent)
    learner.config = OmegaConf.create(
        {
            "algorithm": {"adv_estimator": "assay_leave_one_out", "use_kl_in_reward": False, "gamma": 1, "lam": 1},
            "actor_rollout_ref": {"rollout": {"n": 2}},
        }
    )
    for order in (["whole", "holed"], ["holed", "whole"]):
        learner._compute_advantage(KVBatchMeta(partition_id=PARTITION, keys=order, tags=[{}, {}]), {})
        for name, advantages in zip(order, put["advantages"].unbind(), strict=True):
            attempts = rows[name][ATTEMPTS]
            sign = 1 if name == "holed" else -1
            # Nobody is there to compare the first attempt of the whole one with.
            expected = {-1: 0.0, 0: 0.0, 1: sign * 2.0, 2: sign * 4.0}
            assert set(attempts.tolist()) == ({-1, 1, 2} if name == "holed" else {-1, 0, 1, 2})
            assert advantages.tolist() == [expected[attempt] for attempt in attempts.tolist()]


@given(MASKS, st.integers(0, 2**31 - 1))
def test_nothing_is_learned_from_what_was_not_generated(rows, seed):
    mask = torch.tensor(rows)
    rewards = torch.rand(mask.shape, generator=torch.Generator().manual_seed(seed)) * mask
    groups = [place % 2 for place in range(len(rows))]
    advantages, returns = estimated("assay_turn", rewards, mask, groups)
    assert torch.isfinite(advantages).all()
    assert (advantages[mask == 0] == 0).all()
    assert (returns[mask == 0] == 0).all()
    # All tokens of a turn are moved alike.
    for row, turns in zip(advantages, turns_of(mask), strict=True):
        for turn in range(int(turns.max()) + 1):
            assert len(set(row[turns == turn].tolist())) == 1


def test_verl_knows_the_estimators_by_name():
    for name in ("assay_turn", "assay_leave_one_out", "assay_group"):
        assert callable(get_adv_estimator_fn(name))


# In 64ths, whose sums are exact in float32: verl's mean of equal scores is then that score.
@given(st.lists(st.integers(-64, 64).map(lambda number: number / 64), min_size=2, max_size=6))
def test_conversations_of_one_turn_are_compared_as_verl_does(scores):
    rewards = torch.zeros(len(scores), 5)
    rewards[:, 3] = torch.tensor(scores)
    mask = torch.tensor([[1, 1, 1, 1, 0]] * len(scores))
    index = np.array(["a"] * len(scores))
    ours, _ = estimated("assay_group", rewards, mask, index)
    theirs, _ = compute_grpo_outcome_advantage(rewards, mask, index)
    assert torch.allclose(ours, theirs, atol=1e-4)


def test_a_conversation_gains_nothing_by_being_longer():
    # The same credit for each turn: one turn, two, three.
    mask = torch.tensor([[1, 0, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 1, 0, 1]])
    rewards = 0.5 * mask
    advantages, returns = estimated("assay_group", rewards, mask, ["a"] * 3)
    assert advantages.tolist() == torch.zeros(3, 5).tolist()
    assert returns.tolist() == rewards.tolist()
    _, returns = turn_gae(rewards, torch.full((3, 5), 0.1), mask, 1.0, 0.95)
    assert torch.allclose(returns, rewards)


@given(MASKS, st.integers(0, 2**31 - 1), st.floats(0.5, 1), st.floats(0, 1))
def test_each_turn_is_an_episode_as_verl_estimates_it(rows, seed, gamma, lam):
    mask = torch.tensor(rows)
    mask[0, 0] = mask[0, 2] = 1
    stream = torch.Generator().manual_seed(seed)
    rewards = torch.rand(mask.shape, generator=stream, dtype=torch.float64) * mask
    values = torch.rand(mask.shape, generator=stream, dtype=torch.float64)
    _, returns = turn_gae(rewards, values, mask, gamma, lam)
    for row, turns in enumerate(turns_of(mask)):
        for turn in range(int(turns.max()) + 1):
            alone = (turns == turn).long()[None]
            _, expected = verls_own(rewards[row : row + 1] * alone, values[row : row + 1], alone, gamma, lam)
            assert torch.allclose(returns[row][alone[0] == 1], expected[0][alone[0] == 1])
    assert (returns[mask == 0] == 0).all()


def test_of_a_single_token_there_is_a_return_and_nothing_to_compare():
    mask, reward = torch.tensor([[0, 1, 0]]), torch.tensor([[0.0, 0.7, 0.0]])
    advantages, returns = turn_gae(reward, torch.zeros(1, 3), mask, 1.0, 0.95)
    assert (advantages.tolist(), returns.tolist()) == ([[0.0] * 3], reward.tolist())


def verls_own(rewards, values, mask, gamma, lam):
    function = core_algos.compute_gae_advantage_return
    # The mask of a single token cannot be whitened.
    return_of = getattr(function, "__wrapped__", function)
    pad = torch.ones(1, 2, dtype=mask.dtype)
    advantages, returns = return_of(
        torch.cat([rewards, torch.zeros(1, 2, dtype=rewards.dtype)], dim=1),
        torch.cat([values, torch.zeros(1, 2, dtype=values.dtype)], dim=1),
        torch.cat([mask, pad], dim=1),
        gamma,
        lam,
    )
    return advantages[:, :-2], returns[:, :-2]


def test_verl_estimates_by_turns_once_it_is_told_to(monkeypatch):
    monkeypatch.setattr(core_algos, "compute_gae_advantage_return", core_algos.compute_gae_advantage_return)
    patches.apply_to_advantages()
    assert ray_trainer.core_algos.compute_gae_advantage_return.assay_patch
    mask = torch.tensor([[1, 1, 0, 1, 1]])
    rewards = torch.tensor([[0.0, 1.0, 0.0, 0.0, 3.0]])
    _, returns = ray_trainer.core_algos.compute_gae_advantage_return(rewards, torch.zeros(1, 5), mask, 1.0, 1.0)
    assert returns.tolist() == [[1, 1, 0, 3, 3]]
