"""A real run of verl on the CPU: two agents, two turns, PPO with a critic, against a real service; and on from there.

Each start of verl takes a minute of two free cores, so what is to be seen of a run is looked at after two of them,
which share the process and Ray with those of test_algorithms.py: half of what a start costs.
"""

import pytest
import torch

from trainer.policies import models
from trainer.reporting import transcripts
from trainer.rl.checkpoints import Checkpoints

pytestmark = pytest.mark.timeout(900)

ROLES = ("generator", "optimizer")
SETTINGS = (
    "agents.optimizer={}",
    "deterministic=true",
    "algorithm.prompts_per_step=2",
    "algorithm.mini_batch_size=2",
    "algorithm.candidates=2",
    "algorithm.micro_batch_size=4",
    "flow.max_turns=2",
    "algorithm.learning_rate=5e-4",
    # What the model writes from nothing is no kernel. Without a cost there would be nothing to learn, nor with a
    # lambda of 1, since all answers earn the same.
    "reward.format_error=-0.1",
    "algorithm.lam=0.95",
    "tasks.problems=[vector_add, relu]",
    "tasks.variants=4",
    "tasks.held_out=2",
    "tasks.wording=brief",
    "rollout.prompt_tokens=256",
    "rollout.turn_tokens=32",
    "rollout.sequence_tokens=768",
    "evaluator.embedded=false",
    "evaluator.verification=quick",
    "checkpointing.evaluate_at_start=false",
    "checkpointing.every_episodes=4",
    "checkpointing.keep=2",
    "logging.tensorboard=false",
)


def started(verl, model, url, folder, *starts):
    """Summaries of runs in one folder, each with the `measures` that the folder held when it ended. A start is its
    last step and settings.
    """
    where = (f"evaluator.url={url}", f"checkpointing.folder={folder}")
    return verl.summaries(model, [[*SETTINGS, *where, f"algorithm.steps={steps}", *more] for steps, *more in starts])


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A model from nothing."""
    folder = tmp_path_factory.mktemp("made") / "model"
    models.make_tiny(folder, ["__global__ void relu(const float* x, float* y, int n) { y[0] = x[0]; }"] * 3, seed=0)
    return folder


@pytest.fixture(scope="module")
def training(model, tmp_path_factory, service, verl):
    """The folder of a run of two steps, which began with the model, and of a third with other settings; and the
    summaries of both starts.
    """
    folder = tmp_path_factory.mktemp("training") / "run"
    # A Tester that is a model takes part; it has nothing to learn.
    tester = f"agents.tester.model_name={model}"
    # The remedies for want of memory are for runs that have begun; so is a smaller learning rate.
    changed = ("algorithm.learning_rate=3e-4", "model.offload=true", "model.gradient_checkpointing=true")
    summaries = started(verl, model, service.url, folder, (2, tester), (3, *changed))
    verl.end()  # Ray and its processes: no other file has runs, but test_algorithms.py, which comes before this one
    return folder, summaries


def weights(folder):
    return models.load_model(folder)[0].state_dict()


def test_a_run_learns_with_both_agents_and_keeps_what_it_needs_to_go_on(training, model):
    folder, (summary, _) = training
    assert (summary["steps"], summary["resumed_from"], summary["interrupted"]) == (2, None, False)
    assert (summary["episodes"], summary["left_out"], summary["failures"]) == (8, 0, 0)
    lines = [line for line in summary["measures"] if line["kind"] == "train"]
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        for role in ROLES:
            assert line[f"{role}/gradient_norm"] > 0
            assert line[f"{role}/value_loss"] >= 0
        assert line["turns"] == 2
    kept = {one.step: one for one in Checkpoints(folder / "checkpoints").kept()}
    assert sorted(kept) == [2, 3]
    checkpoint = kept[2]
    assert summary["checkpoint"] == str(checkpoint.folder)
    old = weights(model)
    trained = {role: weights(checkpoint.model(role)) for role in ROLES}
    for one in trained.values():
        assert any(not torch.equal(one[name], value) for name, value in old.items())
    assert any(not torch.equal(trained["generator"][name], value) for name, value in trained["optimizer"].items())


def test_the_transcripts_say_which_tokens_and_rewards_there_were(training):
    folder, _ = training
    kept = [
        line
        for path in sorted((folder / "transcripts").glob("train-*.jsonl"))
        for line in transcripts.read_transcripts(path)
    ]
    assert len(kept) == 12
    for one in kept:
        for attempt in one.conversation.attempts:
            response = attempt.written.response
            assert len(response.token_ids) == len(response.log_probs) <= 32
    assert {one.step for one in kept} == {1, 2, 3}
    # What an untrained model writes is no kernel, about which no Tester is asked: test_agent_loop.py has one that is.
    assert all(one.conversation.turns[1].verdict is None for one in kept)
    assert all(one.conversation.turns[1].response is None for one in kept)


def test_a_run_goes_on_where_its_checkpoint_is_with_the_settings_of_now(training):
    _, (first, second) = training
    before, after = first["measures"], second["measures"]
    assert any(line["kind"] == "held_out" and line["step"] == 2 for line in before)
    assert (second["resumed_from"], second["steps"], second["episodes"]) == (2, 3, 12)
    assert after[: len(before)] == before
    rates = {line["step"]: line["generator/learning_rate"] for line in after if line["kind"] == "train"}
    assert rates == {1: 5e-4, 2: 5e-4, 3: 3e-4}
    assert second["checkpoint"].endswith("step-000003")
