"""A step of GRPO and, going on from it, one of DAPO: whole runs of verl on the CPU against a real service, from a
model that was tuned: some of its kernels are right, and some are wrong. test_runner.py has PPO, with its critic.

Half of what a start of verl costs is its process and Ray, which the two runs share, and those of test_runner.py.
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

ALGORITHMS = ("grpo", "dapo")
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


@pytest.fixture(scope="module")
def learned(tuned, tmp_path_factory, service, verl):
    """A run's folder and the summaries of its two starts, of which the second has another algorithm."""
    folder = tmp_path_factory.mktemp("algorithms") / "run"
    starts = [(step, *SETTINGS, f"algorithm.name={name}") for step, name in enumerate(ALGORITHMS, start=1)]
    return folder, started(verl, tuned, service.url, folder, *starts)


def test_both_runs_end_and_the_second_goes_on_from_the_first(learned):
    _, summaries = learned
    assert [(one["steps"], one["resumed_from"]) for one in summaries] == [(1, None), (2, 1)]
    assert [(one["left_out"], one["failures"]) for one in summaries] == [(0, 0), (0, 0)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_run_learns_by_comparing_the_candidates_of_a_task(algorithm, tuned, learned):
    folder, _ = learned
    step = 1 + ALGORITHMS.index(algorithm)
    lines = [line for line in read_measures(folder) if line["kind"] == "train"]
    assert [line["step"] for line in lines] == [1, 2]
    line = lines[step - 1]
    assert line["generator/gradient_norm"] > 0
    assert "generator/value_loss" not in line, "a critic, which only PPO has"
    kept = Checkpoints(folder / "checkpoints").kept()
    models = [tuned, *(one.model("generator") for one in kept)]
    before, after = (weights(model) for model in models[step - 1 : step + 1])
    assert any(not torch.equal(after[name], value) for name, value in before.items())

    config = load_config("cpu-demo", [*SETTINGS, f"algorithm.name={algorithm}"])
    groups = {}
    for one in transcripts.read_transcripts(folder / "transcripts" / f"train-{step:06d}.jsonl"):
        (value,) = credited(one.conversation, config)
        groups.setdefault(one.conversation.task.id, []).append((value, one.conversation.attempts[0]))
    assert all(len(group) == 4 for group in groups.values())
    # DAPO draws other tasks where all candidates count for the same, and charges long answers; GRPO does neither.
    counted = [
        value
        for group in groups.values()
        for value, _ in group
        if algorithm == "grpo" or len({round(value, 6) for value, _ in group}) > 1
    ]
    assert line["generator/return_mean"] == pytest.approx(fmean(counted), abs=1e-5)
    earned = [(value, attempt.value) for group in groups.values() for value, attempt in group]
    assert {attempt.passed for group in groups.values() for _, attempt in group} == {True, False}
    if algorithm == "grpo":
        assert len(groups) == 2
        assert all(value == pytest.approx(whole) for value, whole in earned)
    else:
        assert len(groups) >= 2
        assert any(value < whole - 0.001 for value, whole in earned)
