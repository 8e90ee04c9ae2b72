"""A step of GRPO and one of DAPO, each as a whole run of verl on the CPU against a real service, from a model that
was tuned: some of its kernels are right, and some are wrong. test_runner.py has PPO, with its critic.
"""

from statistics import fmean

import pytest
import torch
from test_runner import started, weights

from trainer.config.reading import load_config
from trainer.data.tasks import training_tasks
from trainer.policies import sft
from trainer.reporting import transcripts
from trainer.reporting.metrics import read_measures
from trainer.rl.checkpoints import Checkpoints
from trainer.rl.sequences import credited

pytestmark = pytest.mark.timeout(900)

PROBLEMS = ("vector_add", "relu")
SETTINGS = (
    "agents.optimizer=null",
    "flow.max_turns=1",
    "algorithm.candidates=4",
    "algorithm.micro_batch_size=8",
    "algorithm.lam=1.0",
    "rollout.turn_tokens=128",
    # Longer answers than most, so that some lose nothing.
    "algorithm.overlong_tokens=96",
)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, faces):
    """A tiny model that was taught right and wrong templates."""
    told = ("model.name=tiny", "model.warm_start.steps=100", "agents.optimizer=null", "flow.max_turns=1")
    config = load_config("cpu-demo", [*told, "evaluator.url=http://127.0.0.1:9"])
    tasks = training_tasks([face for face in faces if face.id in PROBLEMS], 4, wording="brief")
    return sft.prepare_policy(config, "generator", tasks, tmp_path_factory.mktemp("tuned"))


@pytest.mark.parametrize("algorithm", ["grpo", "dapo"])
def test_a_run_learns_by_comparing_the_candidates_of_a_task(algorithm, tuned, tmp_path, service):
    settings = (*SETTINGS, f"algorithm.name={algorithm}")
    folder = tmp_path / "run"
    summary = started(tuned, service.url, folder, 1, *settings)
    assert (summary["steps"], summary["left_out"], summary["failures"]) == (1, 0, 0)
    (line,) = [line for line in read_measures(folder) if line["kind"] == "train"]
    assert line["generator/gradient_norm"] > 0
    assert "generator/value_loss" not in line, "a critic, which only PPO has"
    checkpoint = Checkpoints(folder / "checkpoints").newest()
    old, new = weights(tuned), weights(checkpoint.model("generator"))
    assert any(not torch.equal(new[name], value) for name, value in old.items())

    config = load_config("cpu-demo", settings)
    groups = {}
    for one in transcripts.read_transcripts(folder / "transcripts" / "train-000001.jsonl"):
        (value,) = credited(one.conversation, config)
        groups.setdefault(one.conversation.task.id, []).append((value, one.conversation.attempts[0]))
    assert all(len(group) == 4 for group in groups.values())
    # DAPO draws other tasks where all candidates count for the same, and charges long answers; GRPO does neither.
    learned = [
        value
        for group in groups.values()
        for value, _ in group
        if algorithm == "grpo" or len({round(value, 6) for value, _ in group}) > 1
    ]
    assert line["generator/return_mean"] == pytest.approx(fmean(learned), abs=1e-5)
    earned = [(value, attempt.value) for group in groups.values() for value, attempt in group]
    assert {attempt.passed for group in groups.values() for _, attempt in group} == {True, False}
    if algorithm == "grpo":
        assert len(groups) == 2
        assert all(value == pytest.approx(whole) for value, whole in earned)
    else:
        assert len(groups) >= 2
        assert any(value < whole - 0.001 for value, whole in earned)
