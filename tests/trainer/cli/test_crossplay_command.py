"""`assay-train crossplay` on a run's folder with two checkpoints of two agents."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from trainer.cli import crossplay as command
from trainer.cli.main import main
from trainer.config.reading import as_yaml, load_config
from trainer.policies import models
from trainer.policies.local_policy import SamplingSettings
from trainer.rl.checkpoints import Checkpoints


def crossplay(folder, *more):
    return CliRunner().invoke(main, ["crossplay", str(folder), *map(str, more)])


def made(folder, steps, *changes):
    folder.mkdir()
    told = [
        "evaluator.embedded=false",
        "tasks.problems=[relu]",
        "rollout.turn_tokens=8",
        "flow.max_turns=2",
        *changes,
    ]
    (folder / "config.yaml").write_text(as_yaml(load_config("cpu-demo", told)))
    checkpoints = Checkpoints(folder / "checkpoints")
    for step in steps:
        place = checkpoints.begin(step)
        for number, role in enumerate(("generator", "optimizer")):
            model = place / role / f"global_step_{step}" / "actor" / "huggingface"
            shape = models.ModelShape(hidden=32, layers=1, heads=2, intermediate=64)
            models.make_tiny(model, ["__global__ void relu() {}"] * 3, seed=10 * step + number, shape=shape)
        checkpoints.finish(step, {}, keep=9)
    return folder


def test_every_generator_plays_with_every_optimizer_and_the_table_is_kept(tmp_path, service):
    folder = made(tmp_path / "run", (4, 8))
    done = crossplay(folder, "--tasks", 2, f"evaluator.url={service.url}")
    assert done.exit_code == 0, done.output
    kept = json.loads((folder / "crossplay.json").read_text())
    pairs = [(one["generator"], one["optimizer"]) for one in kept["pairings"]]
    assert pairs == [("4", "4"), ("4", "8"), ("8", "4"), ("8", "8")]
    assert all((one["conversations"], one["left_out"]) == (2, 0) for one in kept["pairings"])
    assert kept["specialisation"] == 0, "models that write no kernel are equally good with anybody"
    assert "gain" in done.output
    assert "same checkpoint earn +0.000 more" in done.output


def test_tokens_are_drawn_as_in_an_evaluation_of_the_run(tmp_path, monkeypatch):
    folder, drawn = made(tmp_path / "run", (4,)), set()
    monkeypatch.setattr(command, "LocalPolicy", lambda model, sampling: drawn.add(sampling))
    changes = ("rollout.evaluation_temperature=0.5", "rollout.top_p=0.9")
    config = load_config(str(folder / "config.yaml"), changes)
    asyncio.run(command._played(config, Checkpoints(folder / "checkpoints").kept(), (), 0))
    assert drawn == {SamplingSettings(0.5, top_p=0.9)}


@pytest.mark.parametrize(
    ("steps", "changes", "said"),
    [
        ((4,), (), "1 checkpoints of 2 agents"),
        ((4, 8), ("agents.optimizer=null",), "2 checkpoints of 1 agents"),
        ((4, 8), ("model.lora_rank=4",), "adapters"),
    ],
)
def test_what_cannot_be_compared_is_said_at_once(tmp_path, steps, changes, said):
    refused = crossplay(made(tmp_path / "run", steps, *changes))
    assert refused.exit_code == 2
    assert said in refused.output
    nothing = crossplay(tmp_path)
    assert (nothing.exit_code, "is no run" in nothing.output) == (2, True)
