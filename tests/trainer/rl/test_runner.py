"""A real run of verl on the CPU: two agents, two turns, PPO with a critic, against a real service; and on from there.

Each start of verl takes a minute of two free cores, so what is to be seen of a run is looked at after two of them.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trainer.policies import models
from trainer.reporting import transcripts
from trainer.reporting.metrics import read_measures
from trainer.rl.checkpoints import Checkpoints

pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).parents[3]
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
    "logging.tensorboard=false",
)
RUN = """
import json, sys
from dataclasses import asdict
from trainer.config.reading import load_config
from trainer.rl import ray_session, runner
from trainer.rl.settings import worker_environment
asked = json.loads(sys.argv[1])
configs = [load_config("cpu-demo", settings) for settings in asked["configs"]]
agents = dict.fromkeys(("generator", "optimizer"), asked["model"])
with ray_session.started(configs[0], worker_environment(configs[0])):
    for config in configs:
        summary = runner.run(config, agents=agents)
        print("SUMMARY" + json.dumps(asdict(summary), default=str))
"""


def started(model, url, folder, *starts):
    """Summaries of runs in one folder, one after another in one process. A start is its last step and settings."""
    where = (f"evaluator.url={url}", f"checkpointing.folder={folder}")
    configs = [[*SETTINGS, *where, f"algorithm.steps={steps}", *more] for steps, *more in starts]
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    # A session of its own, with all of Ray in it: a kernel that shares the cores out by sessions gives it a share,
    # where otherwise everything that the tests start would have one together.
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps({"configs": configs, "model": str(model)})],
        env={**os.environ, "PYTHONPATH": path},
        cwd=folder.parent,
        capture_output=True,
        text=True,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr[-6000:]
    lines = [line for line in done.stdout.splitlines() if line.startswith("SUMMARY")]
    return [json.loads(line.removeprefix("SUMMARY")) for line in lines]


@pytest.fixture(scope="module")
def training(request, tmp_path_factory, service):
    """A folder with a model from nothing, a run of two steps that began with it, and the run's summary.

    `make test` leaves it for `make test-all`, which goes on from a copy if all code is what it was.
    """
    kept = ROOT / ".assay" / "tests" / "training" / digest_of_code()
    if request.config.getoption("--tier") != "rest" or not (kept / "summary.json").exists():
        made = tmp_path_factory.mktemp("made")
        text = ["__global__ void relu(const float* x, float* y, int n) { y[0] = x[0]; }"] * 3
        models.make_tiny(made / "model", text, seed=0)
        # A Tester that is a model takes part; it has nothing to learn.
        tester = f"agents.tester.model_name={made / 'model'}"
        (summary,) = started(made / "model", service.url, made / "run", (2, tester))
        (made / "summary.json").write_text(json.dumps(summary))
        # Moved when it is whole: another `make test` in this checkout may be doing the same.
        shutil.rmtree(kept.parent, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made, kept)
    shutil.copytree(kept, copy := tmp_path_factory.mktemp("training") / "first")
    return copy


def digest_of_code():
    files = [path for room in ("common", "evaluator", "trainer") for path in (ROOT / room).rglob("*.py")]
    whole = hashlib.sha256()
    for path in sorted([*files, ROOT / "constraints-dev.txt", Path(__file__)]):
        whole.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes())
    return whole.hexdigest()[:16]


@pytest.fixture(scope="module")
def model(training):
    return training / "model"


@pytest.fixture(scope="module")
def first(training):
    """A run of two steps: its summary, and its folder."""
    return json.loads((training / "summary.json").read_text()), training / "run"


def weights(folder):
    return models.load_model(folder)[0].state_dict()


def test_a_run_learns_with_both_agents_and_keeps_what_it_needs_to_go_on(first, model):
    summary, folder = first
    assert (summary["steps"], summary["resumed_from"], summary["interrupted"]) == (2, None, False)
    assert (summary["episodes"], summary["left_out"], summary["failures"]) == (8, 0, 0)
    lines = [line for line in read_measures(folder) if line["kind"] == "train"]
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        for role in ROLES:
            assert line[f"{role}/gradient_norm"] > 0
            assert line[f"{role}/value_loss"] >= 0
        assert line["turns"] == 2
    checkpoint = Checkpoints(folder / "checkpoints").newest()
    assert checkpoint.step == 2
    old = weights(model)
    trained = {role: weights(checkpoint.model(role)) for role in ROLES}
    for one in trained.values():
        assert any(not torch.equal(one[name], value) for name, value in old.items())
    assert any(not torch.equal(trained["generator"][name], value) for name, value in trained["optimizer"].items())


def test_the_transcripts_say_which_tokens_and_rewards_there_were(first):
    _, folder = first
    kept = [
        line
        for path in sorted((folder / "transcripts").glob("train-*.jsonl"))
        for line in transcripts.read_transcripts(path)
    ]
    assert len(kept) == 8
    for one in kept:
        for attempt in one.conversation.attempts:
            response = attempt.written.response
            assert len(response.token_ids) == len(response.log_probs) <= 32
    assert {one.step for one in kept} == {1, 2}
    # What an untrained model writes is no kernel, about which no Tester is asked: test_agent_loop.py has one that is.
    assert all(one.conversation.turns[1].verdict is None for one in kept)
    assert all(one.conversation.turns[1].response is None for one in kept)


def test_a_run_goes_on_where_its_checkpoint_is_with_the_settings_of_now(first, model, service):
    _, folder = first
    before = read_measures(folder)
    assert any(line["kind"] == "held_out" and line["step"] == 2 for line in before)
    # The remedies for want of memory are for runs that have begun; so is a smaller learning rate.
    changed = ("algorithm.learning_rate=3e-4", "model.offload=true", "model.gradient_checkpointing=true")
    (summary,) = started(model, service.url, folder, (3, *changed))
    assert (summary["resumed_from"], summary["steps"], summary["episodes"]) == (2, 3, 12)
    lines = read_measures(folder)
    assert lines[: len(before)] == before
    rates = {line["step"]: line["generator/learning_rate"] for line in lines if line["kind"] == "train"}
    assert rates == {1: 5e-4, 2: 5e-4, 3: 3e-4}
    assert Checkpoints(folder / "checkpoints").newest().step == 3
